// Warpgroups that share the keys of the same rows, on the CPU against float64: even and odd numbers of blocks, one
// block, causal and ragged lengths, several tiles a CTA, rows that see no key, maxima that grow in one part or another.
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
  float growth = 0;  // of the scores, from each 64 keys to the 64 before
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.problem << " | " << c.candidate; }

class WarpgroupShare : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
};

TEST_P(WarpgroupShare, AgreesWithFloat64UnderEverySchedule) {
  static std::map<std::string, std::unique_ptr<Kernel>> kernels;
  Problem problem;
  Candidate candidate;
  ASSERT_TRUE(parse(GetParam().problem, &problem).ok());
  ASSERT_TRUE(parse(GetParam().candidate, &candidate).ok());
  const std::string source = attention_source(problem, candidate);
  std::string why;
  if (kernels[source] == nullptr) kernels[source] = Kernel::compile(source, kEntryPoint, &why);
  ASSERT_NE(nullptr, kernels[source]) << why;
  test::AttentionCase attention(problem);
  if (GetParam().growth != 0) {
    for (int j = 0; j < problem.kv_len; ++j)
      attention.k[static_cast<std::size_t>(j * problem.head_dim)] =
          store(problem.dtype, GetParam().growth * static_cast<float>((problem.kv_len - 1 - j) / 64));
    attention.slack += 1e-2;
  }
  const Status status = run_warpgroup(*kernels[source], candidate, GetParam().processors, &attention, schedules());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(test::matches_float64(attention));
}

constexpr const char* kFour = "warpgroup m=64 n=64 warps=8 stages=4 pack=1 draw=0 out=1";
constexpr const char* kTwo = "warpgroup m=64 n=128 warps=8 stages=2 pack=1 draw=1 out=1";

INSTANTIATE_TEST_SUITE_P(Blocks, WarpgroupShare,
                         ::testing::Values(Case{"b=1,hq=3,hk=1,sq=60,sk=250,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=3,hk=1,sq=60,sk=300,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=3,hk=1,sq=60,sk=40,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=3,hk=1,sq=60,sk=120,d=64,dtype=f16", kFour},
                                           Case{"b=1,hq=1,hk=1,sq=300,sk=300,d=64,dtype=f16,causal", kFour},
                                           Case{"b=1,hq=2,hk=1,sq=260,sk=330,d=64,dtype=f16,causal", kFour, 3},
                                           Case{"b=1,hq=1,hk=1,sq=300,sk=100,d=64,dtype=f16,causal", kFour},
                                           Case{"b=1,hq=1,hk=1,sq=100,sk=400,d=64,dtype=f16", kFour, 1, 100},
                                           Case{"b=1,hq=1,hk=1,sq=100,sk=400,d=64,dtype=f16", kFour, 1, -100},
                                           Case{"b=1,hq=2,hk=1,sq=150,sk=500,d=128", kTwo},
                                           Case{"b=1,hq=2,hk=1,sq=150,sk=130,d=128", kTwo},
                                           Case{"b=1,hq=2,hk=1,sq=300,sk=300,d=128,causal", kTwo, 2}));

}  // namespace
}  // namespace gqa::simt
