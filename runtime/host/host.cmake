# The host device: its tile kernels and operators are built once for each instruction set and chosen at run time. Included by
# runtime/CMakeLists.txt. They have `omp simd` alone of OpenMP; threads are runtime/pool.cc's.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
get_target_property(eigen_include Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)

# GCC 12 warns about its own AVX-512 header (bug 105593); Clang of loops that it does not vectorise though asked to.
if(GQA_SANITIZE)
  set(tile_optimisation -O1)
else()
  set(tile_optimisation -O3)
endif()
set(tile_flags -fopenmp-simd ${tile_optimisation} $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed> -fno-math-errno -fno-trapping-math -isystem ${eigen_include}
  -DEIGEN_DONT_PARALLELIZE -DEIGEN_STACK_ALLOCATION_LIMIT=1048576 -DEIGEN_NO_DEBUG)
set(tile_variants baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND tile_variants avx2)
  if(NOT GQA_SANITIZE)  # which take as long to compile as all else there, and are the same text
    list(APPEND tile_variants avx512 amx)
    target_compile_definitions(gqa_runtime PRIVATE GQA_HOST_AVX512)
  endif()
endif()
foreach(variant avx2 avx512 amx)
  if(NOT variant IN_LIST tile_variants)
    set_source_files_properties(host/kernels_${variant}.cc PROPERTIES HEADER_FILE_ONLY ON)
  endif()
endforeach()
set(flags_baseline "")
set(flags_avx2 -mavx2 -mfma -mf16c)
set(flags_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(flags_amx ${flags_avx512} -mavx512bf16 -mamx-tile -mamx-bf16)
# The operators of programs are built beside the tiles, for Eigen's headers take half the time; AMX has none of its own.
foreach(variant IN LISTS tile_variants)
  set_source_files_properties(host/kernels_${variant}.cc PROPERTIES
    COMPILE_OPTIONS "${tile_flags};${flags_${variant}}" SKIP_PRECOMPILE_HEADERS ON)
endforeach()
