// kernels_avx512.cc: the host's tile kernels, and the operators of its programs, for AVX-512 (F, BW, DQ, VL), FMA and
// F16C. host.cmake gives this file its instruction set; see tile_kernel.inc and ops.inc.
#define GQA_VARIANT avx512
#define GQA_VARIANT_NAME "avx512"
#define Eigen gqa_eigen_avx512
#include "runtime/host/attention/tile_kernel.inc"
#include "runtime/host/program/ops.inc"
