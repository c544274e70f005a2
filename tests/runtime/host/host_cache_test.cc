// host_cache_test.cc: the host's attention on a key/value cache: pages, lengths of their own and windows, by every
// instruction set and both families; and that a trial verifies such kernels and catches those that read what they may
// not.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/host/attention/host_kernel.h"
#include "runtime/workload/workload.h"
#include "search/families/resources.h"
#include "tests/runtime/cache_case.h"

namespace gqa::test {
namespace {

Candidate candidate_of(const std::string& text) {
  Candidate candidate;
  const Status status = parse(text, &candidate);
  EXPECT_TRUE(status.ok()) << status.message();
  return candidate;
}

// Heads packed or not, keys in one share or several, steps of more and of fewer keys than a page.
const char* const kCandidates[] = {"flash m=32 n=64 warps=1 stages=1 pack=1", "flash m=16 n=32 warps=1 stages=1 pack=2",
                                   "split m=16 n=32 warps=1 stages=1 pack=2 splits=3",
                                   "split m=16 n=64 warps=1 stages=1 pack=1 splits=1"};

// Those whose packed heads are of one group.
std::vector<Candidate> candidates_for(const Problem& p) {
  std::vector<Candidate> fit;
  for (const char* text : kCandidates)
    if (const Candidate candidate = candidate_of(text); p.group() % shape_of(candidate).pack == 0)
      fit.push_back(candidate);
  return fit;
}

Problem problem_from(const std::string& text) {
  Problem problem;
  const Status status = parse(text, &problem);
  EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  return problem;
}

void expect_right(const std::string& text, const std::vector<std::int32_t>& lengths, bool heads_first = false) {
  for (const TileKernels* kernels : usable_tile_kernels())
    for (const Candidate& candidate : candidates_for(problem_from(text))) {
      CacheCase t(text, lengths, heads_first);
      ASSERT_TRUE(HostKernel(candidate, 1, *kernels).run(t.call).ok());
      EXPECT_TRUE(t.right()) << kernels->name << ", " << to_text(candidate);
    }
}

const char* const kTypes[] = {",dtype=bf16", ",dtype=f16"};

TEST(HostCache, EachSequenceHasALengthOfItsOwn) {
  for (const char* type : kTypes)
    expect_right(std::string("b=6,hq=4,hk=2,sq=3,sk=150,d=64,causal,lens,lse") + type, {150, 0, 1, 2, 97, 128});
}

TEST(HostCache, LengthsOutsideTheCacheCountAsItsEnds) {
  expect_right("b=3,hq=2,hk=2,sq=2,sk=70,d=32,lens,lse", {-5, 71, 0x7fffffff});
}

TEST(HostCache, PagesOfAnySizeOutOfOrderAndShared) {
  for (const char* page : {"1", "3", "16", "64", "256"}) {
    const std::string of(page);
    for (const char* type : kTypes)
      expect_right("b=5,hq=2,hk=1,sq=2,sk=300,d=32,causal,lens,lse,page=" + of + type, {300, 259, 0, 5, 192});
    expect_right("b=2,hq=4,hk=2,sq=1,sk=130,d=32,dv=64,lse,page=" + of, {});
  }
}

TEST(HostCache, PagesOfAnyStrides) {
  expect_right("b=3,hq=4,hk=2,sq=1,sk=100,d=80,dv=112,lens,lse,page=16", {100, 33, 64}, true);
}

TEST(HostCache, AnyNumberOfQueriesPerSequence) {
  for (const char* queries : {"1", "3", "16"})
    for (const char* mask : {"", ",causal", ",left=20,causal"})
      expect_right("b=4,hq=6,hk=2,sq=" + std::string(queries) + mask + ",sk=80,d=32,lens,lse,page=16", {80, 7, 0, 48});
}

TEST(HostCache, WindowsOfEverySide) {
  for (const char* window : {",left=0,right=0", ",left=0", ",right=2", ",left=40,causal", ",left=7,right=3",
                             ",left=130", ",left=1000,right=1"})
    for (const char* type : kTypes) {
      expect_right("b=1,hq=2,hk=1,sq=40,sk=140,d=32,lse" + std::string(window) + type, {});
      expect_right("b=3,hq=2,hk=1,sq=5,sk=150,d=32,lens,page=16,lse" + std::string(window) + type, {150, 3, 129});
    }
}

// Blocks of keys that a window hides are not loaded: their table entries may be anything.
TEST(HostCache, BlocksOutsideAWindowAreNotLoaded) {
  for (const TileKernels* kernels : usable_tile_kernels())
    for (const char* candidate : kCandidates) {
      CacheCase t("b=2,hq=4,hk=2,sq=2,sk=256,d=64,left=15,causal,lens,page=16,lse", {256, 200});
      for (int hidden = 0; hidden < 11; ++hidden)  // of 200 keys, query 0 sees 183 to 198
        for (int b : {0, 1}) t.table[static_cast<std::size_t>(b * t.table_stride + hidden)] = 0x7fffffff;
      ASSERT_TRUE(HostKernel(candidate_of(candidate), 1, *kernels).run(t.call).ok());
      EXPECT_TRUE(t.right()) << kernels->name << ", " << candidate;
    }
}

// ---- the trial

std::unique_ptr<Trial> trial_of(const std::string& text) {
  std::unique_ptr<Device> device;
  EXPECT_TRUE(open_host_device(1, &device).ok());
  std::unique_ptr<Trial> trial;
  const Status status = compile_and_try(*device, {problem_from(text)}, Effort(60), &trial);
  EXPECT_TRUE(status.ok()) << status.message();
  return trial;
}

// The host's kernel on a call that something is wrong with.
class Misled final : public LoadedProgram {
 public:
  using Mistake = void (*)(Call*);
  explicit Misled(Mistake mistake) : mistake_(mistake) {}
  using LoadedProgram::run;
  Status run(const ProgramCall& program_call) const override {
    Call call = *program_call.attention;
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(call.problem.batch), call.problem.kv_len);
    if (call.has(Role::kKvLengths)) std::copy_n(call.list(Role::kKvLengths), lengths.size(), lengths.begin());
    lists = &lengths;
    mistake_(&call);
    return HostKernel(candidate_of(kCandidates[0]), 1).run(call);
  }

