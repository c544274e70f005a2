// attention_form_test.cc: attention is seen in whatever form the search leaves it, and only where it is attention that
// a family can run.
#include "search/graph/attention/attention_form.h"

#include <cstring>

#include "search/graph/attention/attention_program.h"
#include "search/graph/prove/equivalence.h"
#include "tests/search/graph/enumerate/search_support.h"

namespace gqa {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

AttentionForm form_of(const KernelGraph& graph) {
  const auto form = attention_form(graph);
  EXPECT_TRUE(form) << to_text(graph);
  return form.value_or(AttentionForm());
}

// All that the search finds of a graph, one form each; at least one.
std::vector<AttentionForm> forms_of(const std::string& text) {
  std::vector<AttentionForm> found;
  for (const RankedProgram& ranked : search(graph_of(text), "attention").programs) {
    if (const auto form = attention_form(ranked.program.graph)) found.push_back(*form);
  }
  EXPECT_FALSE(found.empty()) << text;
  return found;
}

AttentionView view(int tensor, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column = 1) {
  return {tensor, batch, head, row, column};
}

TEST(AttentionForm, ReadsTheIssuesGraphAsFlashAndAsSplit) {
  for (const std::string& text : {programs::kFlash, programs::kSplit}) {
    const KernelGraph graph = graph_of(text);
    const AttentionForm form = form_of(graph);
    EXPECT_EQ(to_text(form.problem), "b=2,hq=1,hk=1,sq=256,sk=4096,d=64,dtype=f16,ktrans");
    EXPECT_EQ(form.scale, 1);
    EXPECT_FALSE(form.problem.chain.any());
    EXPECT_EQ(form.q, view(0, 256 * 64, 0, 64));
    EXPECT_EQ(form.k, view(1, 64 * 4096, 0, 1, 4096));
    EXPECT_EQ(form.v, view(2, 4096 * 64, 0, 64));
    EXPECT_EQ(form.out, view(graph.find("o"), 256 * 64, 0, 64));
  }
}

TEST(AttentionForm, ReadsWhatTheSearchFinds) {
  for (const AttentionForm& form : forms_of(programs::kNaive))
    EXPECT_EQ(to_text(form.problem), "b=2,hq=1,hk=1,sq=256,sk=4096,d=64,dtype=f16,ktrans");
}

// A scale of the queries is one of scores, and 20 tanh(x / 20) a soft cap like any call's.
TEST(AttentionForm, TakesAScaleOutOfTheQueriesAndNamesASoftcap) {
  for (const AttentionForm& form : forms_of(programs::kSoftcap)) {
    EXPECT_EQ(form.problem.chain, softcap_chain());
    EXPECT_FLOAT_EQ(form.scale, 1);
    EXPECT_EQ(form.slots[kSoftcapSlot], 20);
  }
}

// The flash kernel of tests with steps on its scores.
KernelGraph stepped(const std::string& steps) {
  return graph_of(replaced(programs::kFlash, "s = matmul(qt, kt)", "a = matmul(qt, kt)\n" + steps));
}

TEST(AttentionForm, ConstantsAreSlots) {
  const AttentionForm form =
      form_of(stepped("  b = scale(a) c=0.5\n  c = add_constant(b) c=3\n  e = relu(c)\n  s = clamp(e) lo=-1 hi=2"));
  EXPECT_EQ(chain_text(form.problem.chain), ",scores=add0+relu+clamp1");
  EXPECT_EQ(form.scale, 0.5F);
  EXPECT_EQ(form.slots, (ScoreSlots{3, -1, 2, 0}));
}

TEST(AttentionForm, ConstantsAreNoPartOfTheProblem) {
  const auto one = form_of(stepped("  b = add_constant(a) c=3\n  s = tanh(b)"));
  const auto other = form_of(stepped("  b = add_constant(a) c=-7\n  s = tanh(b)"));
  EXPECT_EQ(one.problem, other.problem);
  EXPECT_NE(one.slots, other.slots);
}

TEST(AttentionForm, ReadsAMaskBesideAClamp) {
  const std::string text =
      replaced(programs::kMasked, "c = mask(b) left=100 right=0", "f = clamp(b) lo=-50 hi=50\nc = mask(f) right=0");
  for (const AttentionForm& form : forms_of(text)) {
    EXPECT_TRUE(form.problem.causal());
    EXPECT_EQ(chain_text(form.problem.chain), ",scores=clamp0");
    EXPECT_EQ(form.slots, (ScoreSlots{-50, 50, 0, 0}));
    EXPECT_EQ(form.scale, 0.125F);
  }
}

TEST(AttentionForm, SeesDimensionsThatKeysAreStretchedOverAsAGroup) {
  for (const AttentionForm& form : forms_of(R"(graph 1
q = input f16[2,2,8,4,64]
k = input f16[2,2,1,512,64]
v = input f16[2,2,1,512,128]
a = matmul(q, k) tb=1
s = scale(a) c=0.125
p = softmax(s) dim=-1
o = matmul(p, v)
)")) {
    EXPECT_EQ(to_text(form.problem), "b=2,hq=16,hk=2,sq=4,sk=512,d=64,dv=128,dtype=f16");
    EXPECT_EQ(form.q, view(0, 2 * 8 * 4 * 64, 4 * 64, 64));
    EXPECT_EQ(form.k, view(1, 2 * 512 * 64, 512 * 64, 64));
    EXPECT_EQ(form.v, view(2, 2 * 512 * 128, 512 * 128, 128));
  }
}

TEST(AttentionForm, ReadsThroughTransposes) {
  for (const AttentionForm& form : forms_of(R"(graph 1
q = input bf16[3,128,2,64]
k = input bf16[3,2,64,512]
v = input bf16[3,512,2,64]
t = transpose(q) dims=[0,2,1,3]
w = transpose(v) dims=[0,2,1,3]
a = matmul(t, k)
p = softmax(a) dim=-1
o = matmul(p, w)
r = transpose(o) dims=[0,2,1,3]
)")) {
    EXPECT_EQ(to_text(form.problem), "b=3,hq=2,hk=2,sq=128,sk=512,d=64,dtype=bf16,ktrans");
    EXPECT_EQ(form.q, view(0, 128 * 2 * 64, 64, 128));
    EXPECT_EQ(form.k, view(1, 2 * 64 * 512, 64 * 512, 1, 512));
    EXPECT_EQ(form.v, view(2, 512 * 2 * 64, 64, 128));
    EXPECT_EQ(form.out, view(form.out.tensor, 128 * 2 * 64, 64, 128));
  }
}

TEST(AttentionForm, IsTheProblemThatAProgramWasMadeFrom) {
  for (const char* text : {"b=2,hq=8,hk=2,sq=100,sk=300,d=64,dv=128,dtype=f16,causal", "hq=4,hk=1,sq=3,sk=512,d=128",
                           "b=3,hq=4,hk=4,sq=65,sk=65,d=80,dtype=f16", "hq=4,hk=2,sq=9,sk=80,d=64,causal,ktrans"}) {
    const Problem problem = problem_of(text);
    for (const char* candidate :
         {"flash m=64 n=64 warps=4 stages=2 pack=1", "split m=16 n=32 warps=4 stages=2 pack=1 splits=2"}) {
      const AttentionForm form = form_of(attention_program(problem, candidate_of(candidate)));
      EXPECT_EQ(to_text(form.problem), to_text(problem));
      EXPECT_FLOAT_EQ(form.scale, 1 / std::sqrt(static_cast<float>(problem.head_dim)));
      const std::int64_t row = problem.q_heads * problem.head_dim;
      const std::int64_t head = problem.q_heads == 1 ? 0 : problem.head_dim;
      EXPECT_EQ(form.q, view(0, problem.batch == 1 ? 0 : row * problem.q_len, head, row));
    }
  }
}

TEST(AttentionForm, NamesStridesThatVectorsOrMapsCannotTake) {
  const KernelGraph odd =
      graph_of(replaced(programs::kFlash, "q = input f16[2,256,64]", "q = input f16[2,256,64] strides=[16640,65,1]"));
  EXPECT_EQ(to_text(form_of(odd).problem), "b=2,hq=1,hk=1,sq=256,sk=4096,d=64,dtype=f16,align=2,ktrans");
  const KernelGraph far = graph_of(
      replaced(programs::kFlash, "v = input f16[2,4096,64]", "v = input f16[2,4096,64] strides=[549755813888,64,1]"));
  EXPECT_EQ(to_text(form_of(far).problem), "b=2,hq=1,hk=1,sq=256,sk=4096,d=64,dtype=f16,notma,ktrans");
}

TEST(AttentionForm, KeepsAScaleThatTurnsScoresAroundInTheChain) {
  const AttentionForm form = form_of(stepped("  s = scale(a) c=-0.5"));
  EXPECT_EQ(form.scale, 1);
  EXPECT_EQ(chain_text(form.problem.chain), ",scores=mul0");
  EXPECT_EQ(form.slots[0], -0.5F);
}

TEST(AttentionForm, AWindowThatHidesNothingIsNone) {
  EXPECT_EQ(form_of(stepped("  s = mask(a) left=4095 right=255")).problem.mask, Mask::kNone);
}

struct Refused {
  const char *why, *what, *by;
};

class AttentionFormRefuses : public testing::TestWithParam<Refused> {};

TEST_P(AttentionFormRefuses, WhatNoFamilyRuns) {
  ASSERT_TRUE(attention_form(graph_of(programs::kFlash)));
  std::string text = programs::kFlash;
  const std::string what = GetParam().what;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + std::strlen(GetParam().by)))
    text.replace(at, what.size(), GetParam().by);
  ASSERT_NE(text, programs::kFlash);
  EXPECT_FALSE(attention_form(graph_of(text))) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Programs, AttentionFormRefuses,
    testing::Values(
        Refused{"Dtype", "f16", "f32"}, Refused{"MixedDtype", "q = input f16", "q = input f32"},
        Refused{"Window", "s = matmul(qt, kt)", "a = matmul(qt, kt)\n  s = mask(a) left=100 right=0"},
        Refused{"Lookahead", "s = matmul(qt, kt)", "a = matmul(qt, kt)\n  s = mask(a) right=3"},
        Refused{"TanhOfMasked", "s = matmul(qt, kt)", "a = matmul(qt, kt)\n  b = mask(a) right=0\n  s = tanh(b)"},
        Refused{"FiveSteps", "s = matmul(qt, kt)",
                "a = matmul(qt, kt)\n  b = relu(a)\n  c = tanh(b)\n  e = relu(c)\n  f = tanh(e)\n  s = relu(f)"},
        Refused{"FiveNumbers", "s = matmul(qt, kt)",
                "a = matmul(qt, kt)\n  b = clamp(a) lo=-9\n  c = add_constant(b) c=1\n  s = clamp(c) hi=3"},
        // the softmax takes no factor that turns the order of scores around
        Refused{"ScaleTurningAroundLast", "s = matmul(qt, kt)",
                "a = matmul(qt, kt)\n  b = tanh(a)\n  s = scale(b) c=-20"},
        Refused{"TwoScores", "s = matmul(qt, kt)", "a = matmul(qt, kt)\n  s = mul(a, a)"},
        Refused{"OtherMaximum", "top = max(s) dim=2", "half = scale(s) c=0.5\n  top = max(half) dim=2"},
        Refused{"OtherSum", "ps = sum(p) dim=2", "pp = square(p)\n  ps = sum(pp) dim=2"},
        Refused{"ScaledValues", "pv = matmul(p, vt)", "vs = scale(vt) c=2\n  pv = matmul(p, vs)"},
        Refused{"ScaledResult", "d = div(r, l)", "x = div(r, l)\n  d = scale(x) c=2"},
        Refused{"QueriesNotContiguous", "q = input f16[2,256,64]", "q = input f16[2,256,64] strides=[16384,1,256]"},
        Refused{"AnotherResult", "  store(d)", "  store(l) -> x f32[2,256,1] grid=[1/64,0/1]\n  store(d)"},
        Refused{"AnotherKernel", "end\n", "end\ny = relu(o)\n"}),
    [](const auto& one) { return std::string(one.param.why); });

