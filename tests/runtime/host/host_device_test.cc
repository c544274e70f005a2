// The host device: every shape rule against float64, every ranked candidate verified, verification that catches planted
// faults, concurrent callers, and the whole loop with a cache.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/element.h"
#include "runtime/host/attention/host_kernel.h"
#include "runtime/host/attention/tile.h"
#include "runtime/session/session.h"
#include "runtime/verify/reference.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/workload.h"
#include "search/families/space.h"
#include "search/problem/signature.h"
#include "tests/runtime/attention_case.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

using test::AttentionCase;
using test::matches_float64;
using test::problem_of;

std::unique_ptr<Device> host(int threads = 2) {
  std::unique_ptr<Device> device;
  EXPECT_TRUE(open_host_device(threads, &device).ok());
  return device;
}

std::unique_ptr<LoadedProgram> kernel_of(Device& device, const Problem& problem, const Candidate& candidate) {
  std::unique_ptr<LoadedProgram> kernel;
  const Status status = compile_and_load(device, program_of(problem, candidate, DeviceKind::kHost), &kernel);
  EXPECT_TRUE(status.ok()) << status.message();
  return kernel;
}

// The best flash and the best split candidate of the problem's signature, run on the problem itself.
::testing::AssertionResult runs_right(const Problem& problem, bool heads_first = false, float magnitude = 1) {
  const auto device = host();
  const Problem wanted = Signature(problem).problem();
  for (const char* family : {"flash", "split"})
    for (const Ranked& ranked : enumerate(wanted, device->spec()).ranked) {
      if (name(ranked.candidate) != family) continue;
      AttentionCase tensors(problem, heads_first, magnitude);
      if (Status s = kernel_of(*device, wanted, ranked.candidate)->run(tensors.call); !s.ok())
        return ::testing::AssertionFailure() << s.message();
      if (const auto result = matches_float64(tensors); !result)
        return ::testing::AssertionFailure() << to_text(ranked.candidate) << ": " << result.message();
      break;
    }
  return ::testing::AssertionSuccess();
}

TEST(HostDevice, EveryHeadDim) {
  for (const int d : {16, 32, 64, 80, 96, 112, 128, 192, 256})
    for (const char* rest :
         {",hq=4,hk=2,sq=37,sk=37,causal", ",hq=4,hk=2,sq=19,sk=70,dtype=f16", ",hq=4,hk=1,sq=1,sk=200",
          ",hq=4,hk=2,sq=37,sk=37,dtype=f32,causal", ",hq=4,hk=1,sq=1,sk=200,dtype=f32"})
      EXPECT_TRUE(runs_right(problem_of("b=2,d=" + std::to_string(d) + rest)));
}

TEST(HostDevice, HeadDimOfVDiffers) {
  for (const char* dims : {"d=192,dv=128", "d=64,dv=256", "d=256,dv=32"})
    EXPECT_TRUE(runs_right(problem_of(std::string("b=1,hq=2,hk=1,sq=40,sk=40,causal,") + dims)));
}

TEST(HostDevice, EveryGroup) {
  for (const char* heads : {"hq=3,hk=3", "hq=5,hk=1", "hq=6,hk=1", "hq=14,hk=2", "hq=8,hk=2", "hq=16,hk=1"})
    for (const char* rest : {",sq=1,sk=77", ",sq=3,sk=90,causal", ",sq=33,sk=33,causal"})
      EXPECT_TRUE(runs_right(problem_of(std::string("b=2,d=64,") + heads + rest)));
}

TEST(HostDevice, AnyLengths) {
  for (const char* lengths : {"sq=1,sk=1", "sq=2,sk=1", "sq=5,sk=63", "sq=64,sk=65", "sq=65,sk=31", "sq=129,sk=257"})
    for (const char* mask : {"", ",causal"})
      EXPECT_TRUE(runs_right(problem_of(std::string("b=1,hq=2,hk=1,d=64,") + lengths + mask)));
}

