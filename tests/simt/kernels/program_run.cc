// program_run.cc: see program_run.h.
#include "tests/simt/kernels/program_run.h"

#include <algorithm>
#include <cstring>

#include "jit/block/tile_codegen.h"
#include "jit/codegen.h"
#include "runtime/cuda/launch/cuda_kernel.h"
#include "runtime/element.h"
#include "search/families/resources.h"
#include "search/graph/ir/graph_text.h"
#include "tests/simt/emulator/kernel_store.h"
#include "tests/simt/kernels/tile_launch.h"

namespace gqa::simt {
namespace {

std::vector<std::size_t> places_of(const TensorSpec& spec) {
  const Dims strides = strides_of(spec);
  std::vector<std::size_t> places(static_cast<std::size_t>(elements(spec.dims)));
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0;
    for (std::size_t d = spec.dims.size(); d-- > 0; rest /= spec.dims[d]) place += rest % spec.dims[d] * strides[d];
    places[i] = static_cast<std::size_t>(place);
  }
  return places;
}

std::size_t bytes_of(ElementType type) { return static_cast<std::size_t>(element_bytes(type)); }
ElementType half_type(ElementType type) { return type == ElementType::kBF16 ? ElementType::kBF16 : ElementType::kF16; }

std::string source_of(const PlannedKernel& planned) {
  return planned.family ? attention_source(planned.family->form.problem, planned.family->candidate)
                        : tile_source(planned.graph);
}

}  // namespace

ProgramTensor::ProgramTensor(const std::string& name, const TensorSpec& spec)
    : spec_(spec),
      places_(places_of(spec)),
      buffer_(name, (*std::max_element(places_.begin(), places_.end()) + 1) * bytes_of(spec.type)) {}

void ProgramTensor::set(const std::vector<double>& values) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    if (spec_.type == ElementType::kF32)
      buffer_.as<float>()[places_[i]] = value;
    else
      buffer_.as<std::uint16_t>()[places_[i]] = store(half_type(spec_.type), value);
  }
}

std::vector<double> ProgramTensor::get() const {
  std::vector<double> values;
  for (const std::size_t place : places_)
    values.push_back(spec_.type == ElementType::kF32
                         ? static_cast<double>(buffer_.as<float>()[place])
                         : static_cast<double>(load(half_type(spec_.type), buffer_.as<std::uint16_t>()[place])));
  return values;
}

std::string subject_of(const KernelPlan& plan) {
  std::string subject = to_text(plan.program);
  for (const PlannedKernel& planned : plan.kernels)
    subject += '\0' + kernel_digest(source_of(planned), embedded_headers());
  return subject;
}

Status ProgramRun::compile(const KernelPlan& plan, std::unique_ptr<ProgramRun>* run) {
  std::unique_ptr<ProgramRun> fresh(new ProgramRun(plan));
  for (const PlannedKernel& planned : plan.kernels) {
    if (!planned.family)
      if (Status s = check_tile(planned.graph); !s.ok()) return s;
    const std::string source = source_of(planned);
    std::string why;
    auto kernel = Kernel::compile(source, planned.family ? kEntryPoint : kTileEntryPoint, &why);
    if (kernel == nullptr) return {Code::kInternal, why + "\n" + source};
    fresh->kernels_.push_back(std::move(kernel));
  }
  *run = std::move(fresh);
  return {};
}

Status ProgramRun::run(const std::vector<std::vector<double>>& inputs, const Schedule& schedule,
                       std::vector<std::vector<double>>* outputs) const {
  const KernelGraph& program = plan_.program;
  Tensors tensors;
  for (const KernelTensor& tensor : program.tensors())
    tensors.push_back(std::make_unique<ProgramTensor>(tensor.name, tensor.spec));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tensors[static_cast<std::size_t>(program.inputs()[i])]->set(inputs[i]);
  for (std::size_t i = 0; i < kernels_.size(); ++i)
    if (Status s = launch(i, tensors, schedule); !s.ok())
      return {s.code(), s.message() + "\nin the kernel of\n" + to_text(plan_.kernels[i].graph)};
  outputs->clear();
  for (const int output : program.outputs()) outputs->push_back(tensors[static_cast<std::size_t>(output)]->get());
  return {};
}

