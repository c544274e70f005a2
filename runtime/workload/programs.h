// programs.h: what is to run, as a Program: sources and launches.
// Owns: the way from a candidate, or from a graph's kernels, to a Program for a kind of device.
// Never: compiles, or asks whether it is worth trying.
// Threads: pure functions.
#pragma once

#include "runtime/program.h"
#include "search/device_spec.h"
#include "search/graph/tile/kernel_plan.h"
#include "search/status.h"

namespace gqa {

// One step, whose lengths, strides and addresses each call brings.
Program program_of(const Problem& problem, const Candidate& candidate, DeviceKind kind);

// One step, whose tensors each call brings.
Program program_of(Operation operation, DeviceKind kind);

// A step a kernel, in launch order; inputs and outputs are those of the plan's program. Error: a kernel that no block
// kernel can be generated for.
Status program_of(const KernelPlan& plan, DeviceKind kind, Program* program);

}  // namespace gqa
