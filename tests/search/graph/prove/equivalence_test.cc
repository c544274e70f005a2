// equivalence_test.cc: what is equal is proved equal, and no seeded mistake passes.
#include "search/graph/prove/equivalence.h"

#include "search/graph/attention/attention_program.h"
#include "search/graph/prove/shrink.h"
#include "tests/search/graph/graphs.h"
#include "tests/search/graph/programs.h"

namespace gqa {
namespace {

using namespace programs;  // NOLINT(google-build-using-namespace)

struct Pair {
  const char* what;
  const std::string &user, &program;
};

const Pair kEqual[] = {
    {"softmax opened", kSoftmax, kNaive},
    {"a maximum taken off", kNaive, kStable},
    {"division past the product", kNaive, kDivisionLast},
    {"flash", kNaive, kFlash},
    {"flash of the stable form", kStable, kFlash},
    {"flash of softmax", kSoftmax, kFlash},
    {"split and merge", kNaive, kSplit},
    {"flash and split", kFlash, kSplit},
    {"masked, scaled into q, odd sizes", kMasked, kMaskedFlash},
    {"softcap", kSoftcap, kSoftcapFlash},
    {"rms_norm and linear", kNormLinear, kNormLinearFused},
    {"gated MLP", kGated, kGatedFused},
    {"LoRA merged", kLora, kLoraMerged},
    {"LoRA fused", kLora, kLoraFused},
};

TEST(Equivalence, ProvesWhatIsEqual) {
  for (const Pair& pair : kEqual) {
    for (const std::uint64_t seed : {1u, 2u}) {
      EquivalenceReport report;
      const Status status = prove_equal(graph_of(pair.user), graph_of(pair.program), seed, &report);
      EXPECT_TRUE(status.ok()) << pair.what << ": " << status.message() << "\nsizes " << report.sizes;
      EXPECT_TRUE(report.equal);
      EXPECT_EQ(report.rounds, 2);
      EXPECT_GT(report.elements, 0);
      EXPECT_EQ(report.undefined, 0) << pair.what;
      EXPECT_FALSE(report.sizes.empty()) << pair.what << " was not shrunk";
    }
  }
}

// A mistake: in `program`, `from` replaced by `to`.
struct Mutant {
  const char* what;
  const std::string &user, &program;
  const char *from, *to;
};

const Mutant kMutants[] = {
    {"total not rescaled", kNaive, kFlash, "l = accumulate_rescaled(ps, m)", "l = accumulate(ps)"},
    {"rows not rescaled", kNaive, kFlash, "r = accumulate_rescaled(pv, m)", "r = accumulate(pv)"},
    {"neither rescaled", kNaive, kFlash,
     "l = accumulate_rescaled(ps, m)\n  pv = matmul(p, vt)\n"
     "  r = accumulate_rescaled(pv, m)",
     "l = accumulate(ps)\n  pv = matmul(p, vt)\n  r = accumulate(pv)"},
    {"maximum not taken off in the loop", kNaive, kFlash, "p = exp(z)", "p = exp(s)"},
    {"tile's maximum instead of the running one", kNaive, kFlash, "sub_max(s, m)", "sub_max(s, top)"},
    {"maximum taken off the rows only", kNaive, kStable, "s = sum(e)", "f = exp(a)\ns = sum(f)"},
    {"maximum of the other dimension", kNaive, kStable, "max(a) dim=2", "max(a) dim=1"},
    {"running maximum as a result", kNaive, kFlash, "store(d)", "x = add(d, m)\n  store(x)"},
    {"largest sum instead of the sum", kNaive, kFlash, "l = accumulate_rescaled(ps, m)", "l = accumulate_max(ps)"},
    {"mean instead of sum", kNaive, kDivisionLast, "sum(e)", "mean(e)"},
    {"max instead of sum", kNaive, kDivisionLast, "sum(e)", "max(e)"},
    {"sum over the rows", kNaive, kNaive, "sum(e) dim=2", "sum(e) dim=1"},
    {"weights transposed", kSquare, kSquare, "matmul(x, w)", "matmul(x, w) tb=1"},
    {"batch transposed", kSquare, kSquare, "matmul(x, w)", "matmul(x, w) ta=1"},
    {"products the other way round", kSquare, kSquare, "matmul(x, w)", "matmul(w, x)"},
    {"one step too few", kNaive, kFlash, "steps=64", "steps=63"},
    {"a share's last step missing", kNaive, kSplit, "steps=8", "steps=7"},
    {"splits that stop short", kNaive, kSplit, "2/512] loop=2/64\n  vt = load(2) grid=[-,0/1,1/512]",
     "2/448] loop=2/64\n  vt = load(2) grid=[-,0/1,1/448]"},
    {"splits that all walk the first keys", kNaive, kSplit, "2/512] loop=2/64\n  vt = load(2) grid=[-,0/1,1/512]",
     "-] loop=2/64\n  vt = load(2) grid=[-,0/1,-]"},
    {"merge without weights on the sums", kNaive, kSplit, "lw = mul(ls, w)", "lw = scale(ls)"},
    {"merge without weights on the rows", kNaive, kSplit, "rw = mul(rs, w)", "rw = scale(rs)"},
    {"merge without weights at all", kNaive, kSplit, "w = exp(z)", "w = scale(z) c=0"},
    {"merge that takes the largest row", kNaive, kSplit, "rt = sum(rw)", "rt = max(rw)"},
    {"division the wrong way round", kNaive, kDivisionLast, "div(w, s)", "div(s, w)"},
    {"subtraction the wrong way round", kNaive, kStable, "sub(a, m)", "sub(m, a)"},
    {"division left out", kNaive, kFlash, "d = div(r, l)", "d = scale(r)"},
    {"scale left out", kMasked, kMaskedFlash, "qs = scale(qt) c=0.125", "qs = scale(qt)"},
    {"scale squared", kMasked, kMaskedFlash, "scale(qt) c=0.125", "scale(qt) c=0.015625"},
    {"scale rounded", kMasked, kMaskedFlash, "scale(qt) c=0.125", "scale(qt) c=0.12500000000000003"},
    {"mask off by one to the right", kMasked, kMaskedFlash, "right=0", "right=1"},
    {"mask off by one below", kMasked, kMaskedFlash, "right=0", "right=-1"},
    {"window off by one", kMasked, kMaskedFlash, "left=100", "left=101"},
    {"window one short", kMasked, kMaskedFlash, "left=100", "left=99"},
    {"window left out", kMasked, kMaskedFlash, "left=100 ", ""},
    {"window off by one, nothing cut", kWindow, kWindow, "left=30", "left=31"},
    {"window off by one the other way, nothing cut", kWindow, kWindow, "right=4", "right=3"},
    {"mask left out", kMasked, kMaskedFlash, "s = mask(a) left=100 right=0", "s = scale(a)"},
    {"cap after the softmax's scale", kSoftcap, kSoftcapFlash, "t = tanh(b)", "t = tanh(a)"},
    {"another function", kSoftcap, kSoftcapFlash, "tanh(b)", "silu(b)"},
    {"norm without its weight", kNormLinear, kNormLinearFused, "xg = mul(xt, gt)", "xg = scale(xt)"},
    {"norm of the weighted", kNormLinear, kNormLinearFused, "sq = square(xt)", "sq = square(xg)"},
    {"norm by the sum", kNormLinear, kNormLinearFused, "scale(total) count=4096", "scale(total)"},
    {"norm by another size's mean", kNormLinear, kNormLinearFused, "count=4096", "count=1024"},
    {"norm with another epsilon", kNormLinear, kNormLinearFused, "c=1e-06", "c=1e-05"},
    {"square root instead of its inverse", kNormLinear, kNormLinearFused, "rsqrt(", "sqrt("},
    {"gate and value swapped", kGated, kGatedFused, "s = silu(a)\n  y = mul(s, b)", "s = silu(b)\n  y = mul(s, a)"},
    {"gate of each step", kGated, kGatedFused, "ap = matmul(xt, at)\n", "aq = matmul(xt, at)\n  ap = silu(aq)\n"},
    {"sum instead of product", kGated, kGatedFused, "mul(s, b)", "add(s, b)"},
    {"LoRA's update subtracted", kLora, kLoraFused, "add(p, r)", "sub(p, r)"},
    {"LoRA's update twice", kLora, kLoraMerged, "add(w, m)", "add(m, m)"},
    {"LoRA summed before its end", kLora, kLoraFused, "p = accumulate(pp)", "p = accumulate_max(pp)"},
};

std::string with_replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "nothing to replace: " << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Equivalence, CatchesEveryMutant) {
  for (const Mutant& mutant : kMutants) {
    const KernelGraph wrong = graph_of(with_replaced(mutant.program, mutant.from, mutant.to));
    ASSERT_FALSE(wrong.nodes().empty()) << mutant.what;
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      EquivalenceReport report;
      const Status status = prove_equal(graph_of(mutant.user), wrong, seed, &report);
      EXPECT_EQ(status.code(), Code::kNoCandidate) << mutant.what << ": " << status.message();
      EXPECT_FALSE(report.equal);
      EXPECT_FALSE(report.difference.empty()) << mutant.what;
    }
  }
}

