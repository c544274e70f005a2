// operation_workload.h: what one kernel does for all shapes, as a workload: of one option.
// Owns: its names, its signature, the option.
// Never: compiles or runs.
// Threads: as workload.h says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/workload/workload.h"

namespace gqa {

// What its winner is kept under: "append".
std::string signature_of(Operation operation);
// None: of another workload.
std::optional<Operation> operation_of(const std::string& signature);
// "appends to a cache".
const char* what_it_does(Operation operation);

// What calls of a problem may need beside its attention.
std::vector<Operation> operations_beside(const Problem& problem);

class OperationWorkload final : public Workload {
 public:
  explicit OperationWorkload(Operation operation) : operation_(operation), reference_{operation} {}

  std::string signature() const override { return signature_of(operation_); }
  std::string name() const override;
  const Reference& reference() const override { return reference_; }
  Status options(int round, const DeviceSpec& device, const Effort& effort,
                 const std::function<void(const SearchCounts&)>& told, Options* options) override;
  Status program(const std::string& text, const DeviceSpec& device, Program* program) override;

 private:
  const Operation operation_;
  const Reference reference_;
};

}  // namespace gqa