TEST(HostDevice, HeadsFirstAndUnalignedLayouts) {
  EXPECT_TRUE(runs_right(problem_of("b=2,hq=4,hk=2,sq=33,sk=50,d=80,causal"), true));
  EXPECT_TRUE(runs_right(problem_of("b=2,hq=4,hk=2,sq=33,sk=50,d=80,align=2")));
  EXPECT_TRUE(runs_right(problem_of("b=1,hq=4,hk=2,sq=1,sk=50,d=64,align=2,dtype=f16")));
}

TEST(HostDevice, BroadcastKeysAndValues) {
  const auto device = host();
  const Problem p = problem_of("b=3,hq=2,hk=2,sq=20,sk=30,d=64");
  AttentionCase t(p);
  t.call.strides(Role::kK).batch = t.call.strides(Role::kV).batch = 0;
  t.call.strides(Role::kK).head = 0;
  ASSERT_TRUE(kernel_of(*device, p, enumerate(p, device->spec()).ranked.front().candidate)->run(t.call).ok());
  EXPECT_TRUE(matches_float64(t));
}

TEST(HostDevice, LargeMagnitudes) {
  EXPECT_TRUE(runs_right(problem_of("b=1,hq=2,hk=1,sq=50,sk=80,d=64,dtype=bf16"), false, 30));
  EXPECT_TRUE(runs_right(problem_of("b=1,hq=2,hk=1,sq=1,sk=300,d=64,dtype=f16"), false, 30));
}

TEST(HostDevice, EqualScoresAverageTheValues) {
  const auto device = host();
  const Problem p = problem_of("b=1,hq=2,hk=1,sq=5,sk=300,d=32,dtype=f16");
  AttentionCase t(p);
  std::fill(t.k.begin(), t.k.end(), std::uint16_t{0});
  ASSERT_TRUE(kernel_of(*device, p, enumerate(p, device->spec()).ranked.front().candidate)->run(t.call).ok());
  EXPECT_TRUE(matches_float64(t));
  EXPECT_NEAR(std::log(300.0), t.lse[0], 1e-5);
}

// One key's score is hundreds over the others: every other weight is nothing, and the output is that key's value.
TEST(HostDevice, OneDominantKey) {
  const auto device = host();
  for (const char* text : {"b=1,hq=2,hk=1,sq=40,sk=600,d=64", "b=1,hq=4,hk=1,sq=1,sk=600,d=64,dtype=f16"}) {
    const Problem p = problem_of(text);
    AttentionCase t(p);
    std::fill(t.q.begin(), t.q.end(), store(p.q_type, 8));
    std::fill(t.k.begin() + 333 * 64, t.k.begin() + 334 * 64, store(p.q_type, 8));
    ASSERT_TRUE(kernel_of(*device, p, enumerate(p, device->spec()).ranked.front().candidate)->run(t.call).ok());
    EXPECT_TRUE(matches_float64(t));
    for (int d = 0; d < 64; ++d)
      EXPECT_EQ(load(t.call.problem.q_type, t.v[static_cast<std::size_t>(333 * 64 + d)]), t.out_at(0, 1, 0, d));
  }
}

TEST(HostDevice, ANaNReachesItsRowOnly) {
  const auto device = host();
  const Problem p = problem_of("b=1,hq=2,hk=1,sq=40,sk=70,d=64");
  AttentionCase t(p);
  t.q[3 * 2 * 64 + 5] = 0x7fc0;  // position 3 of head 0
  ASSERT_TRUE(kernel_of(*device, p, enumerate(p, device->spec()).ranked.front().candidate)->run(t.call).ok());
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 40; ++i) {
      const bool poisoned = h == 0 && i == 3;
      EXPECT_EQ(poisoned, std::isnan(t.out_at(0, h, i, 63))) << h << "," << i;
      EXPECT_EQ(poisoned, std::isnan(t.lse[static_cast<std::size_t>(h * 40 + i)])) << h << "," << i;
    }
}