Status ProgramRun::run(const std::vector<std::vector<double>>& inputs,
                       std::vector<std::vector<double>>* outputs) const {
  outputs->clear();
  for (const Schedule& schedule : schedules()) {
    std::vector<std::vector<double>> values;
    if (Status s = run(inputs, schedule, &values); !s.ok()) return s;
    if (outputs->empty()) *outputs = values;
    for (std::size_t i = 0; i < values.size(); ++i)  // bits: NaN equals itself
      if (std::memcmp(values[i].data(), (*outputs)[i].data(), values[i].size() * sizeof(double)) != 0)
        return {Code::kDeviceFailed, "a result depends on the schedule: a race, seen in " + to_text(schedule)};
  }
  return {};
}

Status ProgramRun::launch(std::size_t kernel, const Tensors& tensors, const Schedule& schedule) const {
  const PlannedKernel& planned = plan_.kernels[kernel];
  return planned.family ? launch_family(planned, *kernels_[kernel], tensors, schedule)
                        : launch_tile(planned, *kernels_[kernel], tensors, schedule);
}

Status ProgramRun::launch_tile(const PlannedKernel& planned, const Kernel& kernel, const Tensors& tensors,
                               const Schedule& schedule) const {
  std::vector<void*> pointers;
  for (const auto* these : {&planned.inputs, &planned.outputs})
    for (const int tensor : *these) pointers.push_back(tensors[static_cast<std::size_t>(tensor)]->data());
  return simt::launch_tile(planned.graph, kernel, pointers, schedule);
}

Status ProgramRun::launch_family(const PlannedKernel& planned, const Kernel& kernel, const Tensors& tensors,
                                 const Schedule& schedule) const {
  const AttentionForm& form = planned.family->form;
  const Candidate& candidate = planned.family->candidate;
  // A view's tensor is of the kernel's own graph; the program's is at the same place among inputs or outputs.
  const auto data = [&](const AttentionView& view) -> void* {
    const auto find = [&](const std::vector<int>& own, const std::vector<int>& of_program) -> void* {
      const auto at = std::find(own.begin(), own.end(), view.tensor) - own.begin();
      if (at == static_cast<std::ptrdiff_t>(own.size())) return nullptr;
      return tensors[static_cast<std::size_t>(of_program[static_cast<std::size_t>(at)])]->data();
    };
    void* input = find(planned.graph.inputs(), planned.inputs);
    return input != nullptr ? input : find(planned.graph.outputs(), planned.outputs);
  };
  const auto strides = [](const AttentionView& view) { return Strides{view.batch, view.row, view.head}; };
  Call call;
  call.place(Role::kQ, data(form.q));
  call.place(Role::kK, data(form.k));
  call.place(Role::kV, data(form.v));
  call.place(Role::kOut, data(form.out));
  call.strides(Role::kQ) = strides(form.q);
  call.strides(Role::kK) = strides(form.k);
  if (form.problem.keys_transposed()) call.strides(Role::kK).row = form.k.column;
  call.strides(Role::kV) = strides(form.v);
  call.strides(Role::kOut) = strides(form.out);
  call.scale = form.scale;
  call.slots = form.slots;
  call.problem = form.problem;
  const LaunchPlan needed = plan(call.problem, candidate);
  const Buffer partials("partials", static_cast<std::size_t>(needed.partial_floats) * sizeof(float));
  const Buffer counters("counters", std::vector<unsigned>(static_cast<std::size_t>(needed.counters)));
  AttentionParams params = params_of(call, candidate);
  params.partials = partials.as<float>();
  params.counters = counters.as<unsigned>();
  ScoreParams scores = score_params_of(call);
  void* arguments[] = {&params, &scores};  // what a kernel has no parameter for is not read
  Launch launch = {{static_cast<unsigned>(needed.blocks), 1, 1},
                   {static_cast<unsigned>(needed.threads), 1, 1},
                   static_cast<std::size_t>(needed.shared_memory),
                   arguments};
  launch.workspace = &partials;
  return kernel.launch(launch, schedule);
}

}  // namespace gqa::simt
