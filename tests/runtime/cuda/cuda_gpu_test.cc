// The CUDA device on a GPU: every shape rule and every tile verified against the reference, verification that catches
// planted faults, graph capture, several streams. Skipped by name where there is no GPU.

#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "jit/codegen.h"
#include "runtime/session/session.h"
#include "runtime/tuner/tuner.h"
#include "tests/full_run.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

using test::CudaGpu;
using test::problem_of;

TEST_F(CudaGpu, EveryHeadDim) {
  for (const int d : {16, 32, 64, 80, 96, 112, 128, 192, 256})
    for (const char* rest : {",hq=8,hk=2,sq=130,sk=130,dtype=bf16,causal", ",hq=6,hk=6,sq=77,sk=300,dtype=f16",
                             ",hq=8,hk=2,sq=1,sk=1000,dtype=bf16", ",hq=8,hk=2,sq=130,sk=130,dtype=f32,causal",
                             ",hq=8,hk=2,sq=1,sk=1000,dtype=f32"}) {
      if (!test::in_this_run(d)) continue;
      const Problem problem = problem_of("b=2,d=" + std::to_string(d) + rest);
      EXPECT_TRUE(verified(problem, best(problem, 3)));
    }
}

TEST_F(CudaGpu, HeadDimOfVDiffers) {
  for (const char* dims : {"d=192,dv=128", "d=128,dv=192", "d=64,dv=256", "d=256,dv=32", "d=80,dv=112"})
    for (const char* rest : {",hq=4,hk=2,sq=200,sk=200,causal", ",hq=4,hk=2,sq=2,sk=700"}) {
      const Problem problem = problem_of(std::string("b=1,") + dims + rest);
      EXPECT_TRUE(verified(problem, best(problem, 3)));
    }
}

TEST_F(CudaGpu, EveryGroup) {
  for (const char* heads :
       {"hq=4,hk=4", "hq=10,hk=2", "hq=6,hk=1", "hq=14,hk=2", "hq=16,hk=1", "hq=24,hk=8", "hq=71,hk=1"})
    for (const char* rest : {",sq=1,sk=513,d=64", ",sq=3,sk=900,d=128,causal", ",sq=150,sk=150,d=64,causal"}) {
      const Problem problem = problem_of(std::string("b=3,") + heads + rest);
      EXPECT_TRUE(verified(problem, best(problem, 3)));
    }
}

TEST_F(CudaGpu, AnyLengths) {
  for (const char* lengths : {"sq=1,sk=1", "sq=1,sk=17", "sq=2,sk=1", "sq=5,sk=63", "sq=64,sk=65", "sq=129,sk=127",
                              "sq=255,sk=1023", "sq=1000,sk=333", "sq=17,sk=4099"})
    for (const char* mask : {"", ",causal"}) {
      const Problem problem = problem_of(std::string("b=2,hq=4,hk=2,d=128,") + lengths + mask);
      EXPECT_TRUE(verified(problem, best(problem, 4)));
    }
}

TEST_F(CudaGpu, RowsAlignedToTheirElementsOnly) {
  for (const char* text : {"b=1,hq=4,hk=2,sq=100,sk=100,d=128,causal,align=2", "b=2,hq=8,hk=1,sq=1,sk=400,d=80,align=2",
                           "b=1,hq=4,hk=4,sq=70,sk=90,d=192,dv=128,dtype=f16,align=2"}) {
    const Problem problem = problem_of(text);
    EXPECT_TRUE(verified(problem, best(problem, 3)));
  }
}

TEST_F(CudaGpu, BatchTimesHeadsPast65535) {
  for (const char* text : {"b=2100,hq=32,hk=32,sq=1,sk=16,d=32", "b=1100,hq=64,hk=8,sq=16,sk=16,d=64,causal"}) {
    const Problem problem = problem_of(text);
    EXPECT_TRUE(verified(problem, best(problem, 2)));
  }
}

