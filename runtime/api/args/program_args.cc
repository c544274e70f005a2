// program_args.cc: see program_args.h. The first rule that is broken answers.
#include "runtime/api/args/program_args.h"

#include <string>

#include "runtime/api/args/args.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/verify/program_reference.h"

namespace gqa {
namespace {

std::string name_of(const char* role, std::size_t index) { return std::string(role) + " " + std::to_string(index); }

std::string list_text(const std::int64_t* values, std::size_t count) { return to_text(Dims(values, values + count)); }

Status check_dims(const char* role, std::size_t index, const Dims& expected, const DLTensor& given) {
  if (given.ndim != static_cast<int>(expected.size()))
    return {Code::kRank, name_of(role, index) + " has " + std::to_string(given.ndim) + " dimensions, expected " +
                             std::to_string(expected.size()) + ": " + to_text(expected)};
  if (given.shape == nullptr)
    return {Code::kNullArgument, name_of(role, index) + "'s shape is NULL, expected " + to_text(expected)};
  for (std::size_t at = 0; at < expected.size(); ++at) {
    if (given.shape[at] != expected[at])
      return {Code::kShape, name_of(role, index) + " has sizes " + list_text(given.shape, expected.size()) +
                                ", expected " + to_text(expected) + ": a program is for the sizes of its graph"};
  }
  return {};
}

// Without strides a tensor is row-major without gaps. Along a dimension of size 1 nothing is ever stepped.
Status check_strides(const char* role, std::size_t index, const Dims& dims, const Dims& expected,
                     const DLTensor& given) {
  std::int64_t compact = 1;
  for (std::size_t at = dims.size(); at-- > 0; compact *= dims[at]) {
    const std::int64_t stride = given.strides != nullptr ? given.strides[at] : compact;
    if (dims[at] == 1 || stride == expected[at]) continue;
    return {
        Code::kStride,
        name_of(role, index) + " has " +
            (given.strides != nullptr ? "strides " + list_text(given.strides, dims.size()) : "no strides") +
            ", expected " + to_text(expected) +
            (*role == 'i' ? ": copy it, or declare these strides with gqa_graph_input" : ": give a compact tensor")};
  }
  return {};
}

Status check_count(const char* role, std::size_t expected, int given, const DLTensor* const* tensors) {
  if (given != static_cast<int>(expected))
    return {Code::kOption, std::to_string(given) + " " + role + "s were given, expected " + std::to_string(expected)};
  if (tensors == nullptr && expected > 0)
    return {Code::kNullArgument, std::string(role) + "s is NULL, expected " + std::to_string(expected) + " tensors"};
  return {};
}

struct Range {
  std::uintptr_t first, last;
};

Status overlap(std::size_t output, const Range& written, const char* role, std::size_t index, const Range& other) {
  const auto text = [](const Range& range) {
    return "[" + address_text(range.first) + ", " + address_text(range.last) + ")";
  };
  return {Code::kAlias, name_of("output", output) + " touches bytes " + text(written) + ", which overlap " +
                            name_of(role, index) + "'s " + text(other) + ": give it memory of its own"};
}

}  // namespace

ProgramArguments::ProgramArguments(const KernelGraph& graph, const Canonical& canonical) {
  for (const int input : graph.inputs()) input_specs_.push_back(graph.spec(input));
  for (const int output : graph.outputs()) output_specs_.push_back({graph.spec(output).dims, graph.spec(output).type});
  inputs_ = arguments(input_specs_, canonical.inputs);
  outputs_ = arguments(output_specs_, canonical.outputs);
}

std::vector<ProgramArguments::Argument> ProgramArguments::arguments(const std::vector<TensorSpec>& specs,
                                                                    const std::vector<int>& order) {
  const std::vector<int> places = inverse(order);
  std::vector<Argument> made;
  for (std::size_t at = 0; at < specs.size(); ++at) {
    const TensorSpec& spec = specs[at];
    made.push_back({dl_type(spec.type), spec.dims, strides_of(spec), static_cast<std::uintptr_t>(tensor_bytes(spec)),
                    static_cast<std::size_t>(places[at])});
  }
  return made;
}

Status ProgramArguments::check_tensor(const Device& device, const char* role, std::size_t index,
                                      const Argument& expected, const DLTensor* given, std::uintptr_t* address) {
  if (given == nullptr)
    return {Code::kNullArgument, name_of(role, index) + " is NULL, expected a tensor of " + to_text(expected.dims)};
  if (Status s = check_dims(role, index, expected.dims, *given); !s.ok()) return s;
  if (!same(given->dtype, expected.dtype))
    return {Code::kDtype,
            name_of(role, index) + " is " + dtype_text(given->dtype) + ", expected " + dtype_text(expected.dtype)};
  if (!owned(device, given->device)) return check_on_device(device, name_of(role, index), given->device);
  if (Status s = check_strides(role, index, expected.dims, expected.strides, *given); !s.ok()) return s;
  if (given->data == nullptr)
    return {Code::kNullArgument, name_of(role, index) + "'s data is NULL, expected a pointer to its elements"};
  *address = reinterpret_cast<std::uintptr_t>(given->data) + given->byte_offset;
  if (*address % kVectorBytes == 0) return {};
  return {Code::kAlignment, name_of(role, index) + "'s data plus byte_offset is " + address_text(*address) +
                                ", expected a multiple of " + std::to_string(kVectorBytes) + " bytes: copy the tensor"};
}

Status ProgramArguments::check(const Device& device, Given inputs, Given outputs, const void** in, void** out) const {
  if (Status s = check_count("input", inputs_.size(), inputs.count, inputs.tensors); !s.ok()) return s;
  if (Status s = check_count("output", outputs_.size(), outputs.count, outputs.tensors); !s.ok()) return s;
  std::uintptr_t address = 0;
  for (std::size_t at = 0; at < inputs_.size(); ++at) {
    if (Status s = check_tensor(device, "input", at, inputs_[at], inputs.tensors[at], &address); !s.ok()) return s;
    in[inputs_[at].place] = reinterpret_cast<const void*>(address);
  }
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    if (Status s = check_tensor(device, "output", at, outputs_[at], outputs.tensors[at], &address); !s.ok()) return s;
    out[outputs_[at].place] = reinterpret_cast<void*>(address);
  }
  return check_apart(in, out);
}

Status ProgramArguments::check_apart(const void* const* in, void* const* out) const {
  const auto range = [](const void* start, const Argument& argument) {
    const auto first = reinterpret_cast<std::uintptr_t>(start);
    return Range{first, first + argument.bytes};
  };
  const auto touch = [](const Range& a, const Range& b) { return a.first < b.last && b.first < a.last; };
  for (std::size_t at = 0; at < outputs_.size(); ++at) {
    const Range written = range(out[outputs_[at].place], outputs_[at]);
    for (std::size_t other = 0; other < inputs_.size(); ++other) {
      const Range read = range(in[inputs_[other].place], inputs_[other]);
      if (touch(written, read)) return overlap(at, written, "input", other, read);
    }
    for (std::size_t other = 0; other < at; ++other) {
      const Range before = range(out[outputs_[other].place], outputs_[other]);
      if (touch(written, before)) return overlap(at, written, "output", other, before);
    }
  }
  return {};
}

}  // namespace gqa
