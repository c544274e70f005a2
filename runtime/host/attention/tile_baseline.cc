// tile_baseline.cc: the host's tile kernels for any processor.
// host.cmake gives this file its instruction set; see tile_kernel.inc.
#define GQA_VARIANT baseline
#define GQA_VARIANT_NAME "baseline"
#define Eigen gqa_eigen_baseline
#include "runtime/host/attention/tile_kernel.inc"
