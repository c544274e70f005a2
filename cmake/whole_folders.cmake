# A folder's files are compiled as one: what is inline, and a header of the standard library, is compiled once a folder,
# not once a file. That halves a build. So names differ that a folder's files do not share.
# Files with flags of their own (the host's kernels) stay apart: CMake leaves them out of a group.
# Sanitized layers have a precompiled header besides; optimised ones do not, as GCC 12 warns of its own headers then.
# Two prices: after a change its whole folder is compiled (the preset `dev` has GQA_WHOLE_FOLDERS off), and an include that
# is missing may be a neighbour's (tests/syntax.py compiles files one by one).
function(gqa_compile_whole_folders target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  get_target_property(home ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${home} OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE source)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

set(layers gqa_search gqa_cache gqa_jit gqa_runtime)
if(GQA_SANITIZE)
  target_precompile_headers(gqa_search PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map>
    <memory> <mutex> <optional> <random> <set> <sstream> <string> <string_view> <unordered_map> <utility> <variant>
    <vector>)
  foreach(layer gqa_cache gqa_jit gqa_runtime)
    target_precompile_headers(${layer} REUSE_FROM gqa_search)
  endforeach()
endif()
if(GQA_WHOLE_FOLDERS)
  foreach(target ${layers} gqa gqa_cache_tool cache_tests runtime_tests host_tests runtime_gpu_tests c_api_tests
      search_tests graph_tests graph_slow_tests jit_tests tools_tests gqa_cpp_tests timed_tests thread_tests)
    if(TARGET ${target})
      gqa_compile_whole_folders(${target})
    endif()
  endforeach()
endif()
