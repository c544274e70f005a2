// trial_arrays_test.cc: a trial's biases have whole rows of the type's least number, parts of such rows in either
// direction, and rows without, in problems of any proportions.
#include "runtime/verify/trial_arrays.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/element.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

struct Counts {
  int rows = 0, whole = 0, first = 0, last = 0, none = 0;  // which keys of a row the number hides
};

Counts counts_of(const std::string& text) {
  const Problem p = problem_of(text);
  const TrialArrays arrays = trial_arrays(p, 4);
  const auto biases =
      std::find_if(arrays.begin(), arrays.end(), [](const TrialArray& a) { return a.role == Role::kBias; });
  const bool wide = p.chain.reads(ChainOperand::kTensor32);
  const auto number = [&](std::int64_t at) {
    float value = 0;
    std::uint16_t bits = 0;
    if (wide) std::memcpy(&value, &biases->bytes[static_cast<std::size_t>(at) * 4], 4);
    if (!wide) std::memcpy(&bits, &biases->bytes[static_cast<std::size_t>(at) * 2], 2);
    return wide ? value : load(p.q_type, bits);
  };
  const float least = wide                             ? std::numeric_limits<float>::lowest()
                      : p.q_type == ElementType::kBF16 ? -0x1.fep127F
                                                       : -65504.F;
  Counts counts;
  const Strides& s = biases->strides;
  for (int b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.q_heads; ++h)
      for (int i = 0; i < p.q_len; ++i) {
        const std::int64_t row = b * s.batch + h * s.head + i * s.row;
        int hidden = 0;
        for (int j = 0; j < p.kv_len; ++j) hidden += number(row + j) == least ? 1 : 0;
        ++counts.rows;
        const bool first = number(row) == least, last = number(row + p.kv_len - 1) == least;
        counts.whole += hidden == p.kv_len ? 1 : 0;
        counts.first += hidden < p.kv_len && first ? 1 : 0;
        counts.last += hidden < p.kv_len && last ? 1 : 0;
        counts.none += hidden == 0 ? 1 : 0;
      }
  return counts;
}

TEST(TrialArrays, HideWholeRowsByTheLeastNumber) {
  for (const char* text :
       {"b=2,hq=4,hk=2,sq=40,sk=64,d=64,causal,scores=addtensor", "b=1,hq=8,hk=2,sq=1,sk=700,d=64,scores=addtensor32",
        "b=64,hq=8,hk=2,sq=1,sk=200,d=64,dtype=f16,scores=addtensor",
        "b=1,hq=1,hk=1,sq=300,sk=300,d=64,scores=addtensor",
        "b=1,hq=32,hk=8,sq=5,sk=900,d=64,scores=div0+tanh+mul0+addtensor"}) {
    const Counts counts = counts_of(text);
    EXPECT_GE(counts.whole, 2) << text;
    EXPECT_GE(counts.first, 1) << text;
    EXPECT_GE(counts.last, 1) << text;
    EXPECT_GE(counts.none * 5, counts.rows) << text;
  }
}

TEST(TrialArrays, LeaveOneOfFewRows) {
  EXPECT_EQ(1, counts_of("b=1,hq=2,hk=1,sq=1,sk=100,d=64,scores=addtensor").whole);
  EXPECT_EQ(0, counts_of("b=1,hq=1,hk=1,sq=1,sk=100,d=64,scores=addtensor").whole);
  EXPECT_EQ(1, counts_of("b=1,hq=1,hk=1,sq=1,sk=100,d=64,scores=addtensor").first);
}

// Other steps make something else of it.
TEST(TrialArrays, HideNothingWhereTheBiasIsNotAddedLast) {
  const Counts counts = counts_of("b=1,hq=8,hk=2,sq=9,sk=100,d=64,scores=addtensor+tanh");
  EXPECT_EQ(counts.rows, counts.none);
}

}  // namespace
}  // namespace gqa