TEST_F(CudaGpu, EveryTileOfTheSpace) {
  for (const char* text : {"b=1,hq=8,hk=2,sq=333,sk=333,d=128,causal", "b=2,hq=8,hk=2,sq=1,sk=2000,d=128",
                           "b=1,hq=8,hk=2,sq=5,sk=700,d=64,causal", "b=1,hq=4,hk=2,sq=300,sk=300,d=64,dtype=f16",
                           "b=1,hq=8,hk=2,sq=333,sk=333,d=128,causal,lse=0"}) {
    const Problem problem = problem_of(text);
    std::vector<Candidate> all;
    std::set<std::string> seen;
    for (const Ranked& ranked : enumerate(problem, device_->spec()).ranked)
      if (seen.insert(kernel_text(ranked.candidate)).second) all.push_back(ranked.candidate);
    EXPECT_TRUE(verified(problem, all));
  }
}

TEST_F(CudaGpu, EverySplitCountAndOrder) {
  const Problem problem = problem_of("b=1,hq=8,hk=2,sq=2,sk=3000,d=128,causal");
  std::vector<Candidate> all;
  for (const int splits : {1, 2, 3, 7, 16, 46, 64}) {
    const std::string text = "split m=16 n=16 warps=4 stages=3 pack=4 splits=" + std::to_string(splits);
    ASSERT_TRUE(parse(text, &all.emplace_back()).ok());
  }
  const Problem prefill = problem_of("b=2,hq=8,hk=2,sq=300,sk=300,d=128,causal");
  Candidate flash;
  ASSERT_TRUE(parse("flash m=64 n=64 warps=4 stages=2 pack=2 splits=1 head_swizzle=1", &flash).ok());
  EXPECT_TRUE(verified(problem, all));
  EXPECT_TRUE(verified(prefill, {flash}));
}

// ---- what verification must catch

// NVRTC's own cache has no log, from which they are read.
TEST_F(CudaGpu, RegistersAreKnownOfWhatWasCompiledBefore) {
  const Problem problem = problem_of("b=1,hq=4,hk=2,sq=200,sk=200,d=64,causal");
  const Candidate c = best(problem, 1).front();
  for (int i = 0; i < 2; ++i) {
    Binary binary;
    ASSERT_TRUE(device_->compile(program_of(problem, c, DeviceKind::kCuda).sources.front(), &binary).ok());
    EXPECT_GT(binary.registers, 16) << i;
  }
}

TEST_F(CudaGpu, VerificationCatchesAMissingMask) {
  for (const char* lse : {",lse=1", ",lse=0"}) {
    const Problem causal = problem_of(std::string("b=1,hq=4,hk=2,sq=200,sk=200,d=64,causal") + lse);
    Problem full = causal;
    full.mask = Mask::kNone;
    const Candidate c = best(causal, 1).front();
    std::unique_ptr<Trial> trial;
    ASSERT_TRUE(compile_and_try(*device_, {causal}, Effort(60), &trial).ok());
    const Verdict verdict = trial->verify(*kernel_for(full, causal, c, c));
    EXPECT_FALSE(verdict.passed);
    EXPECT_NE(std::string::npos, verdict.reason.find("over the bound")) << verdict.reason;
  }
}

TEST_F(CudaGpu, VerificationCatchesUnwrittenRows) {
  Candidate small, large;
  ASSERT_TRUE(parse("flash m=64 n=32 warps=4 stages=1 pack=1 splits=1 head_swizzle=0", &small).ok());
  ASSERT_TRUE(parse("flash m=128 n=32 warps=4 stages=1 pack=1 splits=1 head_swizzle=0", &large).ok());
  std::int64_t unwritten[2] = {};
  for (const int lse : {0, 1}) {
    const Problem problem = problem_of("b=1,hq=4,hk=2,sq=256,sk=256,d=64,lse=" + std::to_string(lse));
    std::unique_ptr<Trial> trial;
    ASSERT_TRUE(compile_and_try(*device_, {problem}, Effort(60), &trial).ok());
    // The grid of the large tile launched with the small tile's code covers half the rows.
    const Verdict verdict = trial->verify(*kernel_for(problem, problem, small, large));
    EXPECT_FALSE(verdict.passed);
    EXPECT_NE(std::string::npos, verdict.reason.find("not written")) << verdict.reason;
    unwritten[lse] = std::atoll(verdict.reason.c_str() + verdict.reason.find(": ") + 2);
  }
  EXPECT_EQ(unwritten[1], unwritten[0] + 4 * 128);  // half the rows of lse, where it is asked for
}

