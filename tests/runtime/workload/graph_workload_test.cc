// graph_workload_test.cc: the rounds of a graph's options.
#include "runtime/workload/graph_workload.h"

#include <gtest/gtest.h>

#include "search/graph/ir/canonical.h"
#include "tests/search/graph/graphs.h"
#include "tests/search/graph/programs.h"

namespace gqa {
namespace {

std::vector<std::string> names_of_round(GraphWorkload* workload, int round, const Effort& effort, bool* more) {
  Options options;
  EXPECT_TRUE(workload->options(round, *DeviceSpec::for_arch("sm_90a"), effort, {}, &options).ok());
  *more = options.more;
  std::vector<std::string> names;
  for (const Option& option : options.ranked) names.push_back(option.name);
  return names;
}

// Whatever the budget and whatever failed before it: the last round is the graph as it stands.
TEST(GraphWorkload, ItsLastRoundIsOperatorByOperator) {
  for (const double budget : {8.0, 1e-9}) {
    const KernelGraph graph = graph_of(programs::kNormLinear);
    GraphWorkload workload(graph, canonical(graph).digest, "", 1);
    bool more = true;
    const Effort effort(budget);
    EXPECT_FALSE(names_of_round(&workload, 0, effort, &more).empty());
    EXPECT_TRUE(more);
    names_of_round(&workload, 1, effort, &more);
    EXPECT_TRUE(more);
    const std::vector<std::string> last = names_of_round(&workload, 2, effort, &more);
    EXPECT_FALSE(more);
    ASSERT_FALSE(last.empty());
    for (const std::string& name : last) EXPECT_EQ(name.find("2 kernels: rms_norm; matmul |"), 0U) << name;
  }
}

}  // namespace
}  // namespace gqa
