// Hopper's warpgroup family on packed sequences, pages and lengths of their own: every tile under each tile scheduler,
// by the trial's own verification. Slots and rows that no sequence uses hold NaN.
#include <set>
#include <string>

#include "search/families/candidate.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

using test::problem_of;

class WarpgroupListsGpu : public test::CudaGpu {
 protected:
  // One of the kernels that differ in no more than packed heads, columns of Q in registers or the swizzle of heads:
  // that that should be fastest.
  std::vector<Candidate> tiles(const Problem& problem) const {
    std::vector<Candidate> chosen;
    std::set<std::string> seen;
    for (const Ranked& ranked : enumerate(problem, device_->spec()).ranked) {
      const WgmmaFlash* const of = std::get_if<WgmmaFlash>(&ranked.candidate.of);
      if (of == nullptr) continue;
      WgmmaFlash kind = *of;
      kind.pack = 1;
      kind.q_regs = kind.head_swizzle = 0;
      if (seen.insert(to_text(Candidate{kind})).second) chosen.push_back(ranked.candidate);
    }
    return chosen;
  }

  void expect_right(const char* text) {
    if (device_->spec().wgmma_flops <= 0) GTEST_SKIP() << "needs Hopper's wgmma";
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, tiles(p)));
  }
};

TEST_F(WarpgroupListsGpu, Packed) { expect_right("b=7,hq=8,hk=2,sq=300,sk=900,d=128,causal,packq,packk,lse"); }
TEST_F(WarpgroupListsGpu, PackedWithOnes) { expect_right("b=7,hq=4,hk=2,sq=300,sk=900,d=64,causal,packq,packk,lse=0"); }
TEST_F(WarpgroupListsGpu, PackedWithoutAMask) {
  expect_right("b=5,hq=8,hk=2,sq=300,sk=700,d=64,dtype=f16,packq,packk");
}
TEST_F(WarpgroupListsGpu, PackedWideRows) { expect_right("b=5,hq=4,hk=4,sq=200,sk=300,d=256,causal,packq,packk"); }
TEST_F(WarpgroupListsGpu, PagesOf8) { expect_right("b=5,hq=8,hk=2,sq=300,sk=900,d=128,causal,page=8,lens"); }
TEST_F(WarpgroupListsGpu, PagesOf16) { expect_right("b=5,hq=8,hk=2,sq=300,sk=900,d=64,causal,page=16,lens,lse=0"); }
TEST_F(WarpgroupListsGpu, PagesOf256) { expect_right("b=5,hq=8,hk=2,sq=300,sk=900,d=128,dv=64,page=256,lens"); }
TEST_F(WarpgroupListsGpu, PackedQueriesOnPages) {
  expect_right("b=7,hq=8,hk=2,sq=300,sk=900,d=128,causal,packq,lens,page=16");
}
TEST_F(WarpgroupListsGpu, CopiedPagesOf1) { expect_right("b=5,hq=8,hk=2,sq=300,sk=900,d=128,causal,page=1,lens"); }
TEST_F(WarpgroupListsGpu, CopiedPagesOf1WithOnes) {
  expect_right("b=5,hq=4,hk=2,sq=300,sk=900,d=64,causal,page=1,lens,lse=0");
}
TEST_F(WarpgroupListsGpu, CopiedPagesOf2) { expect_right("b=3,hq=4,hk=2,sq=300,sk=900,d=128,page=2,lens"); }
TEST_F(WarpgroupListsGpu, CopiedPagesOf3) { expect_right("b=3,hq=4,hk=4,sq=200,sk=500,d=256,causal,page=3,lens"); }
TEST_F(WarpgroupListsGpu, CopiedPagesOf7) {
  expect_right("b=7,hq=8,hk=2,sq=300,sk=900,d=128,dtype=f16,causal,packq,lens,page=7");
}
TEST_F(WarpgroupListsGpu, CopiedPagesOf12) { expect_right("b=3,hq=4,hk=2,sq=300,sk=900,d=192,dv=128,causal,page=12"); }
TEST_F(WarpgroupListsGpu, CopiedPagesOf150) { expect_right("b=3,hq=4,hk=2,sq=300,sk=900,d=96,page=150,lens"); }
TEST_F(WarpgroupListsGpu, HundredsOfShortSequences) {
  expect_right("b=700,hq=4,hk=1,sq=40,sk=64,d=64,causal,packq,packk");
}

}  // namespace
}  // namespace gqa
