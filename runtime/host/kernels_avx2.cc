// kernels_avx2.cc: the host's tile kernels, and the operators of its programs, for AVX2, FMA and F16C.
// host.cmake gives this file its instruction set; see tile_kernel.inc and ops.inc.
#define GQA_VARIANT avx2
#define GQA_VARIANT_NAME "avx2"
#define Eigen gqa_eigen_avx2
#include "runtime/host/attention/tile_kernel.inc"
#include "runtime/host/program/ops.inc"
