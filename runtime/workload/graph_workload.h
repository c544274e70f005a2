// graph_workload.h: a user's graph as a workload.
// Owns: its options, one for each program of the search under each thread plan, proved again; the search's report as
// evidence; its signature, the canonical digest and the config.
// Never: compiles or runs.
// Threads: as workload.h says.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/workload/contenders.h"
#include "runtime/workload/workload.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/ir/canonical.h"

namespace gqa {

// A graph's signature is "graph " and its digest; " config=..." follows where one was asked for.
inline constexpr std::string_view kGraphSignature = "graph ";

class GraphWorkload final : public Workload {
 public:
  // `graph`: with inputs and outputs in canonical order. `digest`: its. `config`: "" or a name of config_names().
  GraphWorkload(KernelGraph graph, const Digest& digest, std::string config, std::uint64_t seed);

  std::string signature() const override;
  std::string name() const override { return signature(); }
  const Reference& reference() const override { return reference_; }
  // Programs that cannot overflow are a round of their own; the others come after it.
  Status options(int round, const DeviceSpec& device, const Effort& effort,
                 const std::function<void(const SearchCounts&)>& told, Options* options) override;
  Status program(const std::string& text, const DeviceSpec& device, Program* program) override;
  const char* unmade() const override { return "not proved"; }

 private:
  const KernelGraph& graph() const { return std::get<KernelGraph>(reference_.of); }
  Option option(const Contender& contender, DeviceKind kind, const Effort& effort) const;
  Status search(const DeviceSpec& device, const Effort& effort, const std::function<void(const SearchCounts&)>& told);

  const Reference reference_;
  const Digest digest_;
  const std::string config_;
  const std::uint64_t seed_;
  SearchResult found_;
};

}  // namespace gqa
