# Sanitized builds compile the layers from a precompiled header and in pieces of eight files, without which the
# sanitizers' copies of all that is inline take three times as long. Optimised builds do not: a missing include is seen
# there, and GCC 12 at -O3 warns of its own headers where they come precompiled.
target_precompile_headers(gqa_search PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory>
  <mutex> <optional> <random> <set> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
foreach(layer gqa_cache gqa_jit gqa_runtime)
  target_precompile_headers(${layer} REUSE_FROM gqa_search)
endforeach()
set(pieces gqa_search gqa_cache gqa_jit gqa_runtime cache_tests runtime_tests c_api_tests search_tests graph_tests jit_tests
  tools_tests gqa_cache_tool)
foreach(piece IN LISTS pieces)
  if(TARGET ${piece})
    set_target_properties(${piece} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endforeach()