// Every candidate of the attention search is the user's graph, or is not tried.
TEST(Equivalence, AttentionProgramsAreAttention) {
  const std::pair<const char*, const char*> cases[] = {
      {"hq=32,hk=8,sq=4000,d=128,causal", "flash m=128 n=64 warps=4 stages=2 pack=1 head_swizzle=1"},
      {"b=3,hq=32,hk=8,sq=7,sk=100,d=128,dv=64,causal", "flash m=64 n=48 warps=4 stages=2 pack=4"},
      {"b=2,hq=32,hk=8,sq=1,sk=4096,d=128", "split m=16 n=32 warps=4 stages=3 pack=4 splits=16"},
      {"b=2,hq=32,hk=8,sq=1,sk=5000,d=128", "split m=16 n=32 warps=4 stages=3 pack=4 splits=7"},
      {"hq=16,hk=16,sq=1024,d=64", "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=0"},
      {"hq=4,hk=2,sq=300,sk=20,d=64,causal", "flash m=64 n=32 warps=4 stages=2 pack=1"},
  };
  for (const auto& [problem, candidate] : cases) {
    const KernelGraph user = attention_graph(problem_of(problem));
    const KernelGraph program = attention_program(problem_of(problem), candidate_of(candidate));
    EquivalenceReport report;
    const Status status = prove_equal(user, program, 5, &report);
    EXPECT_TRUE(status.ok()) << candidate << ": " << status.message() << "\n" << report.sizes;
    EXPECT_FALSE(report.sizes.empty());
  }
}

