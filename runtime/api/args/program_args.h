// program_args.h: the tensors a caller hands a program, checked and made plain.
// Owns: every rule about them (count, rank, sizes, dtype, strides, device, alignment, overlap) and the message of each
// refusal; which of the user's tensors is which of the program's.
// Never: touches tensor data, or allocates or formats anything unless it refuses.
// Threads: constant once made.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <vector>

#include "runtime/device.h"
#include "search/graph/ir/canonical.h"

namespace gqa {

class ProgramArguments {
 public:
  // graph: as the user built it; the program has its inputs and outputs in the canonical order.
  ProgramArguments(const KernelGraph& graph, const Canonical& canonical);

  struct Given {
    const DLTensor* const* tensors;
    int count;
  };
  // *inputs and *outputs have room for all; they come in the program's order.
  Status check(const Device& device, Given inputs, Given outputs, const void** in, void** out) const;

  const std::vector<TensorSpec>& inputs() const { return input_specs_; }
  const std::vector<TensorSpec>& outputs() const { return output_specs_; }

 private:
  struct Argument {
    DLDataType dtype;
    Dims dims, strides;
    std::uintptr_t bytes;  // from the first element to the end of the last
    std::size_t place;     // among the program's inputs or outputs
  };
  static std::vector<Argument> arguments(const std::vector<TensorSpec>& specs, const std::vector<int>& order);
  static Status check_tensor(const Device& device, const char* role, std::size_t index, const Argument& expected,
                             const DLTensor* given, std::uintptr_t* address);
  Status check_apart(const void* const* in, void* const* out) const;

  std::vector<TensorSpec> input_specs_, output_specs_;
  std::vector<Argument> inputs_, outputs_;  // in the user's order
};

}  // namespace gqa
