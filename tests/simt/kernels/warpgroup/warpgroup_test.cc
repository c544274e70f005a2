// The warpgroup kernels, run on the CPU against float64: head dims, masks, ragged lengths, packed groups, buffers of
// their own for out, both schedulers, stages, several tiles a CTA, inputs whose maxima grow, rows that see no key.
#include <gtest/gtest.h>

#include "runtime/verify/attention_check.h"
#include "runtime/verify/reference.h"
#include "tests/simt/kernels/warpgroup/case.h"

namespace gqa::simt {
namespace {

using Case = WarpgroupCase;

class Warpgroup : public WarpgroupTest {};

TEST_P(Warpgroup, AgreesWithFloat64UnderEverySchedule) { EXPECT_TRUE(right_under(schedules())); }

INSTANTIATE_TEST_SUITE_P(
    Kernels, Warpgroup,
    ::testing::Values(
        Case{"b=1,hq=2,hk=1,sq=100,sk=200,d=64", "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0"},
        Case{"b=1,hq=2,hk=1,sq=150,sk=200,d=64,causal,dtype=f16",
             "warpgroup m=64 n=64 warps=4 stages=3 pack=1 dynamic=0 out=0", 1},
        Case{"b=1,hq=2,hk=1,sq=130,sk=130,d=128,causal",
             "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1"},
        Case{"b=2,hq=4,hk=1,sq=37,sk=150,d=80,causal", "warpgroup m=128 n=80 warps=8 stages=2 pack=4 dynamic=1 out=0",
             2},
        Case{"b=1,hq=1,hk=1,sq=70,sk=100,d=256,causal", "warpgroup m=128 n=80 warps=8 stages=2 pack=1 dynamic=0 out=0"},
        Case{"b=1,hq=2,hk=2,sq=64,sk=150,d=192,dv=128", "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0"},
        // Rows that leave from registers: fragments that are no whole fours, packed heads
        Case{"b=2,hq=2,hk=1,sq=70,sk=90,d=64,dv=80,causal",
             "warpgroup m=64 n=64 warps=4 stages=2 pack=2 dynamic=1 out=0"},
        Case{"b=1,hq=2,hk=2,sq=100,sk=90,d=32,dv=112,dtype=f16",
             "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0 queries=2"},
        // Rows that leave panel by panel: two and one of them at a time, an odd number, a last one that is narrow
        Case{"b=1,hq=2,hk=2,sq=130,sk=90,d=64,dv=256", "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=2"},
        Case{"b=1,hq=4,hk=2,sq=70,sk=90,d=64,dv=112,causal",
             "warpgroup m=128 n=64 warps=8 stages=2 pack=2 dynamic=0 out=2"},
        Case{"b=1,hq=2,hk=2,sq=130,sk=90,d=32,dv=192,dtype=f16",
             "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=3"},
        // Warpgroups of a tile that see different numbers of keys: whole blocks fewer, half blocks, packed heads
        Case{"b=1,hq=2,hk=1,sq=200,sk=200,d=64,causal",
             "warpgroup m=192 n=64 warps=12 stages=3 pack=2 dynamic=0 out=1"},
        Case{"b=1,hq=1,hk=1,sq=200,sk=330,d=64,causal",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=0 out=1"},
        Case{"b=1,hq=4,hk=1,sq=70,sk=90,d=128,causal,dtype=f16",
             "warpgroup m=192 n=80 warps=12 stages=2 pack=4 dynamic=1 out=1"},
        // A warpgroup of rows that do not exist, past which more blocks go than there are buffers
        Case{"b=1,hq=1,hk=1,sq=150,sk=500,d=64,causal", "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0"},
        Case{"b=1,hq=2,hk=1,sq=75,sk=400,d=128,causal",
             "warpgroup m=128 n=64 warps=8 stages=2 pack=2 dynamic=1 out=0 q_regs=4"},
        // The same without a mask: one or two of three, in tiles that are stored panel by panel or from registers
        Case{"b=1,hq=1,hk=1,sq=150,sk=500,d=64,dtype=f16",
             "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=0"},
        Case{"b=2,hq=4,hk=1,sq=80,sk=200,d=64", "warpgroup m=192 n=64 warps=12 stages=3 pack=4 dynamic=1 out=1"},
        Case{"b=1,hq=3,hk=1,sq=60,sk=330,d=128,dtype=f16",
             "warpgroup m=192 n=80 warps=12 stages=2 pack=1 dynamic=0 out=2 q_regs=2", 2},
        Case{"b=1,hq=3,hk=1,sq=60,sk=330,d=64,lse=0",
             "warpgroup m=192 n=64 warps=12 stages=2 pack=1 dynamic=0 out=1 ones_column=1 queries=2", 1},
        // Half blocks, whose products sum the weights
        Case{"b=1,hq=2,hk=1,sq=200,sk=300,d=64,lse=0",
             "warpgroup m=192 n=64 warps=12 stages=3 pack=1 dynamic=0 out=1 ones_column=1"},
        Case{"b=1,hq=2,hk=1,sq=200,sk=330,d=64,causal,dtype=f16,lse=0",
             "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 ones_column=1"},
        Case{"b=1,hq=4,hk=1,sq=50,sk=500,d=80,dv=64,causal,lse=0",
             "warpgroup m=128 n=96 warps=8 stages=3 pack=4 dynamic=0 out=1 ones_column=1"},
        Case{"b=1,hq=2,hk=1,sq=200,sk=330,d=64,causal,lse=0",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=1 out=1 ones_column=1 queries=2"},
        Case{"b=1,hq=4,hk=1,sq=50,sk=500,d=80,dv=64,causal,lse=0,dtype=f16",
             "warpgroup m=128 n=96 warps=8 stages=3 pack=4 dynamic=0 out=1 ones_column=1 q_regs=2"},
        Case{"b=1,hq=1,hk=1,sq=200,sk=300,d=64,dtype=f16",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=0 out=1", 1, 0, true}));

// ---- inputs made to break it

class WarpgroupInputs : public Warpgroup {
 protected:
  // For what looks at the answer itself: the kernel's, in the case.
  static void answer(const char* candidate_text, test::AttentionCase* attention,
                     const std::function<void(const ::testing::AssertionResult&)>& look) {
    Candidate candidate;
    ASSERT_TRUE(parse(candidate_text, &candidate).ok());
    EXPECT_TRUE(judged_whole({attention_source(attention->call.problem, candidate)}, [&](const Kernel& kernel) {
      look(agrees(kernel, candidate, 1, attention, schedules()));
    }));
  }

  // Dimension 0 makes the scores of the rows that `grows` picks climb by `growth`, in natural units, every 64 keys
  // towards the first ones; blocks are walked last first.
  template <typename Grows>
  static void set_climb(test::AttentionCase* attention, float growth, Grows grows) {
    const Problem& p = attention->call.problem;
    const float query = std::sqrt(static_cast<float>(p.head_dim));
    for (int i = 0; i < p.q_len; ++i)
      attention->q[static_cast<std::size_t>(i * p.head_dim)] = store(p.q_type, grows(i) ? query : 0);
    make_scores_climb(growth, attention);
    attention->slack += 1e-3;  // float32's error in scores of some hundreds
  }
};

constexpr const char* kOneHead = "b=1,hq=1,hk=1,sq=100,sk=330,d=64";
constexpr const char* kPlain = "warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=0";
constexpr const char* kOwnOut = "warpgroup m=128 n=64 warps=8 stages=3 pack=1 dynamic=1 out=1";
constexpr const char* kOnesColumn = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1";
// What a candidate can be asked for: without log-sum-exp with a ones column.
std::string problem_for(const char* candidate, const std::string& problem) {
  return problem + ",dtype=f16" + (candidate == kOnesColumn ? ",lse=0" : "");
}

// Scores climb within the second halves of blocks, not the first.
constexpr const char* kMoreKeys = "b=1,hq=1,hk=1,sq=100,sk=362,d=64";
constexpr const char* kMoreKeysUnderAMask = "b=1,hq=1,hk=1,sq=100,sk=362,d=64,causal";

// By little (the old maxima serve), by more (they are renewed), by much (each block is computed again), or never.
TEST_F(WarpgroupInputs, MaximaThatGrowFromBlockToBlock) {
  for (const float growth : {0.5F, 6.0F, 24.0F, 80.0F, -24.0F, -80.0F}) {
    for (const char* problem : {kOneHead, kMoreKeys, kMoreKeysUnderAMask})
      for (const char* candidate : {kPlain, kOwnOut, kOnesColumn}) {
        test::AttentionCase attention(problem_of(problem_for(candidate, problem)));
        set_climb(&attention, growth, [](int) { return true; });
        EXPECT_TRUE(right(candidate, 1, &attention)) << growth << candidate;
      }
  }
}

// One lane asks for it; what the others had was right, and stays so.
TEST_F(WarpgroupInputs, OneRowOutgrowsItsMaxima) {
  for (const int row : {29, 63, 99}) {
    for (const char* candidate : {kPlain, kOnesColumn})
      for (const float growth : {3.F, 24.F, 80.F}) {
        test::AttentionCase attention(problem_of(problem_for(candidate, kOneHead)));
        set_climb(&attention, growth, [&](int i) { return i == row; });
        EXPECT_TRUE(right(candidate, 1, &attention)) << row << candidate << growth;
      }
  }
}

// At, beside and far from where a stale maximum does not serve (kBelow).
TEST_F(WarpgroupInputs, AFewKeysWeighMoreOrLess) {
  for (const char* dtype : {"f16", "bf16"})
    for (const float powers : {-1000.F, -130.F, -50.F, -12.F, 1.F, 1.9F, 2.1F, 2.9F, 3.1F, 3.9F, 4.1F, 7.F, 20.F, 45.F,
                               100.F, 135.F, 1000.F})
      for (const char* candidate : {kPlain, kOnesColumn}) {
        test::AttentionCase attention(problem_of("b=1,hq=1,hk=1,sq=100,sk=300,d=64,lse=0,dtype=" + std::string(dtype)));
        set_weights(224, 16, powers, &attention);
        EXPECT_TRUE(right(candidate, 1, &attention)) << dtype << powers << candidate;
      }
}

TEST_F(WarpgroupInputs, RowsThatSeeNoKey) {
  for (const char* candidate : {kPlain, kOwnOut, kOnesColumn}) {
    const Problem problem = problem_of(problem_for(candidate, "b=1,hq=1,hk=1,sq=200,sk=100,d=64,causal"));
    test::AttentionCase attention(problem);
    answer(candidate, &attention, [&](const auto& agrees) {
      EXPECT_TRUE(agrees);
      EXPECT_EQ(0, attention.out_at(0, 0, 0, 0));
      if (problem.lse) {
        EXPECT_EQ(-INFINITY, attention.lse[0]);
      }
    });
  }
}

// Where a key is not a number every row's answer is none.
TEST_F(WarpgroupInputs, NotANumberIsSeen) {
  for (const char* candidate : {kPlain, kOnesColumn})
    for (const int key : {3, 11, 200, 325}) {
      test::AttentionCase attention(problem_of(problem_for(candidate, kOneHead)));
      attention.k[static_cast<std::size_t>(key * 64 + 5)] = 0x7fc0;
      answer(candidate, &attention, [&](const auto& agrees) {
        EXPECT_FALSE(agrees);  // nothing is equal to it
        for (int row = 0; row < 100; ++row) {
          EXPECT_TRUE(std::isnan(attention.out_at(0, 0, row, 7))) << candidate << key << " " << row;
          if (attention.call.problem.lse) {
            EXPECT_TRUE(std::isnan(attention.lse[static_cast<std::size_t>(row)]));
          }
        }
      });
    }
}

}  // namespace
}  // namespace gqa::simt
