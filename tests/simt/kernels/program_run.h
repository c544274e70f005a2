// program_run.h: a program that the search found, kernel by kernel under the emulator.
// Owns: the compiled kernels of a KernelPlan, the tensors as guarded buffers in their types and strides, launches.
// Never: judges values: program_test.cc compares them with evaluate().
// Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "search/graph/tile/kernel_plan.h"
#include "tests/simt/emulator/kernel.h"

namespace gqa::simt {

// A tensor's elements in its type and with its strides, poison between them.
class ProgramTensor {
 public:
  ProgramTensor(const std::string& name, const TensorSpec& spec);
  void set(const std::vector<double>& values);  // row-major, rounded to the type
  std::vector<double> get() const;
  void* data() const { return buffer_.data(); }
  const Buffer& bytes() const { return buffer_; }

 private:
  TensorSpec spec_;
  std::vector<std::size_t> places_;  // of the elements in row-major order
  Buffer buffer_;
};

// What decides a program's verdict: its text and its kernels'.
std::string subject_of(const KernelPlan& plan);

class ProgramRun {
 public:
  // Error: the first kernel that does not compile, with its source.
  static Status compile(const KernelPlan& plan, std::unique_ptr<ProgramRun>* run);

  // Outputs in the order of the program's outputs(), row-major. Error: a launch's, with what its kernel computes.
  Status run(const std::vector<std::vector<double>>& inputs, const Schedule& schedule,
             std::vector<std::vector<double>>* outputs) const;
  // Under every schedule; error: one that gives other bits.
  Status run(const std::vector<std::vector<double>>& inputs, std::vector<std::vector<double>>* outputs) const;

 private:
  using Tensors = std::vector<std::unique_ptr<ProgramTensor>>;
  explicit ProgramRun(KernelPlan plan) : plan_(std::move(plan)) {}
  Status launch(std::size_t kernel, const Tensors& tensors, const Schedule& schedule) const;
  Status launch_family(const PlannedKernel& planned, const Kernel& kernel, const Tensors& tensors,
                       const Schedule& schedule) const;
  Status launch_tile(const PlannedKernel& planned, const Kernel& kernel, const Tensors& tensors,
                     const Schedule& schedule) const;

  KernelPlan plan_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace gqa::simt