TEST(AttentionForm, IsRefusedForAHeadDimThatNoFamilyHas) {
  const std::string narrow = replaced(programs::kFlash, "q = input f16[2,256,64]", "q = input f16[2,256,48]");
  EXPECT_FALSE(attention_form(graph_of(replaced(narrow, "k = input f16[2,64,4096]", "k = input f16[2,48,4096]"))));
  const std::string known = replaced(programs::kFlash, "q = input f16[2,256,64]", "q = input f16[2,256,32]");
  EXPECT_TRUE(attention_form(graph_of(replaced(known, "k = input f16[2,64,4096]", "k = input f16[2,32,4096]"))));
}

TEST(AttentionForm, IsNotSeenInGraphsThatAreNotKernels) {
  for (const std::string& text :
       {programs::kNaive, programs::kSoftmax, programs::kNormLinearFused, programs::kGatedFused})
    EXPECT_FALSE(attention_form(graph_of(text))) << text;
}

TEST(AttentionForm, IsNotSeenInASplitThatMergesUnderAnotherMaximum) {
  for (const auto& [what, by] : {std::pair{"m = max(ms) dim=0", "m = max(ls) dim=0"},
                                 {"z = sub_max(ms, m)", "z = sub_max(ls, m)"},
                                 {"rw = mul(rs, w)", "rw = mul(rs, ls)"}}) {
    std::string text = programs::kSplit;
    const auto merge = text.find("custom(pm");
    text.replace(text.find(what, merge), std::strlen(what), by);
    EXPECT_FALSE(attention_form(graph_of(text))) << by;
  }
}

}  // namespace
}  // namespace gqa
