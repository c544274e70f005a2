// Code generation is a pure function of problem and candidate: its text is held by golden files, and what may not shape
// it (lengths, batch, heads, launch parameters) must not.

#include "jit/codegen.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "jit/embedded.h"
#include "search/resources.h"

namespace gqa {
namespace {

Problem problem_of(const char* text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem;
}

Candidate candidate_of(const char* text) {
  Candidate candidate;
  const Status status = parse(text, &candidate);
  EXPECT_TRUE(status.ok()) << status.message();
  return candidate;
}

// With GQA_UPDATE_GOLDEN set the file is written instead, to be read in the diff.
std::string golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GQA_GOLDEN_DIR) + "/" + name;
  if (std::getenv("GQA_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::stringstream held;
  held << std::ifstream(path).rdbuf();
  return held.str();
}

TEST(Codegen, FlashText) {
  const std::string text = attention_source(problem_of("hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal"),
                                            candidate_of("flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 order=0"));
  EXPECT_EQ(golden("flash_bf16_d128_causal.cu", text), text);
}

TEST(Codegen, SplitText) {
  const std::string text = attention_source(problem_of("hq=16,hk=2,sq=1,sk=8192,d=192,dv=128,dtype=f16,align=2"),
                                            candidate_of("split m=16 n=16 warps=4 stages=3 pack=8 splits=16 order=0"));
  EXPECT_EQ(golden("split_f16_d192_dv128_unaligned.cu", text), text);
}

TEST(Codegen, WarpgroupText) {
  const std::string text =
      attention_source(problem_of("hq=32,hk=8,sq=4096,sk=4096,d=64,dtype=bf16,causal"),
                       candidate_of("warpgroup m=128 n=64 warps=8 stages=2 pack=1 draw=1 out=1 splits=1 order=0"));
  EXPECT_EQ(golden("warpgroup_bf16_d64_causal.cu", text), text);
}

TEST(Codegen, LengthsAndLaunchParametersDoNotShapeTheCode) {
  const Problem a = problem_of("b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,causal");
  const Problem b = problem_of("b=7,hq=40,hk=8,sq=33,sk=777,d=128,causal");
  Candidate c = candidate_of("split m=16 n=16 warps=4 stages=3 pack=1 splits=1 order=0");
  Candidate d = c;
  d.splits = 9;
  d.order = 1;
  EXPECT_EQ(attention_source(a, c), attention_source(b, d));
}

TEST(Codegen, EveryCompiledFieldShapesTheCode) {
  const Problem p = problem_of("hq=32,hk=8,sq=4096,sk=4096,d=128");
  Candidate base = candidate_of("flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 order=0");
  base.skeleton = Skeleton::kWarpgroup;  // has all of them
#define GQA_EXPECT_SHAPES(field, key, initial, use)                                      \
  {                                                                                      \
    Candidate changed = base;                                                            \
    changed.field *= 2;                                                                  \
    if (changed.field == base.field) changed.field = 1;                                  \
    const bool shapes = FieldUse::use != FieldUse::kLaunch;                              \
    EXPECT_EQ(shapes, attention_source(p, base) != attention_source(p, changed)) << key; \
  }
  GQA_CANDIDATE_FIELDS(GQA_EXPECT_SHAPES)
#undef GQA_EXPECT_SHAPES
}

TEST(Codegen, FeaturesOfTheProblemShapeTheCode) {
  const Candidate c = candidate_of("flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 order=0");
  const std::string base = attention_source(problem_of("hq=8,sq=64,sk=64,d=128"), c);
  for (const char* other : {"hq=8,sq=64,sk=64,d=128,causal", "hq=8,sq=64,sk=64,d=128,dtype=f16",
                            "hq=8,sq=64,sk=64,d=64", "hq=8,sq=64,sk=64,d=128,dv=64", "hq=8,sq=64,sk=64,d=128,align=2"})
    EXPECT_NE(base, attention_source(problem_of(other), c)) << other;
  // Strides that no tensor map can express rule kernels out; they change none.
  EXPECT_EQ(base, attention_source(problem_of("hq=8,sq=64,sk=64,d=128,notma"), c));
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

TEST(Codegen, FingerprintIsAHash) {
  const std::string fingerprint = generator_fingerprint();
  EXPECT_EQ(32U, fingerprint.size());
  EXPECT_EQ(std::string::npos, fingerprint.find_first_not_of("0123456789abcdef"));
}

}  // namespace
}  // namespace gqa