TEST_F(CudaGpu, VerificationCatchesWritingPastTheWorkspace) {
  const Problem problem = problem_of("b=1,hq=4,hk=1,sq=1,sk=600,d=32");
  Candidate wide, planned;
  ASSERT_TRUE(parse("split m=32 n=16 warps=4 stages=3 pack=4 splits=2 head_swizzle=0", &wide).ok());
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {problem}, Effort(60), &trial).ok());
  // Code that leaves partials of 32 rows in a workspace planned for 16, given the shared memory it needs: what it
  // writes too far stays inside the guards.
  ASSERT_TRUE(parse("split m=16 n=16 warps=4 stages=6 pack=4 splits=2 head_swizzle=0", &planned).ok());
  const Verdict verdict = trial->verify(*kernel_for(problem, problem, wide, planned));
  EXPECT_FALSE(verdict.passed);
  EXPECT_NE(std::string::npos, verdict.reason.find("workspace: ")) << verdict.reason;
}

TEST_F(CudaGpu, VerificationCatchesTheWrongDtype) {
  const Problem bf16 = problem_of("b=1,hq=4,hk=2,sq=64,sk=64,d=64,dtype=bf16");
  const Problem f16 = problem_of("b=1,hq=4,hk=2,sq=64,sk=64,d=64,dtype=f16");
  const Candidate c = best(bf16, 1).front();
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {bf16}, Effort(60), &trial).ok());
  EXPECT_FALSE(trial->verify(*kernel_for(f16, bf16, c, c)).passed);
}

TEST_F(CudaGpu, TimesAndClocksArePositive) {
  const Problem problem = problem_of("b=1,hq=32,hk=8,sq=1024,sk=1024,d=128,causal");
  const Candidate c = best(problem, 1).front();
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {problem}, Effort(60), &trial).ok());
  const std::unique_ptr<LoadedProgram> kernel = kernel_for(problem, problem, c, c);
  std::vector<double> samples;
  ASSERT_TRUE(trial->time(*kernel, 5, &samples).ok());
  ASSERT_EQ(5U, samples.size());
  // Between the tensor cores' peak and a hundredth of it.
  const double floor_us = flops(problem) / 2e15 * 1e6;
  for (const double us : samples) EXPECT_TRUE(us > floor_us && us < 100 * floor_us + 1e4) << us;  // memory checkers too
  EXPECT_GT(trial->clock_mhz(), 200);
  EXPECT_LT(trial->clock_mhz(), 5000);
}

// ---- streams and graphs, through a session

class CudaSession : public CudaGpu {
 protected:
  void SetUp() override {
    CudaGpu::SetUp();
    if (IsSkipped()) return;
    cache::Store::Options off;
    off.mode = cache::Mode::kOff;
    SessionOptions options;
    options.tuning = Tuning::kGuess;
    session_ = std::make_unique<Session>(std::move(device_), cache::Store::open(off), options);
  }
  void TearDown() override {
    session_.reset();
    for (const CUdeviceptr address : allocated_) driver_->cuMemFree(address);
    CudaGpu::TearDown();
  }

