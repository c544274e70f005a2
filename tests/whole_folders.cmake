# Test programs, and in sanitized builds the layers too, compile each folder's files as one: what is inline is compiled once
# a folder, not once a file, which is a third of the time. So names differ that a folder's files do not share. Sanitized
# layers have a precompiled header besides. Optimised layers have neither: a missing include is seen there, and GCC 12 at
# -O3 warns of its own headers where they come precompiled.
function(gqa_compile_whole_folders target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  get_target_property(home ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${home})
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

foreach(target cache_tests runtime_tests c_api_tests search_tests graph_tests jit_tests tools_tests)
  if(TARGET ${target})
    gqa_compile_whole_folders(${target})
  endif()
endforeach()

if(GQA_SANITIZE)
  target_precompile_headers(gqa_search PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map>
    <memory> <mutex> <optional> <random> <set> <sstream> <string> <string_view> <unordered_map> <utility> <variant>
    <vector>)
  foreach(layer gqa_cache gqa_jit gqa_runtime)
    target_precompile_headers(${layer} REUSE_FROM gqa_search)
  endforeach()
  foreach(layer gqa_search gqa_cache gqa_jit gqa_runtime gqa_cache_tool)
    if(TARGET ${layer})
      gqa_compile_whole_folders(${layer})
    endif()
  endforeach()
endif()
