// superoptimize_test.cc: what must be found from naive graphs is found, is right, and is accounted for.
#include "search/graph/enumerate/superoptimize.h"

#include <ctime>
#include <set>

#include "search/graph/ir/canonical.h"
#include "search/graph/tile/tile_plan.h"
#include "search/graph/tile/tile_readers.h"
#include "tests/sanitized.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/masked_graphs.h"
#include "tests/search/graph/small_graphs.h"

namespace gqa {
namespace {

bool is_packed(const KernelGraph& graph) {
  const Axes q = tile_of(graph, graph.nodes()[0], "q");
  return q.size() == 5 && q[2].tile > 1;
}

const std::string kGrouped = R"(graph 1
q = input f16[2,2,8,1,64]
k = input f16[2,2,1,4096,64]
v = input f16[2,2,1,4096,64]
a = matmul(q, k) tb=1
s = scale(a) c=0.125
p = softmax(s) dim=-1
o = matmul(p, v)
)";

const std::string kNormalisedKeys = R"(graph 1
q = input f16[8,512,64]
k = input f16[8,2048,64]
v = input f16[8,2048,64]
gq = input f16[64]
gk = input f16[64]
qn = rms_norm(q, gq) eps=1e-06
kn = rms_norm(k, gk) eps=1e-06
a = matmul(qn, kn) tb=1
p = softmax(a) dim=-1
o = matmul(p, v)
)";

