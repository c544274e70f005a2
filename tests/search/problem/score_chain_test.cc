// A problem's chain of score steps: its text both ways, what is refused, and which factors join the scale.
#include "search/problem/score_chain.h"

#include <gtest/gtest.h>

#include <string>

#include "search/families/space.h"
#include "search/graph/ir/op.h"
#include "search/problem/signature.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

const std::string kWhole = "b=1,hq=4,hk=2,sq=64,sk=128,d=64,dv=64,dtype=bf16";

ScoreChain chain_of(const std::string& steps) { return problem_of(kWhole + ",scores=" + steps).chain; }

std::string refusal(const std::string& more) {
  Problem problem;
  return parse(kWhole + more, &problem).message();
}

ScoreChain one(ChainStep step) {
  ScoreChain chain;
  chain.steps[0] = step;
  chain.count = 1;
  return chain;
}

TEST(ScoreChain, SoftcapIsAWordForThreeSteps) {
  const Problem p = problem_of(kWhole + ",softcap");
  EXPECT_EQ(p.chain, softcap_chain());
  EXPECT_EQ(p.chain, chain_of("div0+tanh+mul0"));
  EXPECT_NE(to_text(p).find(",softcap"), std::string::npos) << to_text(p);
  EXPECT_EQ(problem_of(to_text(p)), p);
}

TEST(ScoreChain, OthersAreWrittenStepByStep) {
  for (const char* steps : {"tanh", "mul3+exp2+add1+relu", "sub0+square", "exp2", "clamp2+tanh", "mulhead+exp2",
                            "div0+mulrow+tanh+mul0", "addtensor", "subhead+multensor32+add3"}) {
    const Problem p = problem_of(kWhole + ",scores=" + steps);
    EXPECT_NE(to_text(p).find(std::string(",scores=") + steps), std::string::npos) << to_text(p);
    EXPECT_EQ(problem_of(to_text(p)), p);
  }
  EXPECT_EQ(to_text(problem_of(kWhole)).find("scores"), std::string::npos);
}

TEST(ScoreChain, ShapesTheProblemAndItsSignature) {
  for (const char* more : {",softcap", ",scores=tanh", ",scores=div0+tanh+mul1"}) {
    const Problem plain = problem_of(kWhole), p = problem_of(kWhole + more);
    EXPECT_NE(plain, p);
    EXPECT_NE(hash(plain), hash(p));
    EXPECT_NE(hash(Signature(plain)), hash(Signature(p)));
    EXPECT_EQ(Signature(p).problem().chain, p.chain);
  }
  EXPECT_NE(hash(problem_of(kWhole + ",softcap")), hash(problem_of(kWhole + ",scores=div0+tanh+mul1")));
}

TEST(ScoreChain, WhatIsNoChainIsRefused) {
  EXPECT_EQ(refusal(",scores=cap0"), "scores: unknown step 'cap0', expected as in div0+tanh+mul0");
  EXPECT_EQ(refusal(",scores=tanh++relu"), "scores: unknown step '', expected as in div0+tanh+mul0");
  EXPECT_EQ(refusal(",softcap,scores=tanh"), "softcap and scores: expected one of them");
  EXPECT_EQ(refusal(",scores=tanh+tanh+tanh+tanh+tanh"), "scores='tanh+tanh+tanh+tanh+tanh': expected at most 4 steps");
  EXPECT_EQ(refusal(",scores=mul"),
            "mul on each score, expected a slot from 0 to 3, head, row, tensor or tensor32 with it");
  EXPECT_EQ(refusal(",scores=mul4"),
            "mul on each score, expected a slot from 0 to 3, head, row, tensor or tensor32 with it");
  EXPECT_EQ(refusal(",scores=clamp3"), "clamp on each score, expected a slot from 0 to 2 with it");  // two numbers
  EXPECT_EQ(refusal(",scores=clamphead"), "clamp on each score, expected a slot from 0 to 2 with it");
  EXPECT_EQ(refusal(",scores=tanhrow"), "tanh on each score, expected no operand with it");
  EXPECT_EQ(refusal(",scores=addtensor+multensor32"), "tensor and tensor32 in one chain, expected one of them");
  EXPECT_EQ(refusal(",scores=tensor"), "scores: unknown step 'tensor', expected as in div0+tanh+mul0");
  EXPECT_EQ(refusal(",scores=tanh1"), "tanh on each score, expected no operand with it");
  EXPECT_EQ(refusal(",scores=softmax"),
            "softmax on each score, expected an elementwise operator whose numbers are operands");
}