  // Compact tensors of small constants: v is all ones, so every output must be 1. No lse.
  Call call_for(const Problem& p, CUstream stream) {
    EXPECT_FALSE(p.lse);
    Call c;
    const unsigned short one = p.q_type == ElementType::kBF16 ? 0x3f80 : 0x3c00;
    const auto tensor = [&](std::int64_t count) {
      CUdeviceptr address = 0;
      EXPECT_EQ(CUDA_SUCCESS, driver_->cuMemAlloc(&address, static_cast<std::size_t>(count) * 2));
      const std::vector<unsigned short> ones(static_cast<std::size_t>(count), one);
      EXPECT_EQ(CUDA_SUCCESS, driver_->cuMemcpyHtoDAsync(address, ones.data(), ones.size() * 2, nullptr));
      EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(nullptr));
      allocated_.push_back(address);
      return reinterpret_cast<void*>(address);
    };
    const auto compact = [](std::int64_t length, std::int64_t heads, std::int64_t dim) {
      return Strides{length * heads * dim, heads * dim, dim};
    };
    const auto set = [&](Role role, const Strides& s) { c.set(role, tensor(p.batch * s.batch), s); };
    set(Role::kQ, compact(p.q_len, p.q_heads, p.head_dim));
    set(Role::kK, compact(p.kv_len, p.kv_heads, p.head_dim));
    set(Role::kV, compact(p.kv_len, p.kv_heads, p.head_dim_v));
    set(Role::kOut, compact(p.q_len, p.q_heads, p.head_dim_v));
    c.scale = 0.01F;
    c.stream = stream;
    c.problem = p;
    return c;
  }

  void poison(const Call& c) {
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemsetD8Async(
                                reinterpret_cast<CUdeviceptr>(c.at(Role::kOut)), 0xff,
                                static_cast<std::size_t>(c.problem.batch * c.strides(Role::kOut).batch) * 2, nullptr));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(nullptr));
  }

  void expect_ones(const Call& c) {
    std::vector<unsigned short> out(static_cast<std::size_t>(c.problem.batch * c.strides(Role::kOut).batch));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemcpyDtoHAsync(out.data(), reinterpret_cast<CUdeviceptr>(c.at(Role::kOut)),
                                                       out.size() * 2, nullptr));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(nullptr));
    const unsigned short one = c.problem.q_type == ElementType::kBF16 ? 0x3f80 : 0x3c00;
    EXPECT_EQ(static_cast<std::ptrdiff_t>(out.size()), std::count(out.begin(), out.end(), one));
  }

  CUstream stream() {
    CUstream made = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
  }

  std::unique_ptr<Session> session_;
  std::vector<CUdeviceptr> allocated_;
};

// ---- a caller's own strides, against float64 on the CPU

class CudaStrides : public CudaSession {
 protected:
  // Runs the case's call on copies of its buffers and brings the outputs back.
  void run_on_gpu(test::AttentionCase* attention) {
    test::GpuCopy copy(*driver_, attention);
    const Status status = session_->run(copy.call());
    EXPECT_TRUE(status.ok()) << status.message();
    copy.fetch();
  }
};

TEST_F(CudaStrides, HeadsFirstAndUnaligned) {
  for (const char* text : {"b=2,hq=4,hk=2,sq=130,sk=200,d=128,causal", "b=2,hq=8,hk=2,sq=1,sk=700,d=64,dtype=f16",
                           "b=2,hq=4,hk=2,sq=33,sk=50,d=80,causal,align=2", "b=1,hq=8,hk=1,sq=1,sk=90,d=64,align=2"})
    for (const bool heads_first : {false, true}) {
      test::AttentionCase attention(problem_of(text), heads_first);
      run_on_gpu(&attention);
      EXPECT_TRUE(test::matches_float64(attention)) << text << (heads_first ? " heads first" : "");
    }
}

TEST_F(CudaStrides, BroadcastKeysAndValues) {
  test::AttentionCase attention(problem_of("b=3,hq=4,hk=2,sq=40,sk=130,d=64,causal"));
  attention.call.strides(Role::kK).batch = attention.call.strides(Role::kV).batch = 0;
  attention.call.strides(Role::kK).head = 0;
  run_on_gpu(&attention);
  EXPECT_TRUE(test::matches_float64(attention));
}

TEST_F(CudaStrides, LargeMagnitudesAndEqualScores) {
  test::AttentionCase large(problem_of("b=1,hq=4,hk=2,sq=60,sk=130,d=64,causal"), false, 30);
  run_on_gpu(&large);
  EXPECT_TRUE(test::matches_float64(large));
  test::AttentionCase equal(problem_of("b=1,hq=4,hk=2,sq=1,sk=300,d=64,dtype=f16"));
  std::fill(equal.k.begin(), equal.k.end(), std::uint16_t{0});
  run_on_gpu(&equal);
  EXPECT_TRUE(test::matches_float64(equal));
}

