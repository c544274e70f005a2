// ops_avx2.cc: the operators of the host's programs for AVX2, FMA and F16C.
// host.cmake gives this file its instruction set; see ops.inc.
#define GQA_VARIANT avx2
#define GQA_VARIANT_NAME "avx2"
#define Eigen gqa_eigen_avx2
#include "runtime/host/program/ops.inc"
