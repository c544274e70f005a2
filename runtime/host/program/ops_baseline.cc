// ops_baseline.cc: the operators of the host's programs for any processor.
// host.cmake gives this file its instruction set; see ops.inc.
#define GQA_VARIANT baseline
#define GQA_VARIANT_NAME "baseline"
#define Eigen gqa_eigen_baseline
#include "runtime/host/program/ops.inc"
