// Code generation is a pure function of problem and candidate: its text is held by golden files, and what may not shape
// it (lengths, batch, heads, launch parameters) must not.

#include "jit/codegen.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "jit/embedded.h"
#include "jit/score_chain.h"
#include "search/families/resources.h"
#include "search/graph/attention/attention_form.h"
#include "tests/search/from_text.h"
#include "tests/search/graph/graphs.h"
#include "tests/search/graph/programs.h"

namespace gqa {
namespace {

// With GQA_UPDATE_GOLDEN set the file is written instead, to be read in the diff.
std::string golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GQA_GOLDEN_DIR) + "/" + name;
  if (std::getenv("GQA_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::stringstream held;
  held << std::ifstream(path).rdbuf();
  return held.str();
}

TEST(Codegen, FlashText) {
  const std::string text =
      attention_source(problem_of("hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal"),
                       candidate_of("flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"));
  EXPECT_EQ(golden("flash_bf16_d128_causal.cu", text), text);
}

TEST(Codegen, SplitText) {
  const std::string text =
      attention_source(problem_of("hq=16,hk=2,sq=1,sk=8192,d=192,dv=128,dtype=f16,align=2"),
                       candidate_of("split m=16 n=16 warps=4 stages=3 pack=8 splits=16 head_swizzle=0"));
  EXPECT_EQ(golden("split_f16_d192_dv128_unaligned.cu", text), text);
}

TEST(Codegen, WarpgroupText) {
  const std::string text = attention_source(
      problem_of("hq=32,hk=8,sq=4096,sk=4096,d=64,dtype=bf16,causal"),
      candidate_of("warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1 splits=1 head_swizzle=0"));
  EXPECT_EQ(golden("warpgroup_bf16_d64_causal.cu", text), text);
}

// The flash kernel of a graph with steps on its scores.
AttentionForm stepped(const std::string& steps) {
  std::string text = programs::kFlash;
  const std::string product = "s = matmul(qt, kt)";
  text.replace(text.find(product), product.size(), "a = matmul(qt, kt)\n" + steps);
  const auto form = attention_form(graph_of(text));
  EXPECT_TRUE(form) << text;
  return form.value_or(AttentionForm());
}

// No constant of a graph is in its kernel, and a soft cap's is a call's.
TEST(Codegen, GraphsThatDifferInConstantsShareAKernel) {
  const Candidate candidate = candidate_of("flash m=64 n=64 warps=4 stages=2 pack=1");
  const auto source = [&](const std::string& steps) { return attention_source(stepped(steps).problem, candidate); };
  const auto capped = [](const char* scale, const char* cap) {
    return std::string("  b = scale(a) c=") + scale + "\n  t = tanh(b)\n  s = scale(t) c=" + cap;
  };
  const std::string softcap = source(capped("0.05", "20"));
  EXPECT_EQ(softcap, source(capped("0.04", "30")));
  EXPECT_EQ(softcap, attention_source(problem_of("hq=32,hk=8,sq=9,sk=9,d=64,dtype=f16,ktrans,softcap"), candidate));
  EXPECT_EQ(source("  s = scale(a) c=-0.5"), source("  s = scale(a) c=-0.25"));
  const auto clamped = [](const char* add, const char* bounds) {
    return std::string("  b = add_constant(a) c=") + add + "\n  s = clamp(b) " + bounds;
  };
  EXPECT_EQ(source(clamped("2", "lo=-1 hi=1")), source(clamped("-0.5", "hi=3")));
  EXPECT_NE(source(clamped("2", "lo=-1 hi=1")), softcap);
}

TEST(Codegen, AClampReadsTwoNumbers) {
  const ScoreChain chain = problem_of("hq=8,sq=100,d=64,scores=mul0+clamp2+tanh").chain;
  EXPECT_EQ(score_chain("C", chain, ElementType::kBF16), R"(struct C {
  static __device__ float apply(float x, const gqa::ScoreParams* numbers) {
    x = x * numbers->factor;
    x = gqa::clamp(x, numbers->slots[2], numbers->slots[3]);
    x = gqa::fast_tanh(x);
    return x;
  }
};
)");
  EXPECT_EQ(steps_text(chain), "mul factor; clamp slot 2 to slot 3; tanh");
}

// What a problem's chain may have: its numbers come with the launch, none is in the text.
TEST(Codegen, EveryOperatorOfAChainReadsItsNumberFromTheLaunch) {
  int taken = 0;
  for (int at = 0; at <= static_cast<int>(Op::kCustom); ++at) {
    const OpInfo& row = info(static_cast<Op>(at));
    if (!chain_takes(row.op)) continue;
    ++taken;
    const bool reads = operands_read(row.op) > 0;
    const ChainStep step = reads ? ChainStep{row.op, ChainOperand::kSlot, 2} : ChainStep{row.op};
    ScoreChain chain;  // between others, so that no factor is folded
    for (const ChainStep& each : {ChainStep{Op::kRelu}, step, ChainStep{Op::kTanh}}) chain.steps[chain.count++] = each;
    const std::string text = score_chain("C", chain, ElementType::kF16);
    EXPECT_EQ(text.find("x = x;"), std::string::npos) << row.name;
    EXPECT_EQ(text.find("numbers->slots[2]") != std::string::npos, reads) << text;
  }
  EXPECT_EQ(taken, 15);
}

TEST(Codegen, BiasText) {
  const std::string text =
      attention_source(problem_of("hq=16,hk=8,sq=4096,d=128,causal,scores=div0+mulrow+tanh+addtensor"),
                       candidate_of("flash m=64 n=32 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"));
  EXPECT_EQ(golden("flash_bf16_d128_bias.cu", text), text);
}

TEST(Codegen, AnArraysElementIsPartOfTheText) {
  const Candidate candidate = candidate_of("split m=16 n=16 warps=4 stages=3 pack=8 splits=16");
  const auto source = [&](const std::string& of) {
    return attention_source(problem_of("hq=8,hk=1,sq=4,sk=4096,d=64,dtype=" + of), candidate);
  };
  EXPECT_NE(source("f16,scores=addtensor").find("using Element = gqa::F16;"), std::string::npos);
  EXPECT_NE(source("bf16,scores=addtensor").find("using Element = gqa::BF16;"), std::string::npos);
  EXPECT_NE(source("bf16,scores=addtensor32").find("using Element = gqa::F32;"), std::string::npos);
}

TEST(Codegen, SoftcapText) {
  const std::string text =
      attention_source(problem_of("hq=16,hk=8,sq=4096,d=256,causal,lens,page=16,softcap"),
                       candidate_of("flash m=64 n=32 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"));
  EXPECT_EQ(golden("flash_bf16_d256_paged_softcap.cu", text), text);
}

// The last argument, after whichever the family has.
TEST(Codegen, NumbersForScoresAreTheLastArgument) {
  for (const char* candidate :
       {"flash m=64 n=64 warps=4 stages=2 pack=1", "split m=16 n=16 warps=4 stages=3 pack=1 splits=2",
        "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1"}) {
    const std::string plain = attention_source(problem_of("hq=32,hk=8,sq=64,sk=4096,d=128"), candidate_of(candidate));
    const std::string capped =
        attention_source(problem_of("hq=32,hk=8,sq=64,sk=4096,d=128,softcap"), candidate_of(candidate));
    EXPECT_EQ(plain.find("ScoreParams"), std::string::npos) << plain;
    EXPECT_NE(capped.find("gqa::ScoreParams scores) {"), std::string::npos) << capped;
    EXPECT_NE(capped.find("*reinterpret_cast<Smem*>(memory)}.run(&scores);"), std::string::npos) << capped;
  }
}

TEST(Codegen, LengthsAndLaunchParametersDoNotShapeTheCode) {
  const Problem a = problem_of("b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,causal");
  const Problem b = problem_of("b=7,hq=40,hk=8,sq=33,sk=777,d=128,causal");
  for (const auto& [kernel, launch] :
       {std::pair("split m=16 n=16 warps=4 stages=3 pack=1", " splits=9"),
        std::pair("flash m=64 n=64 warps=4 stages=2 pack=1", " head_swizzle=1"),
        std::pair("warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1", " head_swizzle=1")})
    EXPECT_EQ(attention_source(a, candidate_of(kernel)),
              attention_source(b, candidate_of(kernel + std::string(launch))));
}

// The constants that the device code is told.
std::string config_text(const Problem& problem, const std::string& candidate) {
  const std::string source = attention_source(problem, candidate_of(candidate));
  const std::size_t begin = source.find("struct Config");
  return source.substr(begin, source.find("};", begin) - begin);
}

// Each family has a candidate and what makes another kernel of it.
TEST(Codegen, EveryCompiledFieldShapesTheCode) {
  struct Family {
    std::string base;
    std::vector<const char*> others;
  };
  const std::string warpgroup = "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1 ones_column=1";
  const Family families[] = {
      {"flash m=64 n=64 warps=4 stages=2 pack=1", {"m=128", "n=32", "warps=2", "stages=3", "pack=2"}},
      {"split m=64 n=64 warps=4 stages=2 pack=1", {"m=32", "n=32", "warps=2", "stages=3", "pack=2"}},
      {warpgroup,
       {"m=192 warps=12", "n=64", "stages=3", "pack=2", "dynamic=1", "ones_column=0", "queries=2", "q_regs=2",
        "cluster=2", "stream_k=5"}},
      {"warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1", {"out=0", "out=2", "warps=8"}}};
  const Problem p = problem_of("hq=32,hk=8,sq=4096,sk=4096,d=128");
  for (const Family& family : families) {
    std::set<std::string> configs = {config_text(p, family.base)};
    for (const char* other : family.others)
      EXPECT_TRUE(configs.insert(config_text(p, with_fields(family.base, other))).second)
          << family.base << " " << other;
  }
}

TEST(Codegen, FeaturesOfTheProblemShapeTheCode) {
  const Candidate c = candidate_of("flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0");
  const std::string base = attention_source(problem_of("hq=8,sq=64,sk=64,d=128"), c);
  for (const char* other :
       {"hq=8,sq=64,sk=64,d=128,causal", "hq=8,sq=64,sk=64,d=128,dtype=f16", "hq=8,sq=64,sk=64,d=64",
        "hq=8,sq=64,sk=64,d=128,dv=64", "hq=8,sq=64,sk=64,d=128,align=2", "hq=8,sq=64,sk=64,d=128,ktrans"})
    EXPECT_NE(base, attention_source(problem_of(other), c)) << other;
  // Strides that no tensor map can express rule kernels out; they change none.
  EXPECT_EQ(base, attention_source(problem_of("hq=8,sq=64,sk=64,d=128,notma"), c));
}

// Calls with and without log-sum-exp share what is compiled: a kernel's key is its source.
TEST(Codegen, LogSumExpAskedForOrNotIsTheSameCode) {
  const Problem with = problem_of("hq=8,sq=64,sk=64,d=128,causal,lse"),
                without = problem_of("hq=8,sq=64,sk=64,d=128,causal");
  EXPECT_EQ(feature_text(with), feature_text(without));
  for (const char* candidate : {"flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0",
                                "split m=16 n=16 warps=4 stages=3 pack=1 splits=4",
                                "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1"})
    EXPECT_EQ(attention_source(with, candidate_of(candidate)), attention_source(without, candidate_of(candidate)));
}

// Who else wants to know what a row sees asks the walk.
TEST(Codegen, OnlyTheWalkKnowsOfCausality) {
  for (const EmbeddedHeader& header : embedded_headers())
    EXPECT_EQ(header.text.find("kCausal") != std::string::npos, header.name == "attention/common/walk.cuh")
        << header.name;
}

// The kernel meets its tile scheduler as a type of the Config, so that one is taken out with its header.
TEST(Codegen, ATileSchedulerIsNamedByItsHeaderAndItsKernelsOnly) {
  const std::pair<const char*, const char*> schedulers[] = {{"StreamK", "stream_k=5"}, {"DynamicTiles", "dynamic=1"}};
  const std::string base = "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1";
  const Problem p = problem_of("hq=8,sq=4096,sk=4096,d=64");
  for (const auto& [type, field] : schedulers) {
    std::string holder;
    for (const EmbeddedHeader& header : embedded_headers()) {
      if (header.text.find(type) == std::string::npos) continue;
      EXPECT_EQ(holder, "") << header.name;
      holder = header.name;
    }
    const std::string include = "#include \"" + holder + "\"";
    EXPECT_NE(attention_source(p, candidate_of(with_fields(base, field))).find(include), std::string::npos) << type;
    EXPECT_EQ(attention_source(p, candidate_of(base)).find(include), std::string::npos) << type;
  }
}

TEST(Codegen, GeneratedSourceNeedsNoToolkitHeader) {
  for (const EmbeddedHeader& header : embedded_headers()) {
    std::istringstream lines(header.text);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("#include", 0) != 0) continue;
      bool own = false;
      for (const EmbeddedHeader& other : embedded_headers()) own = own || line == "#include \"" + other.name + "\"";
      EXPECT_TRUE(own) << header.name << ": " << line;
    }
  }
  EXPECT_GE(embedded_headers().size(), 10U);
}

}  // namespace
}  // namespace gqa