// Constants would be compiled in; a maximum's difference and a division by a row's total are no steps on a score.
TEST(ScoreChain, OperatorsOfOneScoreAndANumber) {
  for (const Op op : {Op::kScale, Op::kAddConstant, Op::kSubMax, Op::kNormalize, Op::kMask, Op::kMatmul})
    EXPECT_FALSE(check_chain(one({op})).ok()) << name(op);
  EXPECT_TRUE(check_chain(one({Op::kSilu})).ok());
  EXPECT_TRUE(check_chain(one({Op::kDiv, ChainOperand::kSlot, 3})).ok());
  EXPECT_FALSE(check_chain(one({Op::kClamp, ChainOperand::kTensor})).ok());  // its two are slots
}

TEST(ScoreChain, FactorsAtBothEndsJoinTheScale) {
  const ScoreSlots slots = {4, 3, 2, 8};
  const FoldedChain cap = folded(softcap_chain());
  EXPECT_EQ(factor_of(cap.before, slots), 0.25F);
  EXPECT_EQ(cap.between, one({Op::kTanh}));
  EXPECT_EQ(factor_of(cap.after, slots), 4);
  const FoldedChain factors = folded(chain_of("mul0+div2+mul1"));
  EXPECT_EQ(factor_of(factors.before, slots), 6);
  EXPECT_FALSE(factors.between.any());
  EXPECT_EQ(factor_of(factors.after, slots), 1);
  EXPECT_EQ(folded(chain_of("add1+mul0+relu+div3")).between, chain_of("add1+mul0+relu"));
}

// An array's numbers may be of either sign, and another for each score: none joins a scale.
TEST(ScoreChain, FactorsOfArraysStayWhereTheyAre) {
  for (const char* steps : {"mulhead", "mulrow+tanh+divhead", "multensor"}) {
    const FoldedChain chain = folded(chain_of(steps));
    EXPECT_EQ(chain.between, chain_of(steps));
    EXPECT_FALSE(chain.before.any() || chain.after.any());
  }
  const FoldedChain capped = folded(chain_of("div0+mulrow+tanh+mul0"));
  EXPECT_EQ(capped.between, chain_of("mulrow+tanh"));
}

TEST(ScoreChain, AnOperandIsPartOfTheProblem) {
  const Problem slot = problem_of(kWhole + ",scores=add0");
  for (const char* other : {"addhead", "addrow", "addtensor", "addtensor32", "add1"}) {
    const Problem p = problem_of(kWhole + ",scores=" + other);
    EXPECT_NE(slot, p);
    EXPECT_NE(hash(slot), hash(p)) << other;
  }
}

// Rows of packed sequences have no place of their own in an array of rows; a head has.
TEST(ScoreChain, PackedSequencesHaveNoArraysOfRows) {
  for (const char* packed : {",packq", ",packk"}) {
    for (const char* operand : {"row", "tensor", "tensor32"})
      EXPECT_EQ(refusal(std::string(packed) + ",scores=mul" + operand),
                "packed sequences with a row's or a tensor's operand on scores, expected a slot's or a head's");
    EXPECT_EQ(refusal(std::string(packed) + ",scores=mulhead"), "");
  }
}

TEST(ScoreChain, ArraysAreServedByFlashAndSplit) {
  for (const char* steps : {"mulhead", "mulrow", "addtensor", "addtensor32"}) {
    const auto found = enumerate(problem_of("hq=8,sq=512,sk=512,d=64,dtype=f16,scores=" + std::string(steps)),
                                 *DeviceSpec::for_arch("sm_90a"));
    bool flash = false, split = false;
    for (const Ranked& ranked : found.ranked) {
      flash = flash || name(ranked.candidate) == "flash";
      split = split || name(ranked.candidate) == "split";
      EXPECT_NE(name(ranked.candidate), "warpgroup");
    }
    EXPECT_TRUE(flash && split) << steps;
  }
}

// Every family serves them.
TEST(ScoreChain, IsServedByAllFamilies) {
  std::string families;
  for (const Ranked& ranked :
       enumerate(problem_of("hq=8,sq=512,sk=512,d=64,dtype=f16,softcap"), *DeviceSpec::for_arch("sm_90a")).ranked) {
    if (families.find(name(ranked.candidate)) == std::string::npos)
      families += std::string(name(ranked.candidate)) + " ";
  }
  for (const char* family : {"flash", "split", "warpgroup"})
    EXPECT_NE(families.find(family), std::string::npos) << families;
}

}  // namespace
}  // namespace gqa
