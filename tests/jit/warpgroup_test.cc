// Every warpgroup kernel of the space compiled for sm_90a, with no GPU: none spills, none takes long.
// Skipped by name where no NVRTC is installed. Slow: some hundreds of compilations where no verdict is listed.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "jit/closure.h"
#include "jit/codegen.h"
#include "jit/nvrtc.h"
#include "search/families/space.h"
#include "tests/harness/verdicts.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

constexpr double kMostSeconds = 3;  // of one core that nothing shares
// On a slower core, or beside work on its other hyperthread, all compilations take longer by the same: one may then
// take so many medians, and the median so many seconds.
constexpr double kMostMedians = 3, kMostMedianSeconds = 6;

double core_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Piece {
  Problem problem;
  Candidate candidate;
};

// One of each kernel that the space has for these head dims: under a mask where keys do not fit L2, for clusters under
// the dynamic scheduler; of float16 those with a ones column.
std::vector<Piece> pieces(int head_dim) {
  std::map<std::string, Piece> found;
  for (const char* rest : {",hq=2,hk=2,sq=4096", ",hq=64,hk=16,sq=16384,causal", ",hq=2,hk=2,sq=512,dtype=f16",
                           ",hq=32,sq=16384,dtype=f16", ",hq=64,hk=16,sq=16384,causal,dtype=f16"}) {
    Problem problem;
    EXPECT_TRUE(parse("d=" + std::to_string(head_dim) + rest, &problem).ok());
    for (const Ranked& ranked : enumerate(problem, *DeviceSpec::for_arch("sm_90a")).ranked) {
      const auto* candidate = std::get_if<WgmmaFlash>(&ranked.candidate.of);
      if (candidate == nullptr || (problem.q_type == ElementType::kF16 && !candidate->has_ones())) continue;
      found.insert({attention_source(problem, ranked.candidate), {problem, ranked.candidate}});
    }
  }
  // Transposed keys: the most promising.
  Problem transposed;
  EXPECT_TRUE(parse("hq=8,hk=2,sq=4096,causal,ktrans,d=" + std::to_string(head_dim), &transposed).ok());
  const Candidate best = enumerate(transposed, *DeviceSpec::for_arch("sm_90a")).ranked.at(0).candidate;
  EXPECT_EQ(name(best), "warpgroup");
  found.insert({"transposed", {transposed, best}});
  std::vector<Piece> all;
  for (const auto& [kernel, piece] : found) all.push_back(piece);
  return all;
}

// What one core spends on a piece, seconds.
double compile(const Nvrtc& nvrtc, const Piece& piece, Compiled* compiled) {
  const std::string source = attention_source(piece.problem, piece.candidate);
  const double start = core_seconds();
  const Status status = nvrtc.compile(source, "sm_90a", compiled);
  EXPECT_TRUE(status.ok()) << to_text(piece.candidate) << ": " << status.message();
  return core_seconds() - start;
}

// What decides the verdict on a piece: all its text, and who compiles it.
std::string subject_of(const Nvrtc& nvrtc, const Piece& piece) {
  return closure_hash(attention_source(piece.problem, piece.candidate)) + " sm_90a NVRTC " + nvrtc.version_text();
}

std::string name_of(const Piece& piece) { return feature_text(piece.problem) + " " + to_text(piece.candidate); }

void expect_well_compiled(const Compiled& compiled, const std::string& what, int most_spilled = 0) {
  EXPECT_LE(compiled.spill_bytes, most_spilled) << what;
  EXPECT_EQ(compiled.static_smem, 0) << what;
  EXPECT_GT(compiled.registers, 100) << what;
  EXPECT_NE(compiled.ptx.find("wgmma.mma_async"), std::string::npos) << what;
  EXPECT_NE(compiled.ptx.find("cp.async.bulk.tensor"), std::string::npos) << what;
  // A volatile read of shared memory says so; one that does not would read parameters, which lie nowhere else.
  EXPECT_EQ(compiled.ptx.find("ld.volatile.u"), std::string::npos) << what;
  // The assembler gives up overlap silently where it cannot follow the accumulators; it says so in its log.
  EXPECT_EQ(compiled.log.find("serialized"), std::string::npos) << what << "\n" << compiled.log;
}

struct Timed {
  const Piece* piece;
  double seconds;
};