TEST(HostDevice, EveryRankedCandidateVerifies) {
  const auto device = host();
  for (const char* text : {"b=1,hq=4,hk=1,sq=96,sk=128,d=64,causal", "b=2,hq=4,hk=2,sq=1,sk=512,d=64,dtype=f16"}) {
    const Problem p = problem_of(text);
    std::unique_ptr<Trial> trial;
    ASSERT_TRUE(compile_and_try(*device, {p}, Effort(60), &trial).ok());
    const std::vector<Ranked> ranked = enumerate(p, device->spec()).ranked;
    EXPECT_GT(ranked.size(), 8U) << text;
    for (const Ranked& one : ranked) {
      const Verdict verdict = trial->verify(*kernel_of(*device, p, one.candidate));
      EXPECT_TRUE(verdict.passed) << text << " " << to_text(one.candidate) << ": " << verdict.reason;
    }
  }
}

TEST(HostDevice, WithoutLogSumExpTheSameKernelsRun) {
  const auto device = host();
  const Problem with = problem_of("b=1,hq=4,hk=1,sq=40,sk=70,d=64,causal"),
                without = problem_of("b=1,hq=4,hk=1,sq=40,sk=70,d=64,causal,lse=0");
  for (const Ranked& ranked : enumerate(with, device->spec()).ranked)
    EXPECT_EQ(program_of(with, ranked.candidate, DeviceKind::kHost).sources[0].text,
              program_of(without, ranked.candidate, DeviceKind::kHost).sources[0].text);
  EXPECT_TRUE(runs_right(without));
  EXPECT_TRUE(runs_right(problem_of("b=1,hq=4,hk=1,sq=1,sk=300,d=64,lse=0")));
}

TEST(HostDevice, EveryInstructionSetThatRunsHereAgrees) {
  // Sizes that are no multiple of any block: of 16 rows, of 32 dimensions.
  for (const char* text :
       {"b=1,hq=4,hk=2,sq=40,sk=90,d=80,causal", "b=1,hq=2,hk=1,sq=70,sk=130,d=112,dv=80",
        "b=1,hq=4,hk=2,sq=40,sk=90,d=128,causal,dtype=f16", "b=1,hq=2,hk=1,sq=7,sk=9,d=32,align=2"}) {
    const Problem p = problem_of(text);
    for (const TileKernels* kernels : usable_tile_kernels()) {
      AttentionCase t(p);
      Candidate c;
      ASSERT_TRUE(parse("flash m=128 n=64 warps=1 stages=1 pack=1", &c).ok());
      std::vector<float> scratch(tile_scratch(p, c));
      for (int head = 0; head < p.q_heads; ++head) {
        Tile tile;
        tile.call = &t.call;
        tile.tile_m = 128;
        tile.tile_n = 64;
        tile.head = head;
        tile.kv_head = head / p.group();
        tile.rows = p.q_len;
        tile.sequence.size = {p.q_len, p.kv_len};
        tile.last_key = p.kv_len;
        kernels->run(tile, scratch.data());
      }
      EXPECT_TRUE(matches_float64(t)) << kernels->name;
    }
  }
}

// The error of all elements of out, `row` saying what a row's are; against float64.
template <typename Row>
double error_norm(const AttentionCase& t, const Row& row) {
  const Problem& p = t.call.problem;
  std::vector<double> right(static_cast<std::size_t>(p.head_dim_v));
  std::vector<float> given(right.size());
  double squares = 0, lse = 0;
  for (int h = 0; h < p.q_heads; ++h)
    for (int i = 0; i < p.q_len; ++i) {
      reference_row(t.call, 0, h, i, right.data(), &lse);
      row(h, i, given.data());
      for (std::size_t d = 0; d < right.size(); ++d) squares += (given[d] - right[d]) * (given[d] - right[d]);
    }
  return std::sqrt(squares);
}

// Scores of 256 dimensions are sums of two: one sum, term after term, makes 1.6 times the error.
TEST(HostDevice, Float32ScoresOfManyDimensionsAreMoreExactThanOneSum) {
  const Problem p = problem_of("b=1,hq=4,hk=2,sq=40,sk=40,d=256,dtype=f32,causal");
  for (const TileKernels* kernels : usable_tile_kernels()) {
    AttentionCase t(p);
    const double one_sum = error_norm(t, [&](int h, int i, float* out) {
      float lse;
      reference_row(t.call, 0, h, i, out, &lse);
    });
    ASSERT_TRUE(HostKernel(gqa::candidate_of("flash m=32 n=32 warps=1 stages=1 pack=1"), 2, *kernels).run(t.call).ok());
    const double ours = error_norm(t, [&](int h, int i, float* out) {
      for (int d = 0; d < p.head_dim_v; ++d) out[d] = t.out_at(0, h, i, d);
    });
    EXPECT_LE(ours, 0.85 * one_sum) << kernels->name;
  }
}