TEST_F(CudaStrides, TheSameInputsGiveTheSameBits) {
  for (const char* text : {"b=1,hq=8,hk=2,sq=300,sk=300,d=128,causal", "b=1,hq=8,hk=2,sq=1,sk=3000,d=128"}) {
    test::AttentionCase first(problem_of(text)), second(problem_of(text));
    run_on_gpu(&first);
    run_on_gpu(&second);
    EXPECT_TRUE(first.out == second.out) << text;
    EXPECT_TRUE(first.lse == second.lse) << text;
  }
}

TEST_F(CudaSession, CaptureUsesWhatIsLoadedAndReplays) {
  const CUstream s = stream();
  for (const char* text : {"b=1,hq=8,hk=2,sq=128,sk=128,d=64,lse=0", "b=1,hq=8,hk=2,sq=1,sk=4000,d=64,lse=0"}) {
    const Call c = call_for(problem_of(text), s);
    ASSERT_TRUE(session_->ready(c.problem).ok());
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const Status status = session_->run(c);
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(s, &graph));
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) {
      poison(c);
      ASSERT_EQ(CUDA_SUCCESS, driver_->cuGraphLaunch(exec, s));
      ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(s));
      expect_ones(c);
    }
    driver_->cuGraphExecDestroy(exec);
    driver_->cuGraphDestroy(graph);
  }
  driver_->cuStreamDestroy(s);
}

TEST_F(CudaSession, CaptureWithNothingLoadedFailsAndLeavesTheCaptureValid) {
  const CUstream s = stream();
  const Call c = call_for(problem_of("b=1,hq=8,hk=2,sq=200,sk=200,d=64,lse=0"), s);
  CUgraph graph = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(Code::kCapturing, session_->run(c).code());
  EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamEndCapture(s, &graph));
  EXPECT_NE(nullptr, graph);
  driver_->cuGraphDestroy(graph);
  driver_->cuStreamDestroy(s);
}

// Split kernels meet in partials and counters; warpgroup ones may take their tiles from a counter.
TEST_F(CudaSession, CallsOnSeveralStreamsAndThreadsKeepTheirWorkspacesApart) {
  for (const char* text :
       {"b=2,hq=8,hk=1,sq=1,sk=6000,d=128,lse=0", "b=2,hq=8,hk=8,sq=1500,sk=1500,d=128,causal,lse=0"}) {
    const Problem p = problem_of(text);
    ASSERT_TRUE(session_->ready(p).ok());
    std::vector<Call> calls;
    for (int i = 0; i < 4; ++i) calls.push_back(call_for(p, stream()));
    for (const Call& c : calls) poison(c);
    std::vector<std::thread> threads;
    std::atomic<int> failures = 0;
    for (const Call& c : calls)
      threads.emplace_back([&, c] {
        for (int i = 0; i < 50; ++i) failures += !session_->run(c).ok();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(0, failures.load());
    for (const Call& c : calls) {
      ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(static_cast<CUstream>(c.stream)));
      expect_ones(c);
      driver_->cuStreamDestroy(static_cast<CUstream>(c.stream));
    }
  }
}

TEST_F(CudaSession, AGrowingDecodeKeepsItsKernel) {
  const CUstream s = stream();
  Problem p = problem_of("b=1,hq=8,hk=2,sq=1,sk=1537,d=64,lse=0");
  ASSERT_TRUE(session_->ready(p).ok());
  for (p.kv_len = 1600; p.kv_len <= 2048; p.kv_len += 64) {
    const Call c = call_for(p, s);
    poison(c);
    ReadyResult readied;
    ASSERT_TRUE(session_->ready(p, &readied).ok());
    EXPECT_TRUE(readied.origin == Origin::kMemory) << p.kv_len;
    ASSERT_TRUE(session_->run(c).ok());
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(s));
    expect_ones(c);
  }
  driver_->cuStreamDestroy(s);
}

}  // namespace
}  // namespace gqa
