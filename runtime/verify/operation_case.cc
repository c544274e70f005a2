// operation_case.cc: see operation_case.h.
#include "runtime/verify/operation_case.h"

#include "runtime/verify/append_case.h"
#include "runtime/verify/merge_case.h"

namespace gqa {
namespace {

Status measure(OperationCase* one, const LoadedProgram& program, TrialMemory* memory, std::vector<Measured>* outputs) {
  if (Status status = one->place(memory); !status.ok()) return status;
  if (Status status = one->run(program, memory); !status.ok()) return status;
  *outputs = one->measured();
  for (Measured& output : *outputs) output.inputs = one->inputs();
  return {};
}

}  // namespace

std::size_t case_count(Operation operation) {
  return operation == Operation::kAppend ? append_kinds().size() : merge_sizes().size();
}

std::unique_ptr<OperationCase> make_case(Operation operation, std::size_t number) {
  if (operation == Operation::kAppend) return std::make_unique<AppendCase>(append_kinds()[number]);
  return std::make_unique<MergeCase>(merge_sizes()[number]);
}

Verdict verify(OperationCase* one, const LoadedProgram& program, TrialMemory* memory) {
  return verify(1, [&](std::size_t, std::vector<Measured>* outputs) { return measure(one, program, memory, outputs); });
}

Verdict verify(Operation operation, const LoadedProgram& program, const Effort& effort, const MakeMemory& make_memory) {
  return verify(case_count(operation), [&](std::size_t number, std::vector<Measured>* outputs) {
    if (Status status = effort.check(); !status.ok()) return status;
    const std::unique_ptr<OperationCase> one = make_case(operation, number);
    const std::unique_ptr<TrialMemory> memory = make_memory();
    return measure(one.get(), program, memory.get(), outputs);
  });
}

}  // namespace gqa