// ---- what verification must catch

class Faulty : public LoadedProgram {
 public:
  using Fault = void (*)(const Call&);
  Faulty(std::unique_ptr<LoadedProgram> kernel, Fault fault) : kernel_(std::move(kernel)), fault_(fault) {}
  using LoadedProgram::run;
  Status run(const ProgramCall& call) const override {
    Status status = kernel_->run(call);
    fault_(*call.attention);
    return status;
  }

 private:
  std::unique_ptr<LoadedProgram> kernel_;
  Fault fault_;
};

std::uint16_t* out_of(const Call& call) { return static_cast<std::uint16_t*>(call.to(Role::kOut)); }

std::string verdict_of(Faulty::Fault fault, const char* lse = ",lse=1") {
  const auto device = host();
  const Problem p = problem_of(std::string("b=1,hq=2,hk=1,sq=40,sk=64,d=64,causal") + lse);
  std::unique_ptr<Trial> trial;
  EXPECT_TRUE(compile_and_try(*device, {p}, Effort(60), &trial).ok());
  const Faulty kernel(kernel_of(*device, p, enumerate(p, device->spec()).ranked.front().candidate), fault);
  const Verdict verdict = trial->verify(kernel);
  return verdict.passed ? "passed" : verdict.reason;
}

TEST(HostTrial, PassesAnHonestKernel) {
  EXPECT_EQ("passed", verdict_of([](const Call&) {}));
}

TEST(HostTrial, CatchesAWrongElementAndNamesIt) {
  const std::string reason = verdict_of(
      [](const Call& c) { out_of(c)[3 * c.strides(Role::kOut).row + c.strides(Role::kOut).head + 5] = 0x4120; });
  EXPECT_NE(std::string::npos, reason.find("batch 0, head 1, row 3, dim 5")) << reason;
}

TEST(HostTrial, CatchesAnElementNotWritten) {
  EXPECT_EQ("output: 1 elements were not written: expected each written",
            verdict_of([](const Call& c) { out_of(c)[7] = 0xffff; }));
}

TEST(HostTrial, CatchesWritingPastTheEnd) {
  EXPECT_EQ("output: 1 elements were written outside it",
            verdict_of([](const Call& c) { out_of(c)[40 * c.strides(Role::kOut).row + 3] = 0; }));
  EXPECT_EQ("output: 1 elements were written outside it", verdict_of([](const Call& c) { out_of(c)[-1] = 0; }));
  EXPECT_EQ("output: 1 elements were written outside it",
            verdict_of([](const Call& c) { c.to<float>(Role::kLse)[-1] = 0; }));
}

TEST(HostTrial, CatchesNaN) {
  EXPECT_EQ("output: 1 elements are NaN or infinite; the reference has none",
            verdict_of([](const Call& c) { out_of(c)[9] = 0x7fc0; }));
}

TEST(HostTrial, CatchesAWrongLogSumExp) {
  const std::string reason = verdict_of([](const Call& c) { c.to<float>(Role::kLse)[2] += 0.01F; });
  EXPECT_NE(std::string::npos, reason.find("log-sum-exp: batch")) << reason;
}

TEST(HostTrial, CatchesALogSumExpNotWritten) {
  EXPECT_EQ("output: 1 elements were not written: expected each written",
            verdict_of([](const Call& c) { std::memset(c.to<float>(Role::kLse) + 3, 0xff, sizeof(float)); }));
}

