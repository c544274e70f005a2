// kernels_amx.cc: the host's tile kernels for AVX-512 with AMX: bfloat16 tile products on the matrix unit, float16 as
// AVX-512. host.cmake gives this file its instruction set; see tile_kernel.inc.
#define GQA_VARIANT amx
#define GQA_VARIANT_NAME "amx"
#define Eigen gqa_eigen_amx
#include "runtime/host/attention/tile_kernel.inc"
