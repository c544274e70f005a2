// The host's kernels on finite scores far from zero, for every instruction set that runs here, against float64: masks
// that fill with a finite number, biases and products up to float32's largest, sinks as large and larger; and what is
// merged of parts, one of them marked empty by +inf.
#include <gtest/gtest.h>

#include <string>

#include "runtime/host/attention/host_kernel.h"
#include "tests/runtime/far_scores_case.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

constexpr const char* kCandidates[] = {"flash m=32 n=32 warps=1 stages=1 pack=1",
                                       "split m=32 n=32 warps=1 stages=1 pack=2 splits=3"};

template <typename Set>
void expect_float64(const std::string& text, const Set& set) {
  for (const char* candidate : kCandidates)
    for (const TileKernels* kernels : usable_tile_kernels()) {
      test::AttentionCase t(test::problem_of(text));
      set(&t);
      ASSERT_TRUE(HostKernel(gqa::candidate_of(candidate), 2, *kernels).run(t.call).ok());
      EXPECT_TRUE(test::far_scores_right(t)) << kernels->name << " " << candidate << " " << text;
    }
}

TEST(HostFarScores, MasksOfFiniteNumbers) {
  for (const char* type : {",dtype=bf16", ",dtype=f16"})
    for (const char* bias : {"addtensor", "addtensor32"})
      for (const test::FiniteMask& mask : test::kFiniteMasks)
        expect_float64("b=1,hq=2,hk=1,sq=37,sk=150,d=64,scores=" + std::string(bias) + type,
                       [&](test::AttentionCase* t) { test::hide(mask, test::least_bias(t->call.problem), t); });
  for (const float number : {-1e9F, -5e9F})
    for (const test::FiniteMask& mask : test::kFiniteMasks)
      expect_float64("b=1,hq=2,hk=1,sq=37,sk=150,d=64,scores=addtensor32",
                     [&](test::AttentionCase* t) { test::hide(mask, number, t); });
}

TEST(HostFarScores, Biases) {
  for (const char* type : {",dtype=bf16", ",dtype=f16"})
    expect_float64("b=1,hq=2,hk=1,sq=40,sk=150,d=64,scores=addtensor32" + std::string(type), test::set_far_biases);
}

TEST(HostFarScores, Products) {
  for (const char* type : {",dtype=bf16", ",dtype=f16"})
    for (const bool near_keys : {false, true})
      expect_float64("b=1,hq=2,hk=1,sq=40,sk=150,d=64,causal" + std::string(type),
                     [&](test::AttentionCase* t) { test::set_far_products(1, near_keys, t); });
  expect_float64("b=1,hq=2,hk=1,sq=40,sk=150,d=64",
                 [&](test::AttentionCase* t) { test::set_far_products(0x1p40F, true, t); });
}

TEST(HostFarScores, Sinks) {
  for (const std::vector<float>& sinks :
       {std::vector<float>{INFINITY, 3e38F, -3e38F, 2.4e38F}, {-1e9F, 1e9F, 1e20F, -INFINITY}})
    for (const char* bias : {"", ",scores=addtensor32"})
      expect_float64("b=1,hq=4,hk=2,sq=40,sk=70,d=64,causal,sink" + std::string(bias), [&](test::AttentionCase* t) {
        t->sink = sinks;
        if (*bias != 0) test::set_far_biases(t);
      });
}

}  // namespace
}  // namespace gqa
