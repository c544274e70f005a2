// attention_workload.h: an attention problem as a workload.
// Owns: its options, one for each candidate of the search; its signature.
// Never: compiles or runs.
// Threads: as workload.h says.
#pragma once

#include "runtime/workload/workload.h"
#include "search/problem/signature.h"

namespace gqa {

class AttentionWorkload final : public Workload {
 public:
  explicit AttentionWorkload(const Signature& signature) : reference_{signature.problem()} {}

  std::string signature() const override { return to_text(problem()); }
  std::string name() const override { return to_text(problem()); }
  const Reference& reference() const override { return reference_; }
  Status options(int round, const DeviceSpec& device, const Effort& effort,
                 const std::function<void(const SearchCounts&)>& told, Options* options) override;
  Status program(const std::string& text, const DeviceSpec& device, Program* program) override;

 private:
  const Problem& problem() const { return std::get<Problem>(reference_.of); }

  const Reference reference_;
};

}  // namespace gqa