  static std::vector<std::int32_t>* lists;  // a copy of the lengths, to be spoilt

 private:
  Mistake mistake_;
};
std::vector<std::int32_t>* Misled::lists = nullptr;

bool passes(const std::string& text, Misled::Mistake mistake) { return trial_of(text)->verify(Misled(mistake)).passed; }

void point_at_spoilt(Call* call) { call->place(Role::kKvLengths, Misled::lists->data()); }

TEST(HostCacheTrial, PassesTheHostsKernels) {
  for (const char* text :
       {"b=5,hq=4,hk=2,sq=1,sk=300,d=64,lens,page=16,lse", "b=1,hq=4,hk=2,sq=16,sk=300,d=64,lens,page=3,causal",
        "b=4,hq=2,hk=2,sq=4,sk=200,d=64,lens,left=20,right=2", "b=3,hq=2,hk=2,sq=1,sk=100,d=64,page=256"})
    for (const Candidate& candidate : candidates_for(problem_from(text))) {
      const Verdict verdict = trial_of(text)->verify(HostKernel(candidate, 1));
      EXPECT_TRUE(verdict.passed) << text << ", " << to_text(candidate) << ": " << verdict.reason;
    }
}

TEST(HostCacheTrial, CatchesALengthThatIsOffOrNotRead) {
  // 67 of 100 keys: the one too many is in a page that there is.
  const std::string one = "b=1,hq=2,hk=2,sq=1,sk=100,d=64,lens,page=16", many = "b=6,hq=2,hk=2,sq=1,sk=96,d=64,lens";
  for (const std::string& text : {one, many}) {
    EXPECT_TRUE(passes(text, [](Call*) {}));
    EXPECT_FALSE(passes(text,
                        [](Call* call) {
                          ++Misled::lists->back();
                          point_at_spoilt(call);
                        }))
        << text << ": a key too many";
    EXPECT_FALSE(passes(text,
                        [](Call* call) {
                          for (std::int32_t& length : *Misled::lists) length -= length > 0;
                          point_at_spoilt(call);
                        }))
        << text << ": a key too few";
  }
  EXPECT_FALSE(passes(many, [](Call* call) { call->place(Role::kKvLengths, nullptr); })) << "one length for all";
}

TEST(HostCacheTrial, CatchesAWindowThatIsOffAtEitherSide) {
  const std::string text = "b=3,hq=2,hk=2,sq=4,sk=96,d=64,lens,left=9,right=1";
  EXPECT_TRUE(passes(text, [](Call*) {}));
  EXPECT_FALSE(passes(text, [](Call* call) { ++call->problem.window_left; }));
  EXPECT_FALSE(passes(text, [](Call* call) { --call->problem.window_left; }));
  EXPECT_FALSE(passes(text, [](Call* call) { ++call->problem.window_right; }));
  EXPECT_FALSE(passes(text, [](Call* call) { --call->problem.window_right; }));
}

// As a kernel that multiplies the value after a sequence's last by a weight of 0.
class ReadsAValueTooMany final : public LoadedProgram {
 public:
  using LoadedProgram::run;
  Status run(const ProgramCall& program_call) const override {
    const Call& call = *program_call.attention;
    const Problem& p = call.problem;
    Status status = HostKernel(candidate_of(kCandidates[0]), 1).run(call);
    for (int b = 0; b < p.batch; ++b) {
      const int length = std::min(call.list(Role::kKvLengths)[b], p.kv_len - 1);
      const std::uint16_t* value = call.at<std::uint16_t>(Role::kV) + b * call.strides(Role::kV).batch;
      std::uint16_t* out = static_cast<std::uint16_t*>(call.to(Role::kOut)) + b * call.strides(Role::kOut).batch;
      *out = store(p.q_type, load(p.q_type, *out) + 0 * load(p.q_type, value[length * call.strides(Role::kV).row]));
    }
    return status;
  }
};

TEST(HostCacheTrial, CatchesAValueThatIsReadPastALength) {
  const auto trial = trial_of("b=3,hq=2,hk=2,sq=1,sk=96,d=64,lens");
  EXPECT_TRUE(trial->verify(HostKernel(candidate_of(kCandidates[0]), 1)).passed);
  EXPECT_FALSE(trial->verify(ReadsAValueTooMany()).passed);
}

TEST(HostCacheTrial, CatchesAWrongPage) {
  const std::string text = "b=4,hq=2,hk=2,sq=1,sk=96,d=64,page=16";
  EXPECT_TRUE(passes(text, [](Call*) {}));
  EXPECT_FALSE(passes(text, [](Call* call) { call->strides(Role::kPageTable).batch = 0; }))
      << "the first sequence's pages";
  EXPECT_FALSE(passes(text, [](Call* call) {
    call->place(Role::kK, call->at<std::uint16_t>(Role::kK) + call->strides(Role::kK).row);
  })) << "a neighbour's slot";
}

}  // namespace
}  // namespace gqa::test
