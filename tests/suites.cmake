# gqa_test_program(NAME [OWN_HEADERS] [SLOW REGEX] [LABEL LABEL] [COST NUMBER] SOURCES...): a GoogleTest program, and a
# ctest for each of its suites. A process a suite: quicker than one a test, and a suite still cannot spoil another.
#   OWN_HEADERS  without the common precompiled header, where the language's standard is another
#   SLOW   suites whose name matches are labelled slow
#   LABEL  a label for all suites, e.g. gpu
#   COST   what takes long starts first
# Tests are compiled with little optimisation and a common precompiled header: what they test keeps its own flags.
# Each suite leaves its counts in results/ below the build's folder, where tests/harness/tally.py finds them.
find_package(GTest REQUIRED)

add_library(gqa_testing STATIC
  ${PROJECT_SOURCE_DIR}/tests/harness/testing.cc ${PROJECT_SOURCE_DIR}/tests/harness/verdicts.cc)
target_link_libraries(gqa_testing PUBLIC GTest::gtest_main PRIVATE PkgConfig::XXHASH)
target_include_directories(gqa_testing PRIVATE ${PROJECT_SOURCE_DIR})
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/harness/verdicts.cc PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS GQA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_compile_options(gqa_testing PUBLIC ${GQA_TEST_OPTIMISATION})
target_precompile_headers(gqa_testing PRIVATE <gtest/gtest.h> <algorithm> <cmath> <cstdint> <cstring> <functional> <map>
  <memory> <random> <set> <sstream> <string> <thread> <vector>)

# A header compiled with -fPIC, as libraries are, would not serve programs, which are compiled with -fPIE: neither flag.
set_target_properties(gqa_testing PROPERTIES POSITION_INDEPENDENT_CODE OFF)

function(gqa_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 suite "OWN_HEADERS" "SLOW;LABEL;COST" "")
  add_executable(${name} ${suite_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE gqa_testing)
  if(NOT suite_OWN_HEADERS)
    target_precompile_headers(${name} REUSE_FROM gqa_testing)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  add_custom_command(TARGET ${name} POST_BUILD BYPRODUCTS ${list} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}> -DOUTPUT=${list} -DRESULTS=${PROJECT_BINARY_DIR}/results
      "-DSLOW=${suite_SLOW}" "-DLABEL=${suite_LABEL}" "-DCOST=${suite_COST}"
      -P ${PROJECT_SOURCE_DIR}/tests/list_suites.cmake)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake
    "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake)
endfunction()
