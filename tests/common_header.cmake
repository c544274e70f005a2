# The presets' builds compile the layers from a precompiled header, which takes a third off; those of users, the demo's
# and the wheel's do not, so that a missing include is seen there. Sanitized builds go on: files in pieces of eight,
# without which the sanitizers' copies of all that is inline take three times as long.
target_precompile_headers(gqa_search PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory>
  <mutex> <optional> <random> <set> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
foreach(layer gqa_cache gqa_jit gqa_runtime)
  target_precompile_headers(${layer} REUSE_FROM gqa_search)
endforeach()
if(NOT GQA_SANITIZE)
  return()
endif()
set(pieces gqa_search gqa_cache gqa_jit gqa_runtime cache_tests runtime_tests c_api_tests search_tests graph_tests jit_tests
  tools_tests gqa_cache_tool)
foreach(piece IN LISTS pieces)
  if(TARGET ${piece})
    set_target_properties(${piece} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endforeach()
