// The warpgroup kernels, run on the CPU against float64: head dims, masks, ragged lengths, packed groups, buffers of
// their own for out, both schedulers, stages, several tiles a CTA, inputs whose maxima grow, rows that see no key.
#include <gtest/gtest.h>

#include "runtime/verify/attention_check.h"
#include "runtime/verify/reference.h"
#include "tests/full_run.h"
#include "tests/simt/kernels/warpgroup_case.h"

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
        Case{"b=1,hq=2,hk=1,sq=200,sk=500,d=64,lse=0",
             "warpgroup m=128 n=64 warps=8 stages=3 pack=1 dynamic=0 out=1 ones_column=1 exp2_fma=4"},
        Case{"b=1,hq=2,hk=1,sq=200,sk=330,d=64,causal,lse=0",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=1 out=1 ones_column=1 queries=2 exp2_fma=2"},
        Case{"b=1,hq=2,hk=1,sq=200,sk=500,d=64,lse=0,dtype=f16",
             "warpgroup m=128 n=64 warps=8 stages=3 pack=1 dynamic=0 out=1 ones_column=1 exp2_fma=4"},
        Case{"b=1,hq=2,hk=1,sq=200,sk=330,d=64,causal,lse=0,dtype=f16",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=1 out=1 ones_column=1 queries=2 exp2_fma=2"},
        // A scale folded into Q
        Case{"b=1,hq=2,hk=1,sq=200,sk=500,d=64,lse=0,dtype=f16",
             "warpgroup m=128 n=64 warps=8 stages=3 pack=1 dynamic=0 out=1 ones_column=1 folded_scale=1"},
        Case{"b=1,hq=2,hk=1,sq=200,sk=330,d=64,causal,lse=0,dtype=f16",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=1 out=1 ones_column=1 folded_scale=1 queries=2"},
        Case{"b=1,hq=4,hk=1,sq=50,sk=500,d=80,dv=64,causal,lse=0,dtype=f16",
             "warpgroup m=128 n=96 warps=8 stages=3 pack=4 dynamic=0 out=1 ones_column=1 folded_scale=1 exp2_fma=4 "
             "q_regs=2"},
        Case{"b=1,hq=1,hk=1,sq=200,sk=300,d=64,dtype=f16",
             "warpgroup m=192 n=128 warps=12 stages=2 pack=1 dynamic=0 out=1", 1, 0, true}));

// ---- inputs made to break it

class WarpgroupInputs : public Warpgroup {
 protected:
  // What is asked here is a matter of numbers, not of order: all orders in full runs.
  static ::testing::AssertionResult right(const char* candidate, int sms, test::AttentionCase* attention) {
    static const std::vector<Schedule> one = {schedules().back()};
    return simt::right(candidate, sms, attention, test::full_run() ? schedules() : one);
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
constexpr const char* kExp2Fma =
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1 exp2_fma=2";
constexpr const char* kFoldedScale =
    "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1 folded_scale=1";
constexpr const char* kFoldedScaleFma =
    "warpgroup m=128 n=64 warps=8 stages=3 pack=1 dynamic=1 out=1 ones_column=1 folded_scale=1 exp2_fma=2";

// What a candidate can be asked for: without log-sum-exp with a ones column, bfloat16 where exponentials are emulated.
std::string problem_for(const char* candidate, const std::string& problem) {
  return problem + (candidate == kExp2Fma ? "" : ",dtype=f16") +
         (candidate == kPlain || candidate == kOwnOut ? "" : ",lse=0");
}

// Scores climb within the second halves of blocks, not the first.
constexpr const char* kMoreKeys = "b=1,hq=1,hk=1,sq=100,sk=362,d=64";
constexpr const char* kMoreKeysUnderAMask = "b=1,hq=1,hk=1,sq=100,sk=362,d=64,causal";

// By little (the old maxima serve), by much (each block is computed again), or never: at -400 the low half alone of a
// emulated exponential's fixed-point number would pass for a weight.
TEST_F(WarpgroupInputs, MaximaThatGrowFromBlockToBlock) {
  for (const float growth : {0.5F, 6.0F, 24.0F, 1000.0F, -24.0F, -400.0F, -1000.0F}) {
    for (const char* problem : {kOneHead, kMoreKeys, kMoreKeysUnderAMask})
      for (const char* candidate : {kPlain, kOwnOut, kOnesColumn, kExp2Fma, kFoldedScale}) {
        if (std::abs(growth) > 100 && candidate != kExp2Fma) continue;
        test::AttentionCase attention(problem_of(problem_for(candidate, problem)));
        set_climb(&attention, growth, [](int) { return true; });
        EXPECT_TRUE(right(candidate, 1, &attention)) << growth << candidate;
      }
  }
}

// float16's emulation has fewer exponents: what is below them weighs nothing, what is above falls back.
TEST_F(WarpgroupInputs, MaximaThatGrowUnderEmulationInFloat16) {
  for (const float growth : {0.5F, 6.0F, 24.0F, -6.0F, -24.0F, -60.0F})
    for (const char* problem : {kOneHead, kMoreKeys, kMoreKeysUnderAMask}) {
      test::AttentionCase attention(problem_of(std::string(problem) + ",dtype=f16,lse=0"));
      set_climb(&attention, growth, [](int i) { return i % 3 != 0; });
      EXPECT_TRUE(right(kExp2Fma, 1, &attention)) << growth << problem;
      EXPECT_TRUE(right(kFoldedScaleFma, 1, &attention)) << growth << problem;
    }
}

// Where they cannot be multiplied by the scale: one of many would overflow, or all would lose bits. Maxima of other
// rows and tiles stay comparable, so stream-K too.
TEST_F(WarpgroupInputs, QueriesThatCannotBeScaled) {
  const char* const stream_k =
      "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1 folded_scale=1 stream_k=3";
  for (const char* problem : {kOneHead, kMoreKeysUnderAMask})
    for (const float scale : {1e-5F, 1e-3F, 0.9F, 4.F, 3e4F})
      for (const bool large : {false, true})
        for (const char* candidate : {kFoldedScale, kFoldedScaleFma, stream_k}) {
          const Problem p = problem_of(problem_for(candidate, problem));
          if (candidate == stream_k && p.causal()) continue;
          test::AttentionCase attention(p);
          for (std::uint16_t& q : attention.q) q = store(p.q_type, load(p.q_type, q) / (8 * scale));
          if (large) attention.q[70 * 64 + 3] = store(p.q_type, 60000.F);  // a row that sees few keys well
          attention.call.scale = scale;
          attention.slack += large ? 1e-2 : 0;
          EXPECT_TRUE(right(candidate, candidate == stream_k ? 3 : 1, &attention))
              << problem << scale << large << candidate;
        }
}

// What rounding scaled queries once more would show; at once, or from some block on.
TEST_F(WarpgroupInputs, ScoresTooFarForScaledQueries) {
  const char* const q_regs =
      "warpgroup m=128 n=64 warps=8 stages=2 pack=2 dynamic=0 out=1 ones_column=1 folded_scale=1 q_regs=2";
  for (const char* candidate : {kFoldedScale, kFoldedScaleFma, q_regs})
    for (const char* problem : {kOneHead, kMoreKeysUnderAMask, "b=1,hq=4,hk=1,sq=50,sk=500,d=80,dv=64,causal"}) {
      if (candidate == q_regs && std::string(problem).find("hq=4") == std::string::npos) continue;
      test::AttentionCase large(problem_of(problem_for(candidate, problem)), false, 30);
      EXPECT_TRUE(right(candidate, 1, &large)) << problem << candidate;
      test::AttentionCase half(problem_of(problem_for(candidate, problem)));
      const Problem& p = half.call.problem;
      for (std::size_t i = 0; i < half.q.size(); ++i) half.q[i] = store(p.q_type, 8 * load(p.q_type, half.q[i]));
      for (std::size_t i = 0; i < half.k.size() / 2; ++i) half.k[i] = store(p.q_type, 8 * load(p.q_type, half.k[i]));
      half.slack += 5e-4;
      EXPECT_TRUE(right(candidate, 1, &half)) << problem << candidate;
    }
}

// Offsets have more bits than a number of float16; the last keys' values are not the others', so that one that is off
// shows: theirs are the first scores, which no offset is added to.
TEST_F(WarpgroupInputs, ScoresFarFromZero) {
  for (const float score : {-3.F, 30.F, 40.F, 700.F, -40000.F, 90000.F})
    for (const char* candidate : {kFoldedScale, kFoldedScaleFma}) {
      test::AttentionCase attention(problem_of(problem_for(candidate, kMoreKeys)));
      const Problem& p = attention.call.problem;
      for (int i = 0; i < p.q_len; ++i) attention.q[static_cast<std::size_t>(i * 64)] = store(p.q_type, 64.F);
      for (int j = 0; j < p.kv_len; ++j)
        attention.k[static_cast<std::size_t>(j * 64)] = store(p.q_type, score / 8 + static_cast<float>(j % 2) / 4);
      for (std::size_t i = 0; i < attention.v.size(); ++i) attention.v[i] = store(p.q_type, i < 320 * 64 ? 1.F : -1.F);
      attention.slack += std::abs(score) > 100 ? 5e-3 : 0;
      EXPECT_TRUE(right(candidate, 1, &attention)) << score << candidate;
    }
}

// One lane asks for it; what the others had was right, and stays so.
TEST_F(WarpgroupInputs, OneRowOutgrowsItsMaxima) {
  for (const int row : {29, 63, 99}) {
    for (const char* candidate : {kPlain, kOnesColumn, kExp2Fma, kFoldedScale})
      for (const float growth : {24.F, 100.F, 200.F, 2000.F}) {
        if (growth > 24 && candidate != kExp2Fma) continue;
        test::AttentionCase attention(problem_of(problem_for(candidate, kOneHead)));
        set_climb(&attention, growth, [&](int i) { return i == row; });
        EXPECT_TRUE(right(candidate, 1, &attention)) << row << candidate << growth;
      }
  }
}

// At, beside and far from both ends of the emulation's range (exp2_fma.cuh).
TEST_F(WarpgroupInputs, AFewKeysWeighMoreOrLess) {
  for (const char* dtype : {"f16", "bf16"})
    for (const float powers :
         {-1000.F, -130.F, -119.F, -118.F, -70.F, -50.F, -48.5F, -35.F, -27.F, -18.F, -16.5F, -12.F, 7.F,
          8.5F,    9.5F,   11.F,   13.5F,  14.5F, 15.5F, 20.F,   45.F,  78.F,  100.F, 135.F,  1000.F}) {
      test::AttentionCase attention(problem_of("b=1,hq=1,hk=1,sq=100,sk=300,d=64,lse=0,dtype=" + std::string(dtype)));
      set_weights(224, 16, powers, &attention);
      EXPECT_TRUE(right(kExp2Fma, 1, &attention)) << dtype << powers;
      if (attention.call.problem.q_type == DType::kF16) {
        EXPECT_TRUE(right(kFoldedScaleFma, 1, &attention)) << powers;
      }
    }
}

// To where a emulated exponential's fixed-point number is 3, and past 4, where its low half begins at zero again.
TEST_F(WarpgroupInputs, OneRowLeavesItsMaximaFarBehind) {
  for (const float growth : {22656.F, 45568.F}) {
    test::AttentionCase attention(problem_of("b=1,hq=1,hk=1,sq=100,sk=128,d=64,lse=0"));
    set_climb(&attention, growth, [](int i) { return i == 99; });
    attention.slack += 5e-3;
    EXPECT_TRUE(right(kExp2Fma, 1, &attention)) << growth;
  }
}

TEST_F(WarpgroupInputs, RowsThatSeeNoKey) {
  for (const char* candidate : {kPlain, kOwnOut, kOnesColumn, kExp2Fma, kFoldedScale}) {
    const Problem problem = problem_of(problem_for(candidate, "b=1,hq=1,hk=1,sq=200,sk=100,d=64,causal"));
    test::AttentionCase attention(problem);
    EXPECT_TRUE(right(candidate, 1, &attention));
    EXPECT_EQ(0, attention.out_at(0, 0, 0, 0));
    if (problem.lse) {
      EXPECT_EQ(-INFINITY, attention.lse[0]);
    }
  }
}

// Of a key that is not a number every row's answer is none: also where its exponential is emulated.
TEST_F(WarpgroupInputs, NotANumberIsSeen) {
  for (const char* candidate : {kPlain, kOnesColumn, kExp2Fma, kFoldedScale, kFoldedScaleFma})
    for (const int key : {3, 11, 200, 325}) {
      test::AttentionCase attention(problem_of(problem_for(candidate, kOneHead)));
      attention.k[static_cast<std::size_t>(key * 64 + 5)] = 0x7fc0;
      EXPECT_FALSE(right(candidate, 1, &attention));  // nothing is equal to it
      for (int row = 0; row < 100; ++row) {
        EXPECT_TRUE(std::isnan(load(attention.call.problem.q_type, attention.out_at(0, 0, row, 7))))
            << candidate << key << " " << row;
        if (attention.call.problem.lse) {
          EXPECT_TRUE(std::isnan(attention.lse[static_cast<std::size_t>(row)]));
        }
      }
    }
}

// What is off by more than a rounding does not pass where the tuner judges it.
TEST_F(WarpgroupInputs, EmulatedExponentialsAreRefused) {
  for (const auto& [dtype, candidate] : {std::pair{"f16", kExp2Fma}, {"bf16", kExp2Fma}, {"f16", kFoldedScaleFma}}) {
    test::AttentionCase attention(problem_of("b=1,hq=1,hk=1,sq=100,sk=700,d=64,lse=0,dtype=" + std::string(dtype)));
    EXPECT_TRUE(right(candidate, 1, &attention));
    const Problem& problem = attention.call.problem;
    std::vector<RowPlace> places;
    for (int row = 0; row < problem.q_len; ++row) places.push_back({0, 0, row});
    const ReferenceRows reference = reference_rows(attention.call, places, {});
    Comparison comparison;
    for (int row = 0; row < problem.q_len; ++row) {
      RowError errors;
      for (int d = 0; d < 64; ++d)
        errors.add(load(problem.q_type, attention.out_at(0, 0, row, d)) -
                       reference.out[static_cast<std::size_t>(row * 64 + d)],
                   row * 64 + d);
      comparison.rows.add(row, reference.units[static_cast<std::size_t>(row)], errors);
    }
    const Verdict verdict = judge(measured(problem, rows_to_check(problem, {}, problem.q_len), comparison));
    EXPECT_FALSE(verdict.passed) << dtype << candidate << verdict.error;
  }
}

TEST_F(WarpgroupInputs, WithoutLse) {
  const std::string problem = problem_for(kPlain, kOneHead);
  test::AttentionCase with(problem_of(problem)), without(problem_of(problem + ",lse=0"));
  EXPECT_TRUE(right(kPlain, 1, &with));
  EXPECT_TRUE(right(kPlain, 1, &without));
  EXPECT_TRUE(with.out == without.out);
}

}  // namespace
}  // namespace gqa::simt
