// ops_avx512.cc: the operators of the host's programs for AVX-512 (F, BW, DQ, VL), FMA and F16C.
// host.cmake gives this file its instruction set; see ops.inc.
#define GQA_VARIANT avx512
#define GQA_VARIANT_NAME "avx512"
#define Eigen gqa_eigen_avx512
#include "runtime/host/program/ops.inc"
