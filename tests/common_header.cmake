# Sanitized builds compile the layers from a precompiled header and each folder's files as one, without which the
# sanitizers' copies of all that is inline take three times as long. So names differ that a folder's files do not share.
# Optimised builds do not: a missing include is seen there, and GCC 12 at -O3 warns of its own headers where they come
# precompiled.
target_precompile_headers(gqa_search PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory>
  <mutex> <optional> <random> <set> <sstream> <string> <string_view> <unordered_map> <utility> <variant> <vector>)
foreach(layer gqa_cache gqa_jit gqa_runtime)
  target_precompile_headers(${layer} REUSE_FROM gqa_search)
endforeach()
set(pieces gqa_search gqa_cache gqa_jit gqa_runtime cache_tests runtime_tests c_api_tests search_tests graph_tests jit_tests
  tools_tests gqa_cache_tool)
foreach(piece IN LISTS pieces)
  if(NOT TARGET ${piece})
    continue()
  endif()
  set_target_properties(${piece} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${piece} SOURCES)
  get_target_property(home ${piece} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${home})
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties(${source} TARGET_DIRECTORY ${piece} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endforeach()