TEST(Equivalence, WhatCannotBeComparedIsSaid) {
  const auto message = [](const std::string& a, const std::string& b) {
    return prove_equal(graph_of(a), graph_of(b), 1, nullptr).message();
  };
  const std::string one = "graph 1\nx = input f16[4,4]\n", two = one + "y = input f16[4,4]\n";
  EXPECT_EQ(message(one + "z = exp(x)\n", two + "z = add(x, y)\n"),
            "graphs of 1 and 2 inputs: expected as many in both");
  EXPECT_EQ(message(one + "z = exp(x)\n", one + "z = sum(x) dim=0\n"),
            "output 0 is [4,4] of f16 and [1,4] of f16: expected one shape and type");
  EXPECT_NE(message(one + "m = mask(x) right=0\nz = mul(m, x)\n", one + "m = mask(x) right=0\nz = mul(m, x)\n")
                .find("comes of -inf where no rule says what that gives"),
            std::string::npos);
  EXPECT_EQ(message(one + "o = sub(x, x)\nz = div(x, o)\n", one + "o = sub(x, x)\nz = div(x, o)\n"),
            "output 0 of [3,3] divides by zero everywhere: expected a value somewhere");
}

// A row of ones for each block: its store has no smaller twin, so the graph is tried as it is, or refused as too large.
std::string blockwise(const std::string& rows, const std::string& tile, const std::string& blocks) {
  return "graph 1\nx = input f16[" + rows + ",4]\ncustom(x) grid=[" + blocks + "] steps=1\n  a = load(0) grid=[-]\n" +
         "  t = transpose(a) dims=[1,0]\n  s = sum(t) dim=1\n  store(s) -> y f16[" + tile + ",1] grid=[0/4]\nend\n";
}

TEST(Equivalence, GraphsWithoutASmallTwinAreTriedAsTheyAreIfTheyAreSmall) {
  EquivalenceReport report;
  const KernelGraph small = graph_of(blockwise("8", "8", "2")), large = graph_of(blockwise("9000000", "8", "2"));
  EXPECT_TRUE(prove_equal(small, small, 1, &report).ok());
  EXPECT_TRUE(report.sizes.empty());
  EXPECT_EQ(prove_equal(large, large, 1, &report).code(), Code::kSize);
}

TEST(Equivalence, SameSeedSameReport) {
  EquivalenceReport a, b;
  const std::string wrong = with_replaced(kFlash, "p = exp(z)", "p = exp(s)");
  EXPECT_FALSE(prove_equal(graph_of(kNaive), graph_of(wrong), 9, &a).ok());
  EXPECT_FALSE(prove_equal(graph_of(kNaive), graph_of(wrong), 9, &b).ok());
  EXPECT_EQ(a.difference, b.difference);
  EXPECT_NE(a.difference.find("output 0 'o' at ["), std::string::npos);
}

}  // namespace
}  // namespace gqa
