# gqa_test_program(NAME [OWN_HEADERS] [ASAN] [SLOW REGEX] [LABEL LABEL] [COST NUMBER] SOURCES...): a GoogleTest program,
# and a ctest for each of its suites. A process a suite: quicker than one a test, and a suite still cannot spoil another.
#   OWN_HEADERS  without the common precompiled header, where the language's standard is another
#   ASAN   suites are labelled asan, but for the slow ones: the asan build runs them too, and they are the same there
#   SLOW   suites whose name matches are labelled slow
#   LABEL  a label for all suites, e.g. gpu
#   COST   what takes long starts first
#   OPTIONAL  built by a target of its own; where it is not built its ctest is skipped
# Tests are compiled with little optimisation and a common precompiled header: what they test keeps its own flags.
# Each suite leaves its counts in results/ below the build's folder, where tests/harness/tally.py finds them.
#
# Targets, of what tools/test runs:
#   all       whatever a ctest runs, but for what is OPTIONAL: tools/test --full
#   ordinary  without programs whose suites are all labelled asan: ctest -LE '^asan$', where the asan stage runs
#   ordinary_but_simt  and without the emulated kernels, where no change can break them
#   quick     without the emulated kernels: ctest -E '^simt_tests' -LE '^slow$'
find_package(GTest REQUIRED)

add_custom_target(ordinary)
add_custom_target(ordinary_but_simt)
add_custom_target(quick)

# What ctests run beside GoogleTest's programs.
function(gqa_ctests_run)
  add_dependencies(ordinary ${ARGV})
  add_dependencies(ordinary_but_simt ${ARGV})
  add_dependencies(quick ${ARGV})
endfunction()

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

# What ctest is told of a program that is not there: by name, with the labels that its suites would have.
function(gqa_not_built name result)
  cmake_parse_arguments(PARSE_ARGV 2 suite "ASAN;OPTIONAL" "LABEL" "")
  set(labels ${suite_LABEL})
  if(suite_ASAN)
    list(APPEND labels asan)
  endif()
  set(test ${name}_NOT_BUILT)
  if(suite_OPTIONAL)
    set(text "add_test(${test} \"${CMAKE_COMMAND}\" -E echo \"skipped: ${name} is not built\")\n")
    string(APPEND text "set_tests_properties(${test} PROPERTIES SKIP_REGULAR_EXPRESSION skipped)\n")
  else()
    set(text "add_test(${test} ${test})\n")
  endif()
  string(APPEND text "set_tests_properties(${test} PROPERTIES LABELS \"${labels}\")\n")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

function(gqa_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 suite "OWN_HEADERS;ASAN;OPTIONAL" "SLOW;LABEL;COST" "")
  add_executable(${name} ${suite_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE gqa_testing)
  if(NOT suite_OWN_HEADERS)
    target_precompile_headers(${name} REUSE_FROM gqa_testing)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  add_custom_command(TARGET ${name} POST_BUILD BYPRODUCTS ${list} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}> -DOUTPUT=${list} -DRESULTS=${PROJECT_BINARY_DIR}/results
      "-DSLOW=${suite_SLOW}" "-DLABEL=${suite_LABEL}" "-DCOST=${suite_COST}" "-DASAN=${suite_ASAN}"
      -P ${PROJECT_SOURCE_DIR}/tests/list_suites.cmake)
  set(kind)
  foreach(flag ASAN OPTIONAL)
    if(suite_${flag})
      list(APPEND kind ${flag})
    endif()
  endforeach()
  gqa_not_built(${name} not_built LABEL "${suite_LABEL}" ${kind})
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake
    "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n${not_built}endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake)
  if(suite_OPTIONAL)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  if(NOT suite_ASAN OR suite_SLOW)
    add_dependencies(ordinary ${name})
  endif()
  if(NOT name STREQUAL "simt_tests")
    add_dependencies(quick ${name})
    if(NOT suite_ASAN OR suite_SLOW)
      add_dependencies(ordinary_but_simt ${name})
    endif()
  endif()
endfunction()
