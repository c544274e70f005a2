# The host device: its tile kernels and operators are built once for each instruction set and chosen at run time. Included by
# runtime/CMakeLists.txt.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(OpenMP REQUIRED COMPONENTS CXX)
# Plain -fopenmp compile and link flags: OpenMP::OpenMP_CXX would be recorded in what links to the library.
target_link_libraries(gqa_runtime PUBLIC OpenMP::OpenMP_CXX)
get_target_property(eigen_include Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)

# GCC 12 warns about its own AVX-512 header (bug 105593); Clang of loops that it does not vectorise though asked to.
set(tile_flags -O3 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>
  -fno-math-errno -fno-trapping-math -isystem ${eigen_include} -DEIGEN_DONT_PARALLELIZE
  -DEIGEN_STACK_ALLOCATION_LIMIT=1048576 -DEIGEN_NO_DEBUG)
set(tile_variants baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND tile_variants avx2 avx512 amx)
else()
  set_source_files_properties(host/tile_avx2.cc host/tile_avx512.cc host/tile_amx.cc host/ops_avx2.cc host/ops_avx512.cc
    PROPERTIES HEADER_FILE_ONLY ON)
endif()
set(flags_baseline "")
set(flags_avx2 -mavx2 -mfma -mf16c)
set(flags_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(flags_amx ${flags_avx512} -mavx512bf16 -mamx-tile -mamx-bf16)
foreach(variant IN LISTS tile_variants)
  set_source_files_properties(host/tile_${variant}.cc PROPERTIES
    COMPILE_OPTIONS "${tile_flags};${flags_${variant}}"
    OBJECT_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/host/tile_kernel.inc;${CMAKE_CURRENT_SOURCE_DIR}/host/tile_amx.inc")
  # The operators of programs: the same sets but for AMX, whose products tile.h's kernels alone use.
  set_source_files_properties(host/ops_${variant}.cc PROPERTIES
    COMPILE_OPTIONS "${tile_flags};${flags_${variant}}" OBJECT_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/host/ops.inc")
endforeach()
