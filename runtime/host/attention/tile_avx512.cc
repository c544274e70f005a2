// tile_avx512.cc: the host's tile kernels for AVX-512 (F, BW, DQ, VL), FMA and F16C.
// host.cmake gives this file its instruction set; see tile_kernel.inc.
#define GQA_VARIANT avx512
#define GQA_VARIANT_NAME "avx512"
#define Eigen gqa_eigen_avx512
#include "runtime/host/attention/tile_kernel.inc"
