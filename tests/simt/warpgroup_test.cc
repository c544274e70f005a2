// The warpgroup kernels, run on the CPU against float64: head dims, masks, ragged lengths, packed groups, buffers of
// their own for out, drawn tiles, stages, several tiles a CTA, inputs whose maxima grow, rows that see no key.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "jit/codegen.h"
#include "tests/simt/warpgroup_launch.h"

namespace gqa::simt {
namespace {

struct Case {
  const char* problem;
  const char* candidate;
  int processors = 1;
  bool heads_first = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.problem << " | " << c.candidate; }

// Kernels outlive a test: several run the same.
const Kernel* kernel_for(const Problem& problem, const Candidate& candidate, std::string* why) {
  static std::map<std::string, std::unique_ptr<Kernel>> kernels;
  const std::string source = attention_source(problem, candidate);
  std::unique_ptr<Kernel>& kernel = kernels[source];
  if (kernel == nullptr) kernel = Kernel::compile(source, kEntryPoint, why);
  return kernel.get();
}

class Warpgroup : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }

  static ::testing::AssertionResult right(const char* candidate_text, int processors, test::AttentionCase* attention,
                                          const std::vector<Schedule>& wanted = schedules()) {
    Candidate candidate;
    if (Status s = parse(candidate_text, &candidate); !s.ok()) return ::testing::AssertionFailure() << s.message();
    std::string why;
    const Kernel* kernel = kernel_for(attention->call.problem, candidate, &why);
    if (kernel == nullptr) return ::testing::AssertionFailure() << why;
    if (Status s = run_warpgroup(*kernel, candidate, processors, attention, wanted); !s.ok())
      return ::testing::AssertionFailure() << s.message();
    return test::matches_float64(*attention);
  }
  static Problem problem_of(const std::string& text) {
    Problem problem;
    EXPECT_TRUE(parse(text, &problem).ok()) << text;
    return problem;
  }
};

TEST_P(Warpgroup, AgreesWithFloat64UnderEverySchedule) {
  test::AttentionCase attention(problem_of(GetParam().problem), GetParam().heads_first);
  EXPECT_TRUE(right(GetParam().candidate, GetParam().processors, &attention));
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Warpgroup,
    ::testing::Values(
        Case{"b=1,hq=2,hk=1,sq=100,sk=200,d=64", "warpgroup m=64 n=64 warps=4 stages=2 pack=1 draw=0 out=0"},
        Case{"b=1,hq=2,hk=1,sq=150,sk=200,d=64,causal,dtype=f16",
             "warpgroup m=64 n=64 warps=4 stages=3 pack=1 draw=0 out=0", 1},
        Case{"b=1,hq=2,hk=1,sq=130,sk=130,d=128,causal", "warpgroup m=128 n=64 warps=8 stages=2 pack=1 draw=1 out=1"},
        Case{"b=2,hq=4,hk=1,sq=37,sk=150,d=80,causal", "warpgroup m=128 n=80 warps=8 stages=2 pack=4 draw=1 out=0", 2},
        Case{"b=1,hq=1,hk=1,sq=70,sk=100,d=256,causal", "warpgroup m=128 n=80 warps=8 stages=2 pack=1 draw=0 out=0"},
        Case{"b=1,hq=2,hk=2,sq=64,sk=150,d=192,dv=128", "warpgroup m=64 n=64 warps=4 stages=2 pack=1 draw=0 out=0"},
        Case{"b=1,hq=1,hk=1,sq=200,sk=300,d=64,dtype=f16",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 draw=0 out=1", 1, true}));

}  // namespace
}  // namespace gqa::simt