// Nothing is compared, scanned or missed of what nobody asked for; out is judged as ever.
TEST(HostTrial, WithoutLogSumExpJudgesTheOutputOnly) {
  const char* const without = ",lse=0";
  EXPECT_EQ("passed", verdict_of([](const Call& c) { EXPECT_FALSE(c.has(Role::kLse)); }, without));
  EXPECT_EQ("output: 1 elements were not written: expected each written",
            verdict_of([](const Call& c) { out_of(c)[7] = 0xffff; }, without));
  EXPECT_EQ("output: 1 elements were written outside it",
            verdict_of([](const Call& c) { out_of(c)[-1] = 0; }, without));
  const std::string reason = verdict_of([](const Call& c) { out_of(c)[5] = 0x4120; }, without);
  EXPECT_NE(std::string::npos, reason.find("over the bound")) << reason;
}

TEST(HostTrial, TimesWithLogSumExpWhereItIsAskedFor) {
  const auto device = host();
  const auto timed = [&](const Problem& p, Faulty::Fault look) {
    std::unique_ptr<Trial> trial;
    EXPECT_TRUE(compile_and_try(*device, {p}, Effort(60), &trial).ok());
    const Faulty kernel(kernel_of(*device, p, enumerate(p, device->spec()).ranked.front().candidate), look);
    std::vector<double> samples;
    EXPECT_TRUE(trial->time(kernel, 2, &samples).ok());
    return samples.size();
  };
  const std::string text = "b=1,hq=2,hk=1,sq=40,sk=64,d=64";
  EXPECT_EQ(2U, timed(problem_of(text + ",lse=0"), [](const Call& c) { EXPECT_FALSE(c.has(Role::kLse)); }));
  EXPECT_EQ(2U, timed(problem_of(text), [](const Call& c) { EXPECT_TRUE(c.has(Role::kLse)); }));
}

TEST(HostTrial, TimesARealRun) {
  const auto device = host();
  const Problem p = problem_of("b=1,hq=4,hk=1,sq=128,sk=128,d=64");
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device, {p}, Effort(60), &trial).ok());
  std::vector<double> samples;
  const auto kernel = kernel_of(*device, p, enumerate(p, device->spec()).ranked.front().candidate);
  ASSERT_TRUE(trial->time(*kernel, 6, &samples).ok());
  ASSERT_EQ(6U, samples.size());
  for (const double us : samples) EXPECT_GT(us, flops(p) / 1e13 * 1e6);
}

// ---- the loop

TEST(HostSession, TunesOnceAndTheNextSessionFindsIt) {
  const test::TemporaryFolder folder;
  const Problem p = problem_of("b=1,hq=4,hk=2,sq=100,sk=100,d=64,causal");
  for (const bool cached : {false, true}) {
    cache::Store::Options options;
    options.path = folder.file("cache.db");
    SessionOptions session_options;
    session_options.policy.budget_seconds = 1;
    session_options.policy.heed_load = false;  // other tests may run beside this one
    Session session(host(), cache::Store::open(options), session_options);
    ReadyResult readied;
    const Status status = session.ready(p, &readied);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cached, readied.origin == Origin::kCache);
    EXPECT_GT(readied.ready->winner.median_us, 0);
    AttentionCase t(p);
    ASSERT_TRUE(session.run(t.call).ok());
    EXPECT_TRUE(matches_float64(t));
  }
}

TEST(HostSession, ManyThreadsCallAtOnce) {
  const Problem p = problem_of("b=1,hq=4,hk=2,sq=30,sk=60,d=64,causal");
  cache::Store::Options off;
  off.mode = cache::Mode::kOff;
  SessionOptions options;
  options.tuning = Tuning::kGuess;
  Session session(host(), cache::Store::open(off), options);
  std::vector<AttentionCase> all(4, AttentionCase(p));
  for (AttentionCase& t : all) {  // copies: point each call at its own memory
    t.call.place(Role::kQ, t.q.data());
    t.call.place(Role::kK, t.k.data());
    t.call.place(Role::kV, t.v.data());
    t.call.place(Role::kOut, t.out.data());
    t.call.place(Role::kLse, t.lse.data());
  }
  std::vector<std::thread> threads;
  for (AttentionCase& t : all)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(session.run(t.call).ok());
    });
  for (std::thread& thread : threads) thread.join();
  for (const AttentionCase& t : all) EXPECT_TRUE(matches_float64(t));
}

}  // namespace
}  // namespace gqa