// Against the median of all, in the same minute. What took too long beside other threads is compiled again without.
void expect_fast(const Nvrtc& nvrtc, std::vector<Timed> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end(),
                   [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  const double median = middle->seconds, most = std::max(kMostSeconds, kMostMedians * median);
  EXPECT_LT(median, kMostMedianSeconds);
  for (const auto& [piece, seconds] : all) {
    if (seconds < most) continue;
    Compiled compiled;
    EXPECT_LT(compile(nvrtc, *piece, &compiled), most) << name_of(*piece);
  }
}

// The pieces that no verdict is listed of.
std::vector<Piece> not_listed(const Nvrtc& nvrtc, const std::vector<Piece>& all) {
  std::vector<Piece> left;
  for (const Piece& piece : all)
    if (!test::listed_right(subject_of(nvrtc, piece), name_of(piece))) left.push_back(piece);
  return left;
}

class WarpgroupCompilation : public ::testing::TestWithParam<int> {};

// On all cores.
void expect_compile_well(const Nvrtc& nvrtc, const std::vector<Piece>& all) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // of:
  std::vector<Timed> timed;
  const auto work = [&] {
    for (std::size_t at = next++; at < all.size(); at = next++) {
      Compiled compiled;
      const double seconds = compile(nvrtc, all[at], &compiled);
      const std::lock_guard lock(mutex);
      expect_well_compiled(compiled, name_of(all[at]));
      timed.push_back({&all[at], seconds});
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  expect_fast(nvrtc, std::move(timed));
}

TEST_P(WarpgroupCompilation, DoesNotSpillAndTakesLittleTime) {
  std::shared_ptr<const Nvrtc> nvrtc;
  if (!Nvrtc::load("", {}, &nvrtc).ok()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::vector<Piece> all = pieces(GetParam()), left = not_listed(*nvrtc, all);
  ASSERT_GE(all.size(), 2U);
  const auto well =
      left.empty() ? ::testing::AssertionSuccess() : test::no_failure_of([&] { expect_compile_well(*nvrtc, left); });
  for (const Piece& piece : all)
    EXPECT_TRUE(test::verdict(
        subject_of(*nvrtc, piece), [&] { return well; }, "", name_of(piece)));
}

// Sequences with lengths, pages or rows of their own. A producer that holds a block's pages may spill a few words, and
// so may warps that copy them.
TEST(WarpgroupLists, CompileWell) {
  std::shared_ptr<const Nvrtc> nvrtc;
  if (!Nvrtc::load("", {}, &nvrtc).ok()) GTEST_SKIP() << "no NVRTC on this machine";
  const struct {
    const char *problem, *candidate;
  } kernels[] = {{"d=128,causal,lens", "m=128 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1 q_regs=6"},
                 {"d=128,causal,packq,packk", "m=128 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1 q_regs=6"},
                 {"d=64,causal,packq,packk", "m=192 n=128 warps=12 stages=2 pack=1 dynamic=1 out=1"},
                 {"d=64,packk", "m=64 n=128 warps=8 stages=4 pack=1 dynamic=0 out=1"},
                 {"d=128,causal,page=16,lens", "m=128 n=160 warps=8 stages=2 pack=1 dynamic=1 out=1"},
                 {"d=128,causal,packq,page=16,lens", "m=128 n=128 warps=8 stages=2 pack=1 dynamic=1 out=1"},
                 {"d=256,page=64,lens", "m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=2"},
                 {"d=128,causal,page=1,lens", "m=128 n=128 warps=8 stages=2 pack=4 dynamic=1 out=1 cp_async=1"},
                 {"d=128,causal,packq,page=7,lens", "m=128 n=160 warps=8 stages=2 pack=1 dynamic=1 out=1 cp_async=1"},
                 {"d=64,causal,page=16,lens", "m=192 n=128 warps=12 stages=3 pack=1 dynamic=1 out=1 cp_async=1"},
                 {"d=64,page=1,lens", "m=64 n=128 warps=4 stages=2 pack=1 dynamic=1 out=0 cp_async=1"},
                 {"d=256,causal,page=3", "m=128 n=80 warps=8 stages=2 pack=1 dynamic=0 out=0 cp_async=1"}};
  for (const auto& [problem, candidate] : kernels) {
    Piece piece = {problem_of("b=4,hq=8,hk=2,sq=512,sk=4096," + std::string(problem)), {}};
    ASSERT_TRUE(parse("warpgroup " + std::string(candidate), &piece.candidate).ok()) << candidate;
    const auto judge = [&] {
      Compiled compiled;
      compile(*nvrtc, piece, &compiled);
      expect_well_compiled(compiled, name_of(piece), piece.problem.paged() ? 32 : 0);
    };
    EXPECT_TRUE(test::verdict(subject_of(*nvrtc, piece), [&] { return test::no_failure_of(judge); }));
  }
}

// Two suites are two processes, which compile beside each other: threads of one wait for each other in NVRTC.
std::string dim_of(const ::testing::TestParamInfo<int>& dim) { return "d" + std::to_string(dim.param); }
INSTANTIATE_TEST_SUITE_P(HeadDimsTo80, WarpgroupCompilation, ::testing::Values(16, 32, 64, 80), dim_of);
INSTANTIATE_TEST_SUITE_P(HeadDimsFrom96, WarpgroupCompilation, ::testing::Values(96, 112, 128, 192, 256), dim_of);

}  // namespace
}  // namespace gqa