std::string in_float16(std::string text) {
  for (std::size_t at = 0; (at = text.find("bf16", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

// One kernel without a plain operator that reads all these inputs.
bool fuses(const KernelGraph& graph, const std::vector<std::string>& inputs) {
  if (graph.nodes().size() != 1 || !all_custom(graph)) return false;
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const std::string& name) { return !tile_of(graph, graph.nodes()[0], name).empty(); });
}

TEST(Superoptimize, FindsFlashAttentionThoughTheUserWroteNoMaximum) {
  const KernelGraph naive = graph_of(programs::kNaive);
  for (const char* config : {"attention", ""}) {
    const auto found_flash = search(naive, config);
    const FoundProgram* flash = find_program(found_flash, [](const KernelGraph& g) { return is_flash(g, 2, 1); });
    EXPECT_NE(flash, nullptr) << config;
  }
}

TEST(Superoptimize, FindsFlashDecodingAndRanksItFirstWhereBlocksAreFew) {
  const SearchResult result = search(graph_of(programs::kNaive), "attention");
  ASSERT_FALSE(result.programs.empty());
  EXPECT_TRUE(is_flash_decoding(result.programs[0].program.graph, 2, 1)) << to_text(result.programs[0].program.graph);
}

TEST(Superoptimize, RanksFlashAttentionFirstWhereBlocksAreMany) {
  const SearchResult result = search(softmax_attention(64, 1024, 1024, 64), "attention");
  ASSERT_FALSE(result.programs.empty());
  EXPECT_TRUE(is_flash(result.programs[0].program.graph, 2, 1)) << to_text(result.programs[0].program.graph);
}

TEST(Superoptimize, KeepsTheUnfusedProgram) {
  const KernelGraph naive = graph_of(programs::kNaive);
  EXPECT_NE(find_program(search(naive), [&](const KernelGraph& g) { return same_graph(g, naive); }), nullptr);
}

TEST(Superoptimize, PacksTheHeadsOfAGroup) {
  const SearchResult result = search(graph_of(kGrouped), "attention");
  const FoundProgram* packed =
      find_program(result, [](const KernelGraph& g) { return is_flash_decoding(g, 3, 3) && is_packed(g); });
  const FoundProgram* apart =
      find_program(result, [](const KernelGraph& g) { return is_flash_decoding(g, 3, 3) && !is_packed(g); });
  ASSERT_NE(packed, nullptr);
  ASSERT_NE(apart, nullptr);
  EXPECT_LT(packed->seconds, apart->seconds);  // it reads the keys once a group
}

TEST(Superoptimize, FusesTheNormIntoTheLinear) {
  const SearchResult result = search(graph_of(programs::kNormLinear));
  const FoundProgram* fused = find_program(result, [](const KernelGraph& g) {
    return fuses(g, {"x", "g", "w"}) && loops(tile_of(g, g.nodes()[0], "w"), 0) &&
           count(*g.nodes()[0].block, Op::kAccumulate) == 2;
  });
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(count(*fused->graph.nodes()[0].block, Op::kRsqrt), 1);
}

// In float16 each row is divided by its norm before it is multiplied, in a loop that streams all the same.
TEST(Superoptimize, FusesTheNormThatComesFirstIntoTheLinear) {
  const SearchResult result = search(graph_of(in_float16(programs::kNormLinear)));
  const FoundProgram* fused = find_program(result, [](const KernelGraph& g) {
    return fuses(g, {"x", "g", "w"}) && loops(tile_of(g, g.nodes()[0], "w"), 0);
  });
  ASSERT_NE(fused, nullptr);
  const KernelNode& kernel = fused->graph.nodes()[0];
  EXPECT_EQ(count(*kernel.block, Op::kAccumulate), 1);
  const Axes whole = tile_of(fused->graph, kernel, "x");
  ASSERT_EQ(whole.size(), 2U);
  EXPECT_FALSE(whole[1].loop) << to_text(fused->graph);
  const std::vector<ThreadPlan> plans = tile_plans(fused->graph, kernel, hopper());
  ASSERT_FALSE(plans.empty());
  EXPECT_GT(plans[0].get("stream", 0), 0) << to_text(plans[0]);
}

TEST(Superoptimize, FusesTheGatedMlp) {
  const SearchResult result = search(graph_of(programs::kGated));
  ASSERT_FALSE(result.programs.empty());
  const KernelGraph& best = result.programs[0].program.graph;
  ASSERT_TRUE(fuses(best, {"x", "w1", "w3"})) << to_text(best);
  EXPECT_EQ(count(*best.nodes()[0].block, Op::kMatmul), 2);
  EXPECT_EQ(count(*best.nodes()[0].block, Op::kLoad), 3);  // x once, for both
}

TEST(Superoptimize, FusesTheSoftcap) {
  const auto found_flash = search(graph_of(programs::kSoftcap));
  const FoundProgram* flash = find_program(
      found_flash, [](const KernelGraph& g) { return is_flash(g, 2, 1) && has(*g.nodes()[0].block, Op::kTanh); });
  EXPECT_NE(flash, nullptr);
}

TEST(Superoptimize, FusesTheMaskAndClampOfScores) {
  std::string text = programs::kMasked;
  text.replace(text.find("c = mask(b)"), 11, "f = clamp(b) lo=-50 hi=50\nc = mask(f)");
  const auto found_flash = search(graph_of(text), "attention");
  const FoundProgram* flash = find_program(found_flash, [](const KernelGraph& g) {
    return is_flash(g, 1, 1) && has(*g.nodes()[0].block, Op::kMask) && has(*g.nodes()[0].block, Op::kClamp);
  });
  EXPECT_NE(flash, nullptr);
}

TEST(Superoptimize, FusesNormalisedQueriesAndKeys) {
  const auto found_flash = search(graph_of(kNormalisedKeys));
  const FoundProgram* flash = find_program(found_flash, [](const KernelGraph& g) {
    return is_flash(g, 1, 1) && fuses(g, {"q", "k", "v", "gq", "gk"});
  });
  ASSERT_NE(flash, nullptr);
  EXPECT_EQ(count(*flash->graph.nodes()[0].block, Op::kRsqrt), 2);
}

TEST(Superoptimize, FusesTheLowRankUpdate) {
  const SearchResult result = search(graph_of(programs::kLora));
  EXPECT_NE(find_program(result, [](const KernelGraph& g) { return fuses(g, {"x", "w", "a", "b"}); }), nullptr);
}

TEST(Superoptimize, FusesRowsWithoutAProduct) {
  const SearchResult result = search(
      graph_of("graph 1\nx = input bf16[64,4096]\nm = input bf16[64,4096]\ny = softmax(x) dim=-1\nz = add(y, m)\n"));
  ASSERT_FALSE(result.programs.empty());
  EXPECT_TRUE(fuses(result.programs[0].program.graph, {"x", "m"})) << to_text(result.programs[0].program.graph);
}

class SmallGraphs : public testing::TestWithParam<std::string> {};

TEST_P(SmallGraphs, EveryProgramComputesWhatTheUserWrote) {
  const KernelGraph graph = graph_of(GetParam());
  const auto inputs = random_inputs(graph, 7, 0.5);
  const auto expected = values_of(graph, inputs);
  const SearchResult result = search(graph, "", 40);
  EXPECT_GT(result.programs.size(), 8U);
  for (const RankedProgram& ranked : result.programs) {
    EXPECT_TRUE(ranked.proof.equal);
    const auto values = values_of(ranked.program.graph, inputs);
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t at = 0; at < values.size(); ++at) {
      SCOPED_TRACE(to_text(ranked.program.graph));
      ASSERT_NO_FATAL_FAILURE(expect_near(values[at], expected[at], 1e-9));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Search, SmallGraphs, testing::ValuesIn(programs::kSmall));

TEST(Superoptimize, LargeScoresDoNotOverflowUnderARunningMaximum) {
  const KernelGraph naive = graph_of(programs::kSmall[0]);
  const auto inputs = random_inputs(naive, 3, 30);  // scores of thousands
  const auto any_bad = [](const std::vector<double>& values) {
    return std::any_of(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
  };
  ASSERT_TRUE(any_bad(values_of(naive, inputs)[0]));
  std::string stable = programs::kSmall[0];
  const std::string quotient = "e = exp(a)\ns = sum(e) dim=2\nd = div(e, s)";
  stable.replace(stable.find(quotient), quotient.size(), "d = softmax(a) dim=2");
  const auto expected = values_of(graph_of(stable), inputs)[0];
  int safe = 0;
  for (const RankedProgram& ranked : search(naive, "", 40).programs) {
    if (!ranked.program.safe) continue;
    std::vector<std::vector<double>> values;
    ASSERT_TRUE(evaluate(ranked.program.graph, inputs, &values, Rounding::kNone).ok());
    ASSERT_NO_FATAL_FAILURE(expect_near(values[0], expected, 1e-6)) << to_text(ranked.program.graph);
    ++safe;
  }
  EXPECT_GT(safe, 8);
}

// Whether a kernel reads the unrounded value of what it stores in 16 bits for another to read.
bool reads_twice(const KernelGraph& program) {
  std::set<int> read;
  for (const KernelNode& node : program.nodes()) read.insert(node.inputs.begin(), node.inputs.end());
  for (const KernelNode& node : program.nodes()) {
    for (std::size_t at = 0; node.block && at < node.block->stores.size(); ++at) {
      const BlockStore& store = node.block->stores[at];
      if (store.result.type == ElementType::kF32 || !read.count(node.outputs[at])) continue;
      for (const BlockNode& step : node.block->nodes)
        if (std::count(step.inputs.begin(), step.inputs.end(), store.value)) return true;
    }
  }
  return false;
}

// Whether the program keeps a value in float32 that the user's graph has in 16 bits.
bool widens(const KernelGraph& graph, const KernelGraph& program) {
  return std::any_of(graph.tensors().begin(), graph.tensors().end(), [&](const KernelTensor& tensor) {
    const int kept = program.find(tensor.name);
    return kept >= 0 && program.spec(kept).type != tensor.spec.type;
  });
}

// A rounded weight over a sum of what the weights were before: one key alone would not weigh 1.
TEST(Superoptimize, AValueReadInItsKernelAndByAnotherIsFloat32Between) {
  int widened = 0;
  for (const std::size_t at : {4, 7}) {  // whose programs had such values
    const masked::Spelling& spelling = masked::kSpellings[at];
    const KernelGraph graph = graph_of(masked::text_of(spelling, {1, 16, 512, 64}, "f16"));
    for (const RankedProgram& ranked : search(graph, "", 64).programs) {
      EXPECT_FALSE(reads_twice(ranked.program.graph)) << spelling.name << "\n" << to_text(ranked.program.graph);
      widened += widens(graph, ranked.program.graph);
    }
  }
  EXPECT_GT(widened, 0);
}

// An output keeps its type. So no kernel that makes it may read it where another does.
TEST(Superoptimize, AnOutputThatOthersReadIsReadAsItIsStored) {
  const SearchResult result = search(graph_of("graph 1\nx = input f16[64,512]\ny = input f16[64,512]\n"
                                              "w = input f16[512,256]\nh = add(x, y)\nn = square(h)\n"
                                              "s = sum(n) dim=-1\nd = div(h, s)\no = matmul(d, w)\noutputs h, o\n"),
                                     "", 64);
  EXPECT_GT(result.report.programs.pruned_for(Reason::kRounded), 0);
  EXPECT_GT(result.programs.size(), 1U);
  for (const RankedProgram& ranked : result.programs) {
    EXPECT_FALSE(reads_twice(ranked.program.graph)) << to_text(ranked.program.graph);
    EXPECT_EQ(ranked.program.graph.spec(ranked.program.graph.outputs()[0]).type, ElementType::kF16);
  }
}

// A graph, and for each input the powers of two of its deviation at which rounding or range decided what came out.
struct AtMagnitudes {
  const char* name;
  std::string text;
  std::vector<std::vector<int>> powers;
};

const AtMagnitudes kAtMagnitudes[] = {
    {"norm",
     "graph 1\nx = input f16[2,256]\nw = input f16[256,64]\nn = rms_norm(x)\ny = matmul(n, w)\n",
     {{-8, 0}, {-7, 0}, {0, 0}, {8, 0}, {10, 0}}},
    {"weighted norm",
     "graph 1\nx = input f16[16,256]\ng = input f16[256]\nw = input f16[256,64]\nn = rms_norm(x, g)\n"
     "y = matmul(n, w)\n",
     {{13, 2, -5}, {-8, -5, 4}}},
    {"quotient times",
     "graph 1\nx = input f16[64,64]\ns = input f16[64,1]\nt = input f16[1,64]\nd = div(x, s)\n"
     "y = mul(d, t)\n",
     {{9, 9, 9}, {-8, -8, 8}}},
    {"low rank",
     "graph 1\nx = input f16[64,8]\na = input f16[8,64]\nb = input f16[64,16]\nh = matmul(x, a)\n"
     "y = matmul(h, b)\n",
     {{-4, 5, 7}, {-9, 7, 8}}},
    {"a scale",
     "graph 1\nx = input f16[64,64]\nw = input f16[64,64]\np = matmul(x, w)\ny = scale(p) c=0.01\n",
     {{-8, 4}, {8, 0}}},
    {"sum multiplied back",
     "graph 1\nq = input f32[65,65]\nk = input f32[65,32]\nv = input f32[32,64]\n"
     "a = matmul(q, k)\ne = exp(a)\ns = sum(e) dim=1\nd = div(e, s)\no = matmul(d, v)\n"
     "y = mul(o, s)\n",
     {{1, 1, 1}}},
    {"a maximum in another kernel",
     "graph 1\nq = input bf16[8,15]\nk = input bf16[63,15] strides=[1,63]\nv = input bf16[63,65]\n"
     "b = input bf16[8,63] strides=[1,8]\np = matmul(q, k) tb=1\ns = scale(p) c=0.125\na = add(s, b)\n"
     "m = max(a) dim=1\nd = sub(a, m)\ne = exp(d)\nt = sum(e) dim=1\nw = div(e, t)\no = matmul(w, v)\n"
     "r = transpose(o) dims=[1,0]\ny = sum(r) dim=0\n",
     {{8, 8, 0, 0}}},
    {"a power, by it, times it",
     "graph 1\nx = input f32[64,64]\ne = exp(x)\nf = exp(x)\nd = div(e, f)\n"
     "y = mul(d, e)\n",
     {{4}}},
};

class Magnitudes : public testing::TestWithParam<AtMagnitudes> {};

std::vector<std::vector<double>> inputs_at(const KernelGraph& graph, const std::vector<int>& powers) {
  std::vector<std::vector<double>> inputs = random_inputs(graph, 5);
  for (std::size_t at = 0; at < inputs.size(); ++at) {
    for (double& x : inputs[at]) x = round_to(std::ldexp(x, powers[at]), graph.spec(graph.inputs()[at]).type);
  }
  return inputs;
}

struct Off {
  std::int64_t nonfinite = 0;  // where operator by operator is finite
  double norm = 0;
};

Off off(const std::vector<double>& found, const std::vector<double>& naive, const std::vector<double>& exact) {
  Off sum;
  for (std::size_t at = 0; at < exact.size(); ++at) {
    if (!std::isfinite(naive[at]) || !std::isfinite(exact[at])) continue;
    sum.nonfinite += !std::isfinite(found[at]);
    if (std::isfinite(found[at])) sum.norm += (found[at] - exact[at]) * (found[at] - exact[at]);
  }
  sum.norm = std::sqrt(sum.norm);
  return sum;
}

// As kernels that keep float32 within and round what they store.
TEST_P(Magnitudes, ProgramsAreAsFiniteAndAsExactAsOperatorByOperator) {
  const KernelGraph graph = graph_of(GetParam().text);
  const SearchResult result = search(graph, "", 64);
  EXPECT_GT(result.programs.size(), 1U);
  for (const std::vector<int>& powers : GetParam().powers) {
    const auto inputs = inputs_at(graph, powers);
    std::vector<std::vector<double>> exact, naive, found;
    ASSERT_TRUE(evaluate(graph, inputs, &exact).ok() && evaluate(graph, inputs, &naive, Rounding::kResults).ok());
    const Off allowed = off(naive[0], naive[0], exact[0]);
    for (const RankedProgram& ranked : result.programs) {
      ASSERT_TRUE(evaluate(ranked.program.graph, inputs, &found, Rounding::kResults).ok());
      const Off now = off(found[0], naive[0], exact[0]);
      const bool f32 = graph.spec(graph.outputs()[0]).type == ElementType::kF32;
      ASSERT_EQ(now.nonfinite, 0) << to_text(ranked.program.graph);
      ASSERT_LE(now.norm, (f32 ? 20 : 1.5) * allowed.norm) << to_text(ranked.program.graph);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Search, Magnitudes, testing::ValuesIn(kAtMagnitudes), [](const auto& at) {
  std::string name = at.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

// What products in a program's kernels read in float16 that is no load: each as the tensors and operators behind it.
std::vector<std::set<std::string_view>> narrow_operands(const KernelGraph& program) {
  std::vector<std::set<std::string_view>> found;
  for (const KernelNode& node : program.nodes()) {
    if (!node.block) continue;
    const std::vector<ElementType> types = tile_types(program, node, *node.block);
    std::vector<std::set<std::string_view>> behind;
    for (const BlockNode& step : node.block->nodes) {
      std::set<std::string_view> own = {name(step.op)};
      if (step.op == Op::kLoad) own = {program.tensor(node.inputs[static_cast<std::size_t>(step.operand)]).name};
      for (const int input : step.inputs) {
        const auto at = static_cast<std::size_t>(input);
        own.insert(behind[at].begin(), behind[at].end());
        const bool computed = node.block->nodes[at].op != Op::kLoad;
        if (step.op == Op::kMatmul && computed && types[at] == ElementType::kF16) found.push_back(behind[at]);
      }
      behind.push_back(std::move(own));
    }
  }
  return found;
}

struct NarrowOperand {
  std::string text;
  std::string_view has, has_not;  // of what stands behind it
};

const NarrowOperand kNarrowOperands[] = {
    {"graph 1\nx = input f16[16,256]\ng = input f16[256]\nw = input f16[256,64]\nn = rms_norm(x, g)\ny = matmul(n, "
     "w)\n",
     "rsqrt", "w"},
    {"graph 1\nx = input f16[64,8]\na = input f16[8,64]\nb = input f16[64,16]\nh = matmul(x, a)\ny = matmul(h, b)\n",
     "x", "b"},
    {"graph 1\nx = input f16[64,8]\na = input f16[8,64]\nb = input f16[64,16]\nh = matmul(a, b)\ny = matmul(x, h)\n",
     "b", "x"},
    {in_float16(programs::kNormLinear), "rsqrt", "w"},
    {in_float16(programs::kLora), "accumulate", "b"},
};

// x g overflows float16 where (x / norm) g does not, a b where (x a) b does not, a part of a sum where the sum does
// not.
TEST(Superoptimize, NoProductOfAKernelReadsInFloat16WhatTheGraphDoesNotHave) {
  for (const auto& [text, has, has_not] : kNarrowOperands) {
    const SearchResult result = search(graph_of(text), "", 64);
    EXPECT_GT(result.programs.size(), 1U);
    std::size_t seen = 0;
    for (const RankedProgram& ranked : result.programs) {
      for (const std::set<std::string_view>& behind : narrow_operands(ranked.program.graph)) {
        EXPECT_TRUE(behind.count(has) && !behind.count(has_not)) << to_text(ranked.program.graph);
        ++seen;
      }
    }
    EXPECT_GT(seen, 0U) << text;
  }
}

TEST(Superoptimize, RanksWhatCannotOverflowBeforeWhatCan) {
  bool unsafe = false;
  for (const RankedProgram& ranked : search(graph_of(programs::kNaive)).programs) {
    EXPECT_FALSE(unsafe && ranked.program.safe);
    unsafe = unsafe || !ranked.program.safe;
  }
  EXPECT_TRUE(unsafe);
}

// One exponential is as the user means it; the other's maximum is taken off all the same.
TEST(Superoptimize, AnExponentialThatNothingUndoesKeepsNoOtherFromItsMaximum) {
  const SearchResult result =
      search(graph_of("graph 1\nx = input f16[64,128]\nw = input f16[128,96]\ny = input f16[64,96]\na = matmul(x, w)\n"
                      "e = exp(a)\ns = sum(e) dim=1\np = div(e, s)\nu = exp(y)\no = mul(p, u)\n"));
  ASSERT_GT(result.programs.size(), 1U);
  EXPECT_EQ(result.programs[0].program.unsafe, 1);
  for (const RankedProgram& ranked : result.programs) EXPECT_EQ(ranked.program.safe, ranked.program.unsafe == 1);
  EXPECT_FALSE(result.programs.back().program.safe) << "as it stands";
}

TEST(Superoptimize, CountsAreConsistent) {
  for (const std::string& text : {programs::kNaive, programs::kNormLinear, programs::kLora}) {
    const SearchResult result = search(graph_of(text));
    const SearchReport& report = result.report;
    for (const StageCount* stage : {&report.rewrites, &report.loop_placements, &report.kernels, &report.programs})
      EXPECT_EQ(stage->explored, stage->kept + pruned(*stage)) << to_text(report);
    EXPECT_EQ(report.programs.kept, report.proved);
    EXPECT_EQ(report.ranked, static_cast<std::int64_t>(result.programs.size()));
    EXPECT_GT(report.loop_placements.pruned_for(Reason::kAbstract), 0);
    EXPECT_GT(report.kernels.pruned_for(Reason::kSharedMemory), 0);
    EXPECT_EQ(report.programs.pruned_for(Reason::kUnproved), 0) << to_text(report);
    EXPECT_TRUE(report.exhausted);
  }
}

TEST(Superoptimize, EqualSeedsGiveEqualResults) {
  const SearchResult a = search(graph_of(programs::kSoftcap)), b = search(graph_of(programs::kSoftcap));
  ASSERT_EQ(a.programs.size(), b.programs.size());
  for (std::size_t at = 0; at < a.programs.size(); ++at)
    EXPECT_EQ(a.programs[at].program.graph, b.programs[at].program.graph);
}

TEST(Superoptimize, ReportsTheRulesThatLedToAProgram) {
  const SearchResult result = search(graph_of(programs::kNaive), "attention");
  const FoundProgram* flash = find_program(result, [](const KernelGraph& g) { return is_flash(g, 2, 1); });
  ASSERT_NE(flash, nullptr);
  for (const char* rule : {"scaling_past_linear", "subtract_maximum"})
    EXPECT_EQ(std::count(flash->rules.begin(), flash->rules.end(), rule), 1) << rule;
}

TEST(Superoptimize, SaysWhyNothingFits) {
  DeviceSpec tiny = hopper();
  tiny.smem_per_block = 512;
  SearchResult result;
  const Status status = superoptimize(graph_of(programs::kNaive), tiny, {}, &result);
  EXPECT_EQ(status.code(), Code::kNoCandidate);
  EXPECT_NE(status.message().find("more shared memory than a block has"), std::string::npos) << status.message();
  EXPECT_GT(result.report.kernels.pruned_for(Reason::kSharedMemory), 0);
  EXPECT_EQ(result.report.kernels.explored, result.report.kernels.kept + pruned(result.report.kernels));
  EXPECT_TRUE(result.programs.empty());
}

TEST(Superoptimize, RefusesAnUnknownConfig) {
  SearchOptions options;
  options.config = "attentoin";
  SearchResult result;
  const Status status = superoptimize(graph_of(programs::kNaive), hopper(), options, &result);
  EXPECT_EQ(status.code(), Code::kOption);
  EXPECT_NE(status.message().find("expected none or attention"), std::string::npos) << status.message();
}

TEST(Superoptimize, TellsOfItsSteps) {
  std::vector<SearchStep> steps;
  SearchOptions options;
  options.progress = [&](SearchStep step, SearchReport*) { steps.push_back(step); };
  SearchResult result;
  ASSERT_TRUE(superoptimize(graph_of(programs::kSquare), hopper(), options, &result).ok());
  EXPECT_EQ(steps, (std::vector{SearchStep::kRewritten, SearchStep::kEnumerated, SearchStep::kProved}));
}

TEST(Superoptimize, TheIssuesGraphTakesUnderTwoSeconds) {
  if (!test::kOptimised) GTEST_SKIP() << test::kNeedsOptimisation;
  const std::clock_t start = std::clock();  // of the processor: what others do on the machine does not count
  const SearchResult result = search(graph_of(programs::kNaive), "attention");
  const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_GT(result.report.proved, 8);
  EXPECT_LT(spent, 2.0);
}

}  // namespace
}  // namespace gqa
