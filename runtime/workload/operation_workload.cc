// operation_workload.cc: see operation_workload.h.
#include "runtime/workload/operation_workload.h"

#include "runtime/workload/programs.h"

namespace gqa {
namespace {

struct Words {
  const char *signature, *name, *does;
};
constexpr Words kWords[] = {{"append", "appending to a cache", "appends to a cache"},
                            {"merge", "merging states", "merges states"}};
static_assert(std::size(kWords) == kOperations.size());
const Words& words(Operation operation) { return kWords[index_of(operation)]; }

}  // namespace

std::string signature_of(Operation operation) { return words(operation).signature; }
const char* what_it_does(Operation operation) { return words(operation).does; }

std::optional<Operation> operation_of(const std::string& signature) {
  for (const Operation operation : kOperations)
    if (signature == words(operation).signature) return operation;
  return std::nullopt;
}

std::vector<Operation> operations_beside(const Problem& problem) {
  std::vector<Operation> operations;
  if (problem.lse) operations.push_back(Operation::kMergeStates);
  if (problem.lengths_differ()) operations.push_back(Operation::kAppend);
  return operations;
}

std::string OperationWorkload::name() const { return words(operation_).name; }

Status OperationWorkload::options(int, const DeviceSpec& device, const Effort&,
                                  const std::function<void(const SearchCounts&)>&, Options* options) {
  Option& only = options->ranked.emplace_back();
  only.name = program_of(operation_, device.kind).text;
  only.kernels = {only.name};
  only.make = [operation = operation_, kind = device.kind](Program* program) {
    *program = program_of(operation, kind);
    return Status();
  };
  options->counts.enumerated = 1;
  return {};
}

Status OperationWorkload::program(const std::string& text, const DeviceSpec& device, Program* program) {
  *program = program_of(operation_, device.kind);
  if (text == program->text) return {};
  return {Code::kInternal, "it is '" + text + "', expected '" + program->text + "'"};
}

}  // namespace gqa
