// kernels_baseline.cc: the host's tile kernels, and the operators of its programs, for any processor.
// host.cmake gives this file its instruction set; see tile_kernel.inc and ops.inc.
#define GQA_VARIANT baseline
#define GQA_VARIANT_NAME "baseline"
#define Eigen gqa_eigen_baseline
#include "runtime/host/attention/tile_kernel.inc"
#include "runtime/host/program/ops.inc"
