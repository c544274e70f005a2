# thread_tests: what the thread sanitizer can find a race in: the files that start threads, or run product code that does
# (a tuner's compile pool and a lease's renewal in every miss, parallel_for in all that the host computes, references on a
# number of threads). docs/performance/tests.md says what was left out. c_api_tests stay a program of their own: they see
# the shared library alone.
set(thread_sources
  cache/foreign_export_test.cc
  cache/process_test.cc
  cache/store_test.cc
  cache/version_test.cc
  runtime/cuda/launch/launch_numbers_test.cc
  runtime/cuda/launch/tensor_map_test.cc
  runtime/cuda/trial/trial_stream_test.cc
  runtime/cuda/workspace/workspace_test.cc
  runtime/host/host_arrays_trial_test.cc
  runtime/host/host_cache_test.cc
  runtime/host/host_device_test.cc
  runtime/host/host_merger_test.cc
  runtime/host/host_packed_test.cc
  runtime/host/host_program_test.cc
  runtime/host/host_scores_test.cc
  runtime/host/run_delay_test.cc
  runtime/pages/page_pool_test.cc
  runtime/parallel_test.cc
  runtime/session/cancel_test.cc
  runtime/session/graph_session_test.cc
  runtime/session/operations_test.cc
  runtime/session/prepared_test.cc
  runtime/session/session_test.cc
  runtime/thread_limits_test.cc
  runtime/tuner/forecast_test.cc
  runtime/tuner/tuner_test.cc
  runtime/verify/operation_case_test.cc
  runtime/verify/program_reference_test.cc
  runtime/workload/masked_program_test.cc)
file(GLOB thread_c_sources CONFIGURE_DEPENDS runtime/api/*_c_test.cc)
list(REMOVE_ITEM thread_c_sources ${CMAKE_CURRENT_SOURCE_DIR}/runtime/api/graph_fuzz_c_test.cc)  # graphs alone

# A test that starts threads is not forgotten.
file(GLOB_RECURSE others CONFIGURE_DEPENDS cache/*_test.cc runtime/*_test.cc)
list(FILTER others EXCLUDE REGEX "_(gpu|timed|c)_test\\.cc$")
foreach(source IN LISTS others)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE path)
  file(STRINGS ${source} starts REGEX "std::(thread|jthread|async)")
  if(starts AND NOT path IN_LIST thread_sources)
    message(FATAL_ERROR "tests/${path} starts threads; tests/threads.cmake does not name it")
  endif()
endforeach()

gqa_test_program(thread_tests SLOW "^Spellings/" ${thread_sources})
target_include_directories(thread_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/cache ${GQA_CUDA_H_DIR})
target_link_libraries(thread_tests PRIVATE gqa_runtime nlohmann_json::nlohmann_json SQLite::SQLite3 Threads::Threads)
target_compile_definitions(thread_tests PRIVATE GQA_FIXTURE_DIR="${CMAKE_CURRENT_SOURCE_DIR}/cache/fixtures")
gqa_test_program(c_api_tests runtime/api/c_api.cc ${thread_c_sources})
target_link_libraries(c_api_tests PRIVATE gqa Threads::Threads)
target_include_directories(c_api_tests PRIVATE ${PROJECT_SOURCE_DIR})
