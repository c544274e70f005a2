// kernel_plan.h: a program as kernels to generate and launch: the thread level.
// Owns: PlannedKernel: one launch, self-contained, so that its code is a function of it alone; plan_kernels(), which
// reads a program and its thread plans; thread_plans(), the plans worth trying for a program that has none yet.
// Never: writes code or measures.
// Threads: values and pure functions.
//
// A custom operator whose ThreadPlan names a family of search/families/candidate.h ("flash m=.. n=.." and so on) is run
// by that family's kernel: one launch, also for the merge that follows a split one. Everything else is a tile kernel: a
// custom operator under a plan "tile ...", or a plain operator.
#pragma once

#include <optional>
#include <vector>

#include "search/device_spec.h"
#include "search/families/candidate.h"
#include "search/graph/attention/attention_form.h"
#include "search/graph/ir/kernel_graph.h"
#include "search/status.h"

namespace gqa {

struct FamilyKernel {
  AttentionForm form;  // its views' tensors are of the PlannedKernel's graph
  Candidate candidate;
};

struct PlannedKernel {
  KernelGraph graph;                   // what the launch computes: arguments in the order of inputs() and outputs()
  std::vector<int> inputs, outputs;    // the program's tensors that these are
  std::optional<FamilyKernel> family;  // else a tile kernel: graph has one operator
};

struct KernelPlan {
  KernelGraph program;
  std::vector<PlannedKernel> kernels;  // in launch order
};

// Error: a thread plan that names no family, or a family that cannot run its operator.
Status plan_kernels(const KernelGraph& program, KernelPlan* plan);

// The program with thread plans, most promising first, at most `most`: families where attention_form() knows it, and
// tile kernels always.
std::vector<KernelGraph> thread_plans(const KernelGraph& program, const DeviceSpec& device, std::size_t most);

}  // namespace gqa
