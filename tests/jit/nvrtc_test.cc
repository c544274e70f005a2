// Compiling a spread of candidates for every supported architecture, with no GPU: all assemble, fit and do not spill.
// Skipped by name where no NVRTC is installed.

#include "jit/nvrtc.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "jit/closure.h"
#include "jit/codegen.h"
#include "search/device_spec.h"
#include "search/families/resources.h"
#include "tests/harness/verdicts.h"
#include "tests/jit/nvrtc_support.h"
#include "tests/runtime/cuda/accuracy_kernels.h"

namespace gqa {
namespace {

struct Spread {
  const char* problem;
  const char* candidate;
};

const Spread kSpread[] = {
    {"hq=32,hk=8,sq=4096,sk=4096,d=128,causal", "flash m=128 n=32 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"},
    {"hq=32,hk=8,sq=4096,sk=4096,d=128", "flash m=64 n=64 warps=4 stages=1 pack=1 splits=1 head_swizzle=0"},
    {"hq=32,hk=32,sq=2048,sk=2048,d=64,dtype=f16,causal",
     "flash m=128 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"},
    {"hq=8,hk=8,sq=512,sk=512,d=256,causal", "flash m=64 n=32 warps=4 stages=1 pack=1 splits=1 head_swizzle=0"},
    {"hq=8,hk=8,sq=512,sk=512,d=32", "flash m=64 n=64 warps=4 stages=2 pack=1 splits=1 head_swizzle=0"},
    {"hq=8,hk=2,sq=33,sk=512,d=80,dv=96,align=2", "flash m=64 n=32 warps=4 stages=2 pack=4 splits=1 head_swizzle=0"},
    {"hq=16,hk=16,sq=512,sk=512,d=192,dv=128,causal",
     "flash m=64 n=32 warps=4 stages=1 pack=1 splits=1 head_swizzle=0"},
    {"hq=14,hk=2,sq=1,sk=4096,d=112", "split m=16 n=16 warps=4 stages=3 pack=7 splits=8 head_swizzle=0"},
    {"hq=32,hk=8,sq=1,sk=4096,d=128", "split m=16 n=16 warps=4 stages=4 pack=4 splits=16 head_swizzle=0"},
    {"hq=8,hk=1,sq=4,sk=4096,d=256,dtype=f16,causal",
     "split m=16 n=16 warps=2 stages=2 pack=8 splits=4 head_swizzle=0"},
    {"b=4,hq=32,hk=8,sq=4096,sk=4096,d=128,causal,packq,packk", "flash m=128 n=32 warps=4 stages=2 pack=1"},
    {"b=4,hq=32,hk=8,sq=4096,sk=4096,d=64,causal,left=99,packq,lens,page=16",
     "flash m=64 n=64 warps=4 stages=2 pack=1"},
    {"b=4,hq=32,hk=8,sq=2,sk=4096,d=128,causal,packq,packk",
     "split m=16 n=16 warps=4 stages=3 pack=4 even=1 splits=33"},
};

// Compiles a source where no verdict on it is listed; the judge expects what it wants of the result.
void expect_compiles(const Nvrtc& nvrtc, const std::string& source, const std::string& arch,
                     const std::function<void(const Compiled&)>& judge) {
  const auto compile = [&] {
    Compiled compiled;
    const Status status = nvrtc.compile(source, arch, &compiled);
    ASSERT_TRUE(status.ok()) << status.message();
    judge(compiled);
  };
  EXPECT_TRUE(test::verdict(closure_hash(source) + " " + arch + " NVRTC " + nvrtc.version_text(),
                            [&] { return test::no_failure_of(compile); }));
}

class NvrtcSpread : public ::testing::TestWithParam<const char*> {};

TEST_P(NvrtcSpread, CompilesFitsAndDoesNotSpill) {
  REQUIRE_NVRTC(nvrtc);
  const std::string arch = GetParam();
  if (!nvrtc->supports(arch)) GTEST_SKIP() << "NVRTC " << nvrtc->version_text() << " does not know " << arch;
  const DeviceSpec device = *DeviceSpec::for_arch(arch);
  for (const Spread& one : kSpread) {
    Problem problem;
    Candidate candidate;
    ASSERT_TRUE(parse(one.problem, &problem).ok());
    ASSERT_TRUE(parse(one.candidate, &candidate).ok());
    const LaunchPlan launch = plan(problem, candidate);
    if (launch.shared_memory > device.smem_per_block) continue;
    SCOPED_TRACE(std::string(one.problem) + " " + one.candidate);
    expect_compiles(*nvrtc, attention_source(problem, candidate), arch, [&](const Compiled& compiled) {
      EXPECT_EQ(0, compiled.spill_bytes);
      EXPECT_GT(compiled.registers, 16);
      EXPECT_LE(compiled.registers * launch.threads, device.registers_per_sm);
      EXPECT_EQ(0, compiled.static_smem);
      EXPECT_NE(std::string::npos, compiled.ptx.find(kEntryPoint));
      EXPECT_EQ("\177ELF", compiled.cubin.substr(0, 4));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, NvrtcSpread,
                         ::testing::Values("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"),
                         [](const auto& arch) { return std::string(arch.param); });

struct OnArch {
  const char* arch;
  Spread what;
};

const OnArch kSoftcaps[] = {
    {"sm_80", {"hq=8,hk=2,sq=256,d=64,dtype=f16,ktrans,causal,softcap", "flash m=128 n=64 warps=8 stages=2 pack=1"}},
    {"sm_80",
     {"hq=8,hk=2,sq=1,sk=4096,d=128,ktrans,align=2,softcap", "split m=16 n=16 warps=4 stages=3 pack=4 splits=4"}},
    {"sm_80",
     {"hq=8,hk=2,sq=256,d=128,causal,scores=div0+tanh+mul0+addtensor", "flash m=64 n=64 warps=4 stages=2 pack=1"}},
    {"sm_90a", {"hq=8,hk=2,sq=256,d=128,scores=mulrow+addtensor32", "flash m=128 n=32 warps=4 stages=2 pack=1"}},
    {"sm_90a",
     {"hq=8,hk=2,sq=1,sk=4096,d=128,scores=mulhead+addtensor", "split m=16 n=16 warps=4 stages=3 pack=4 splits=4"}},
    {"sm_90a",
     {"hq=8,hk=2,sq=256,d=64,dtype=f16,ktrans,causal,softcap",
      "warpgroup m=128 n=128 warps=8 stages=2 pack=1 dynamic=0 out=1"}},
};

TEST(Nvrtc, ChainsAndTransposedKeysCompileWithoutSpilling) {
  REQUIRE_NVRTC(nvrtc);
  for (const OnArch& one : kSoftcaps) {
    if (!nvrtc->supports(one.arch)) continue;
    Problem problem;
    Candidate candidate;
    ASSERT_TRUE(parse(one.what.problem, &problem).ok());
    ASSERT_TRUE(parse(one.what.candidate, &candidate).ok());
    SCOPED_TRACE(one.what.candidate);
    expect_compiles(*nvrtc, attention_source(problem, candidate), one.arch, [](const Compiled& compiled) {
      EXPECT_EQ(0, compiled.spill_bytes);
      EXPECT_EQ(compiled.log.find("serialized"), std::string::npos) << compiled.log;
    });
  }
}

// The reference of float32 calls functions of float64, and keeps registers in memory around them; nothing else spills,
// and no verification is timed.
constexpr int kSpiltByFloat64 = 160;

TEST(Nvrtc, VerificationKernelsCompile) {
  REQUIRE_NVRTC(nvrtc);
  Compiled compiled;
  const Status status = nvrtc->compile(check_source(), "sm_80", &compiled);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LE(compiled.spill_bytes, kSpiltByFloat64);
  for (const char* kernel :
       {"gqa_fill", "gqa_reference", "gqa_reference_wide", "gqa_compare", "gqa_scan", "gqa_clock", "gqa_probe"})
    EXPECT_NE(std::string::npos, compiled.ptx.find(kernel)) << kernel;
}

TEST(Nvrtc, TheMergerOfStatesCompilesWithoutSpilling) {
  REQUIRE_NVRTC(nvrtc);
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
    if (!nvrtc->supports(arch)) continue;
    Compiled compiled;
    const Status status = nvrtc->compile(merge_source(), arch, &compiled);
    ASSERT_TRUE(status.ok()) << arch << ": " << status.message();
    EXPECT_EQ(0, compiled.spill_bytes) << arch;
    EXPECT_LE(compiled.registers, 64) << arch;
    EXPECT_EQ(std::string::npos, compiled.ptx.find(".local")) << arch << ": parts are copied to local memory";
    EXPECT_NE(std::string::npos, compiled.ptx.find(kMergeEntryPoint)) << arch;
  }
}

TEST(Nvrtc, TheKernelThatAppendsCompilesWithoutSpilling) {
  REQUIRE_NVRTC(nvrtc);
  const struct {
    const char* arch;
    int registers;
  } all[] = {{"sm_80", 64}, {"sm_90a", 64}, {"sm_100a", 72}, {"sm_120a", 72}};
  for (const auto& [arch, registers] : all) {
    if (!nvrtc->supports(arch)) continue;
    Compiled compiled;
    const Status status = nvrtc->compile(append_source(), arch, &compiled);
    ASSERT_TRUE(status.ok()) << arch << ": " << status.message();
    EXPECT_EQ(0, compiled.spill_bytes) << arch;
    EXPECT_LE(compiled.registers, registers) << arch;
    EXPECT_EQ(std::string::npos, compiled.ptx.find(".local")) << arch << ": elements are copied to local memory";
    EXPECT_NE(std::string::npos, compiled.ptx.find(kAppendEntryPoint)) << arch;
  }
}

TEST(Nvrtc, KernelsOfTheAccuracyTestsCompile) {
  REQUIRE_NVRTC(nvrtc);
  Compiled compiled;
  const Status status = nvrtc->compile(test::kAccuracySource, "sm_80", &compiled);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_LE(compiled.spill_bytes, kSpiltByFloat64);
}

TEST(Nvrtc, ALayoutThatDiffersFromTheHostsPlanDoesNotCompile) {
  REQUIRE_NVRTC(nvrtc);
  Problem problem;
  Candidate candidate;
  ASSERT_TRUE(parse(kSpread[0].problem, &problem).ok());
  ASSERT_TRUE(parse(kSpread[0].candidate, &candidate).ok());
  std::string source = attention_source(problem, candidate);
  const std::string size = std::to_string(plan(problem, candidate).shared_memory);
  source.replace(source.find("== " + size) + 3, size.size(),
                 std::to_string(plan(problem, candidate).shared_memory + 16));
  Compiled compiled;
  const Status status = nvrtc->compile(source, "sm_80", &compiled);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string::npos, status.message().find("the host's plan and the device's layout differ"))
      << status.message();
}

TEST(Nvrtc, AnErrorNamesItsLine) {
  REQUIRE_NVRTC(nvrtc);
  Compiled compiled;
  const Status status = nvrtc->compile("__global__ void f() { nonsense; }", "sm_80", &compiled);
  EXPECT_EQ(Code::kNoCompiler, status.code());
  EXPECT_NE(std::string::npos, status.message().find("nonsense")) << status.message();
}

TEST(Nvrtc, CompilesOnSeveralThreads) {
  REQUIRE_NVRTC(nvrtc);
  std::vector<std::string> cubins(2);
  std::vector<std::thread> threads;
  for (std::string& cubin : cubins)
    threads.emplace_back([&cubin, &nvrtc] {
      Compiled compiled;
      if (nvrtc->compile("extern \"C\" __global__ void f(int* p) { *p = 1; }", "sm_80", &compiled).ok())
        cubin = compiled.cubin;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(cubins[0].empty());
  EXPECT_EQ(cubins[0], cubins[1]);
}

TEST(Nvrtc, APathThatDoesNotLoadIsNamed) {
  std::shared_ptr<const Nvrtc> nvrtc;
  const Status status = Nvrtc::load("/nonexistent/libnvrtc.so", {}, &nvrtc);
  EXPECT_EQ(Code::kNoCompiler, status.code());
  EXPECT_EQ(nullptr, nvrtc);
  EXPECT_NE(std::string::npos, status.message().find("/nonexistent/libnvrtc.so")) << status.message();
}

// With others to be found.
TEST(Nvrtc, OneThatTheEnvironmentNamesAndThatDoesNotLoadIsNamed) {
  const char* const before = getenv("GQA_NVRTC");
  const std::string kept = before != nullptr ? before : "";
  for (const char* path : {"/nonexistent/libnvrtc.so", "/nonexistent", "/etc/passwd", "/etc"}) {
    setenv("GQA_NVRTC", path, 1);
    std::shared_ptr<const Nvrtc> nvrtc;
    const Status status = Nvrtc::load("", {}, &nvrtc);
    EXPECT_EQ(Code::kNoCompiler, status.code()) << path;
    EXPECT_EQ(nullptr, nvrtc);
    EXPECT_NE(std::string::npos, status.message().find("GQA_NVRTC names '" + std::string(path) + "'"))
        << status.message();
  }
  if (before != nullptr)
    setenv("GQA_NVRTC", kept.c_str(), 1);
  else
    unsetenv("GQA_NVRTC");
}

TEST(Nvrtc, AGivenOneThatDoesNotKnowTheArchitectureIsRefusedByName) {
  REQUIRE_NVRTC(nvrtc);
  std::shared_ptr<const Nvrtc> given;
  const Status status = Nvrtc::load(nvrtc->path(), {"sm_999a", 0}, &given);
  EXPECT_EQ(Code::kNoCompiler, status.code());
  EXPECT_EQ(nullptr, given);
  for (const std::string& part : {nvrtc->path(), "NVRTC " + nvrtc->version_text(), std::string("sm_999a, only sm_")})
    EXPECT_NE(std::string::npos, status.message().find(part)) << part << ": " << status.message();
}

TEST(Nvrtc, WhereNoneKnowsTheArchitectureEachIsNamed) {
  REQUIRE_NVRTC(nvrtc);
  std::shared_ptr<const Nvrtc> found;
  const Status status = Nvrtc::load("", {"sm_999a", 0}, &found);
  EXPECT_EQ(Code::kNoCompiler, status.code());
  EXPECT_EQ(nullptr, found);
  for (const char* part : {"no NVRTC for sm_999a", "does not know sm_999a, only sm_", "pip install"})
    EXPECT_NE(std::string::npos, status.message().find(part)) << part << ": " << status.message();
}

TEST(Nvrtc, OneOlderThanTheDriverComesFirstAndANewerOneWillDo) {
  REQUIRE_NVRTC(nvrtc);
  for (const int driver : {99000, 12000, 1000}) {
    std::shared_ptr<const Nvrtc> found;
    ASSERT_TRUE(Nvrtc::load("", {"sm_80", driver}, &found).ok()) << driver;
    EXPECT_TRUE(found->supports("sm_80")) << driver;
  }
}

// Every architecture from sm_90 on whose number is listed is known by its `a` form as well: what supports() relies on.
TEST(Nvrtc, KnowsTheArchitectureSpecificFormOfWhatItLists) {
  REQUIRE_NVRTC(nvrtc);
  for (const std::string& arch : DeviceSpec::known_archs()) {
    if (arch.back() != 'a' || !nvrtc->supports(arch)) continue;
    Compiled compiled;
    const Status status = nvrtc->compile("extern \"C\" __global__ void f(int* p) { *p = 1; }", arch, &compiled);
    EXPECT_TRUE(status.ok()) << arch << ": " << status.message();
  }
}

}  // namespace
}  // namespace gqa
