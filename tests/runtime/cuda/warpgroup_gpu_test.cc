// The warpgroup family on a Hopper GPU: every tile of the space over ragged lengths, layouts, packed heads and inputs
// made to break it, against float64; calls that TMA can and cannot serve; the same bits twice; many
// launches in a row. Skipped by name where there is no such GPU.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "runtime/api/args/args.h"
#include "search/families/resources.h"
#include "search/problem/signature.h"
#include "tests/full_run.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/runtime/tensors.h"

namespace gqa {
namespace {

using test::AttentionCase;
using test::problem_of;

struct Loaded {
  Candidate candidate;
  std::unique_ptr<LoadedProgram> kernel;
};

class WarpgroupGpu : public test::CudaGpu {
 protected:
  void SetUp() override {
    CudaGpu::SetUp();
    if (IsSkipped()) return;
    if (device_->spec().arch != "sm_90a") GTEST_SKIP() << "no Hopper GPU: " << device_->spec().arch;
  }

  // A candidate of each warpgroup kernel that the space has for the problem.
  std::vector<Candidate> tiles(const Problem& problem) {
    std::vector<Candidate> chosen;
    std::set<std::string> seen;
    for (const Ranked& ranked : enumerate(problem, device_->spec()).ranked) {
      if (name(ranked.candidate) != "warpgroup") continue;
      if (seen.insert(kernel_text(ranked.candidate)).second) chosen.push_back(ranked.candidate);
    }
    EXPECT_FALSE(chosen.empty()) << to_text(problem);
    return chosen;
  }

  std::vector<Loaded> load_all(const Problem& problem, const std::vector<Candidate>& candidates) {
    std::vector<Loaded> loaded;
    for (const test::Compiled& one : test::compile_all(*device_, problem, candidates)) {
      EXPECT_TRUE(one.status.ok()) << to_text(one.candidate) << ": " << one.status.message();
      std::unique_ptr<LoadedProgram> kernel;
      const Status status = load(problem, one.candidate, one.binary, &kernel);
      EXPECT_TRUE(status.ok()) << to_text(one.candidate) << ": " << status.message();
      if (status.ok()) loaded.push_back({one.candidate, std::move(kernel)});
    }
    return loaded;
  }

  // Every warpgroup kernel for these features that packs no heads: lengths and heads are a launch's own. Under a mask
  // the space has most kernels where keys do not fit L2, without one where a round is not full. Without log-sum-exp
  // only those that would not do with it.
  std::vector<Loaded> kernels_for(const std::string& features) {
    const bool causal = features.find("causal") != std::string::npos;
    const Problem problem = problem_of((causal ? "hq=64,hk=64,sq=16384," : "hq=2,hk=2,sq=2048,") + features);
    std::vector<Candidate> wanted = tiles(problem);
    if (!problem.lse) std::erase_if(wanted, [](const Candidate& c) { return !std::get<WgmmaFlash>(c.of).has_ones(); });
    return load_all(problem, wanted);
  }

  void run(const LoadedProgram& kernel, AttentionCase* attention) {
    std::fill(attention->out.begin(), attention->out.end(), std::uint16_t{0xffff});
    std::fill(attention->lse.begin(), attention->lse.end(), NAN);
    test::GpuCopy copy(*driver_, attention);
    const Status status = kernel.run(copy.call());
    ASSERT_TRUE(status.ok()) << status.message();
    copy.fetch();
  }

  // What every kernel makes of the case is what float64 makes of it.
  ::testing::AssertionResult right(const std::vector<Loaded>& kernels, AttentionCase* attention) {
    if (kernels.empty()) return ::testing::AssertionFailure() << "no kernel";
    for (const Loaded& one : kernels) {
      run(*one.kernel, attention);
      ::testing::AssertionResult result = test::matches_float64(*attention);
      if (!result) return result << " | " << to_text(one.candidate);
    }
    return ::testing::AssertionSuccess();
  }
};

constexpr const char* kLengths[] = {"sq=1,sk=1",     "sq=1,sk=300",  "sq=63,sk=65",   "sq=64,sk=64",  "sq=65,sk=17",
                                    "sq=129,sk=127", "sq=193,sk=79", "sq=200,sk=333", "sq=97,sk=1025"};

// In the trial, whose guards see stray stores, and whose workspace must be left as it was found.
TEST_F(WarpgroupGpu, EveryTileIsVerified) {
  for (const char* text : {"b=1,hq=8,hk=2,sq=2048,d=128,causal", "b=2,hq=6,hk=3,sq=1000,sk=777,d=64,dtype=f16",
                           "b=3,hq=8,hk=2,sq=100,sk=900,d=128", "b=1,hq=8,hk=8,sq=900,d=256,causal",
                           "b=1,hq=8,hk=2,sq=2048,d=64,causal,lse=0", "b=1,hq=8,hk=2,sq=8192,d=64,lse=0,dtype=f16",
                           "b=1,hq=8,hk=2,sq=1024,d=64,causal,lse=0,dtype=f16"}) {
    const Problem problem = problem_of(text);
    EXPECT_TRUE(verified(problem, tiles(problem)));
  }
}

TEST_F(WarpgroupGpu, RaggedLengths) {
  for (const char* features :
       {"d=128", "d=128,causal", "d=64,causal,dtype=f16", "d=64,lse=0", "d=64,causal,dtype=f16,lse=0"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const char* lengths : kLengths) {
      AttentionCase attention(problem_of(std::string("b=2,hq=4,hk=2,") + lengths + "," + features));
      EXPECT_TRUE(right(kernels, &attention));
    }
  }
}

TEST_F(WarpgroupGpu, EveryHeadDim) {
  for (const char* features : {"d=32", "d=80,causal", "d=96", "d=112,causal,dtype=f16", "d=192", "d=256,causal",
                               "d=192,dv=128,causal", "d=64,dv=256", "d=128,dv=32"}) {
    AttentionCase attention(problem_of(std::string("b=2,hq=4,hk=2,sq=150,sk=277,") + features));
    if (!test::in_this_run(attention.call.problem.head_dim)) continue;
    EXPECT_TRUE(right(kernels_for(features), &attention));
  }
}

// As programs of a user's graph have them; no trial knows them.
TEST_F(WarpgroupGpu, TransposedKeys) {
  for (const char* features : {"d=64,dtype=f16,ktrans", "d=128,causal,ktrans"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const char* lengths : kLengths) {
      AttentionCase attention(problem_of(std::string("b=2,hq=4,hk=2,") + lengths + "," + features));
      EXPECT_TRUE(right(kernels, &attention));
    }
  }
  for (const char* features :
       {"d=32,ktrans", "d=80,causal,ktrans", "d=112,dv=64,ktrans", "d=192,dv=128,ktrans", "d=256,causal,ktrans"}) {
    AttentionCase attention(problem_of(std::string("b=2,hq=4,hk=2,sq=150,sk=277,") + features));
    if (!test::in_this_run(attention.call.problem.head_dim)) continue;
    EXPECT_TRUE(right(kernels_for(features), &attention));
  }
}

TEST_F(WarpgroupGpu, HeadsFirst) {
  for (const char* features : {"d=128,causal", "d=96"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const char* rest : {"b=3,hq=4,hk=2,sq=150,sk=277,", "b=1,hq=4,hk=1,sq=70,sk=200,", "b=2,hq=1,sq=70,sk=130,"}) {
      AttentionCase attention(problem_of(std::string(rest) + features), true);
      EXPECT_TRUE(right(kernels, &attention)) << "heads first";
    }
  }
}

TEST_F(WarpgroupGpu, PackedHeads) {
  for (const char* text : {"b=2,hq=8,hk=2,sq=100,sk=300,d=128,causal", "b=2,hq=16,hk=1,sq=9,sk=300,d=64",
                           "b=1,hq=128,hk=2,sq=3,sk=150,d=128,causal"})
    for (const bool heads_first : {false, true}) {
      const Problem problem = problem_of(text);
      std::vector<Candidate> packed = tiles(problem);
      const auto other = [&](const Candidate& c) {
        const int pack = shape_of(c).pack;
        return pack != 2 && (pack == 1 || pack != problem.group());
      };
      packed.erase(std::remove_if(packed.begin(), packed.end(), other), packed.end());
      ASSERT_FALSE(packed.empty()) << text;
      AttentionCase attention(problem, heads_first);
      EXPECT_TRUE(right(load_all(problem, packed), &attention));
    }
}

TEST_F(WarpgroupGpu, EveryOrder) {
  const Problem problem = problem_of("b=2,hq=6,hk=3,sq=500,sk=500,d=64,causal");
  for (const int order : {0, 1, 2, 5, 12, 100}) {
    std::vector<Candidate> ordered;
    std::set<int> rows;  // the order does not shape code: a tile of each height will do
    for (Candidate c : tiles(problem)) {
      std::get<WgmmaFlash>(c.of).head_swizzle = order;
      if (rows.insert(shape_of(c).rows).second) ordered.push_back(c);
    }
    AttentionCase attention(problem);
    EXPECT_TRUE(right(load_all(problem, ordered), &attention));
  }
}

// Under both schedulers, by clusters and alone: the longest tiles are not the first that a CTA has.
TEST_F(WarpgroupGpu, MoreTilesThanProcessors) {
  for (const char* features : {"d=128,causal", "d=256,causal", "d=64,causal,lse=0", "d=128"}) {
    AttentionCase attention(problem_of(std::string("b=2,hq=20,hk=20,sq=900,sk=100,") + features));
    EXPECT_TRUE(right(kernels_for(features), &attention));
  }
}

TEST_F(WarpgroupGpu, WithoutLse) {
  const std::string text = "b=2,hq=4,hk=2,sq=200,sk=200,d=128,causal";
  AttentionCase with(problem_of(text)), without(problem_of(text + ",lse=0"));
  for (const Loaded& one : kernels_for("d=128,causal")) {
    run(*one.kernel, &with);
    run(*one.kernel, &without);
    EXPECT_TRUE(with.out == without.out) << to_text(one.candidate);
    EXPECT_TRUE(std::all_of(without.lse.begin(), without.lse.end(), [](float x) { return std::isnan(x); }));
  }
}

// ---- inputs made to break it

// Elements of row j of every head of k, in the default layout, become `value(j)`.
template <typename Value>
void set_keys(AttentionCase* attention, Value value) {
  const Problem& p = attention->call.problem;
  const std::int64_t row = attention->call.strides(Role::kK).row;
  for (std::int64_t j = 0; j < std::int64_t{p.batch} * p.kv_len; ++j) {
    const std::uint16_t bits = store(p.q_type, value(j % p.kv_len));
    std::fill_n(attention->k.begin() + j * row, row, bits);
  }
}

void set_queries(AttentionCase* attention, float value) {
  std::fill(attention->q.begin(), attention->q.end(), store(attention->call.problem.q_type, value));
}

TEST_F(WarpgroupGpu, LargeMagnitudes) {
  for (const char* features : {"d=128,causal", "d=64,dtype=f16", "d=64,lse=0", "d=64,dtype=f16,lse=0"}) {
    AttentionCase attention(problem_of(std::string("b=1,hq=4,hk=2,sq=150,sk=300,") + features), false, 30);
    EXPECT_TRUE(right(kernels_for(features), &attention));
  }
}

TEST_F(WarpgroupGpu, OneKeyHasAllTheMass) {
  for (const char* features : {"d=128", "d=64,dtype=f16,lse=0"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const int heavy : {0, 1, 127, 128, 200, 298, 299}) {
      AttentionCase attention(problem_of(std::string("b=1,hq=4,hk=2,sq=150,sk=300,") + features));
      set_queries(&attention, 1);
      set_keys(&attention, [&](std::int64_t j) { return j == heavy ? 8.0F : -8.0F; });
      EXPECT_TRUE(right(kernels, &attention)) << "key " + std::to_string(heavy);
    }
  }
}

TEST_F(WarpgroupGpu, EqualScores) {
  for (const char* features : {"d=128,causal", "d=64,causal,lse=0", "d=64,causal,lse=0,dtype=f16"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const float score : {0.0F, 8.0F, -8.0F}) {
      AttentionCase attention(problem_of(std::string("b=1,hq=4,hk=2,sq=150,sk=300,") + features));
      set_queries(&attention, 1);
      set_keys(&attention, [&](std::int64_t) { return score; });
      EXPECT_TRUE(right(kernels, &attention)) << "score " + std::to_string(score);
    }
  }
}

// Blocks are walked last first: maxima that grow at each, by little (the old ones serve), by much, or never.
TEST_F(WarpgroupGpu, MaximaThatGrowFromBlockToBlock) {
  for (const char* features : {"d=128", "d=128,causal", "d=64,lse=0", "d=64,dtype=f16,lse=0", "d=64,causal,lse=0"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const float growth : {0.0005F, 0.002F, 0.02F, -0.002F, -0.02F}) {
      AttentionCase attention(problem_of(std::string("b=1,hq=4,hk=2,sq=100,sk=900,") + features));
      set_queries(&attention, 1);
      set_keys(&attention, [&](std::int64_t j) { return growth * static_cast<float>(900 - j); });
      EXPECT_TRUE(right(kernels, &attention)) << "growth " + std::to_string(growth);
    }
  }
}

// A score grows by this much, in natural units, every 64 keys towards the first ones: no tile has fewer keys a step, so
// each block's weights under the maxima of those before are 2^34 and more, far past float16.
constexpr float kGrowth = 24;

// Random keys and queries, but dimension 0 makes the scores of the rows that `grows` picks climb from step to step.
template <typename Grows>
void set_climb(AttentionCase* attention, Grows grows) {
  const Problem& p = attention->call.problem;
  const float query = std::sqrt(static_cast<float>(p.head_dim));
  for (int b = 0; b < p.batch; ++b) {
    for (int i = 0; i < p.q_len; ++i)
      for (int h = 0; h < p.q_heads; ++h) {
        const Strides& s = attention->call.strides(Role::kQ);
        attention->q[b * s.batch + i * s.row + h * s.head] = store(p.q_type, grows(i) ? query : 0);
      }
    for (int j = 0; j < p.kv_len; ++j)
      for (int h = 0; h < p.kv_heads; ++h) {
        const Strides& s = attention->call.strides(Role::kK);
        const int step = (p.kv_len - 1 - j) / 64;
        attention->k[b * s.batch + j * s.row + h * s.head] = store(p.q_type, kGrowth * static_cast<float>(step));
      }
  }
  attention->slack += 1e-3;  // float32's error in scores of some hundreds
}

// The speculative softmax must fall back to the exact one, in every block and by every row.
TEST_F(WarpgroupGpu, EveryBlockOutgrowsTheMaxima) {
  for (const char* features : {"d=128,causal", "d=64,dtype=f16", "d=64,lse=0", "d=64,dtype=f16,lse=0"}) {
    AttentionCase attention(problem_of(std::string("b=1,hq=1,sq=140,sk=900,") + features));
    set_climb(&attention, [](int) { return true; });
    EXPECT_TRUE(right(kernels_for(features), &attention));
  }
}

// One lane asks for it; what the others had was right, and stays so.
TEST_F(WarpgroupGpu, OneRowOutgrowsItsMaxima) {
  for (const char* features : {"d=64", "d=64,dtype=f16", "d=64,lse=0", "d=64,lse=0,dtype=f16"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const int row : {0, 29, 63, 64, 139}) {
      AttentionCase attention(problem_of(std::string("b=1,hq=1,sq=140,sk=500,") + features));
      set_climb(&attention, [&](int i) { return i == row; });
      EXPECT_TRUE(right(kernels, &attention)) << "row " + std::to_string(row);
    }
  }
}

TEST_F(WarpgroupGpu, RowsThatSeeNoKey) {
  for (const std::string features : {"d=64,causal", "d=64,causal,lse=0", "d=64,causal,lse=0,dtype=f16"}) {
    const std::vector<Loaded> kernels = kernels_for(features);
    for (const char* lengths : {"sq=300,sk=1", "sq=300,sk=100", "sq=500,sk=17", "sq=130,sk=129"}) {
      AttentionCase attention(problem_of("b=2,hq=4,hk=2," + features + "," + lengths));
      EXPECT_TRUE(right(kernels, &attention));
      EXPECT_EQ(attention.out_at(0, 0, 0, 0), 0);
      if (attention.call.problem.lse) {
        EXPECT_EQ(attention.lse[0], -INFINITY);
      }
    }
  }
}

TEST_F(WarpgroupGpu, TheSameInputsGiveTheSameBits) {
  for (const char* features : {"d=128,causal", "d=64,causal,lse=0", "d=64,causal,lse=0,dtype=f16"}) {
    AttentionCase first(problem_of(std::string("b=2,hq=8,hk=2,sq=700,sk=700,") + features)), again(first.call.problem);
    for (const Loaded& one : kernels_for(features)) {
      run(*one.kernel, &first);
      for (int i = 0; i < 5; ++i) {
        run(*one.kernel, &again);
        EXPECT_TRUE(first.out == again.out) << to_text(one.candidate);
        EXPECT_TRUE(!first.call.problem.lse || first.lse == again.lse) << to_text(one.candidate);
      }
    }
  }
}

// ---- what TMA can and cannot serve

class CopyEngineGpu : public WarpgroupGpu {
 protected:
  // The call as make_call() reads it from tensors.
  Call described(const Call& c) {
    const Problem& p = c.problem;
    const auto tensor = [](const void* data, std::int64_t batch, std::int64_t length, std::int64_t heads,
                           std::int64_t dim, const Strides& s) {
      test::TestTensor made(reinterpret_cast<std::uintptr_t>(data), {batch, length, heads, dim});
      made.strides = {s.batch, s.row, s.head, 1};
      return made;
    };
    test::TestTensor q = tensor(c.at(Role::kQ), p.batch, p.q_len, p.q_heads, p.head_dim, c.strides(Role::kQ));
    test::TestTensor k = tensor(c.at(Role::kK), p.batch, p.kv_len, p.kv_heads, p.head_dim, c.strides(Role::kK));
    test::TestTensor v = tensor(c.at(Role::kV), p.batch, p.kv_len, p.kv_heads, p.head_dim_v, c.strides(Role::kV));
    test::TestTensor out = tensor(c.at(Role::kOut), p.batch, p.q_len, p.q_heads, p.head_dim_v, c.strides(Role::kOut));
    test::TestTensor lse(reinterpret_cast<std::uintptr_t>(c.at(Role::kLse)), {p.batch, p.q_heads, p.q_len}, test::kF32);
    gqa_call options{};
    options.size = sizeof options;
    options.causal = p.causal();
    options.lse = c.has(Role::kLse) ? lse.get() : nullptr;
    Call made;
    const Status status = make_call(*device_, q.get(), k.get(), v.get(), out.get(), &options, &made);
    EXPECT_TRUE(status.ok()) << status.message();
    return made;
  }

  // Another family serves the call, and rightly.
  ::testing::AssertionResult falls_back(AttentionCase* attention) {
    test::GpuCopy copy(*driver_, attention);
    const Call call = described(copy.call());
    const Problem wanted = Signature(call.problem).problem();
    if (wanted.tma) return ::testing::AssertionFailure() << to_text(wanted) << " claims tensor maps";
    for (const Ranked& ranked : enumerate(wanted, device_->spec()).ranked)
      if (name(ranked.candidate) == "warpgroup") return ::testing::AssertionFailure() << to_text(ranked.candidate);
    const Candidate chosen = best(wanted, 1).front();
    const Status status = kernel_for(call.problem, call.problem, chosen, chosen)->run(call);
    if (!status.ok()) return ::testing::AssertionFailure() << status.message();
    copy.fetch();
    return test::matches_float64(*attention);
  }
};

// Strides of 0, of every input and every dimension that one may be expanded along.
TEST_F(CopyEngineGpu, ServesExpandedTensors) {
  const std::vector<Loaded> kernels = kernels_for("d=128,causal");
  void (*const expansions[])(Call*) = {
      [](Call* c) { c->strides(Role::kK).batch = c->strides(Role::kV).batch = 0; },
      [](Call* c) { c->strides(Role::kV).head = 0; },
      [](Call* c) { c->strides(Role::kK).head = c->strides(Role::kK).batch = 0; },
      [](Call* c) { c->strides(Role::kQ).head = 0; },
      [](Call* c) { c->strides(Role::kQ).row = c->strides(Role::kK).row = 0; },
  };
  for (std::size_t at = 0; at < std::size(expansions); ++at) {
    AttentionCase attention(problem_of("b=2,hq=4,hk=2,sq=100,sk=200,d=128,causal"));
    expansions[at](&attention.call);
    EXPECT_TRUE(described(attention.call).problem.tma) << "expansion " << at;
    EXPECT_TRUE(right(kernels, &attention)) << "expansion " << at;
  }
}

TEST_F(CopyEngineGpu, LeavesRowsThatStepBackwards) {
  AttentionCase attention(problem_of("b=2,hq=4,hk=2,sq=200,sk=300,d=128,causal"));
  Call& call = attention.call;
  call.place(Role::kK, call.at<std::uint16_t>(Role::kK) + 299 * call.strides(Role::kK).row);
  call.strides(Role::kK).row *= -1;
  EXPECT_TRUE(falls_back(&attention));
}

TEST_F(CopyEngineGpu, LeavesRowsOffSixteenBytes) {
  AttentionCase attention(problem_of("b=2,hq=4,hk=2,sq=200,sk=300,d=128,causal,align=2"));
  EXPECT_TRUE(falls_back(&attention));
}

TEST_F(CopyEngineGpu, ServesAlignedCalls) {
  AttentionCase attention(problem_of("b=2,hq=4,hk=2,sq=200,sk=300,d=128,causal"));
  test::GpuCopy copy(*driver_, &attention);
  const Call call = described(copy.call());
  EXPECT_TRUE(call.problem.tma);
  EXPECT_FALSE(tiles(Signature(call.problem).problem()).empty());
}

// ---- many launches

// Keys, queries and values are all one number, 1 as bfloat16 and 1.875 as float16, so every row that sees a key is
// that, and the others zeros.
class WarpgroupLoad : public WarpgroupGpu {
 protected:
  static constexpr std::uint16_t kOne = 0x3f80;
  static constexpr int kMostBatch = 3, kMostHeads = 8, kMostLength = 900, kMostDim = 128;
  static constexpr std::size_t kElements = std::size_t{kMostBatch} * kMostHeads * kMostLength * kMostDim;

  void SetUp() override {
    WarpgroupGpu::SetUp();
    if (IsSkipped()) return;
    const std::vector<std::uint16_t> ones(kElements, kOne);
    for (CUdeviceptr* memory : {&input_, &out_}) ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemAlloc(memory, 2 * kElements));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemcpyHtoDAsync(input_, ones.data(), 2 * kElements, nullptr));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(nullptr));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuEventCreate(&done_, CU_EVENT_DISABLE_TIMING));
  }
  void TearDown() override {
    if (done_ != nullptr) driver_->cuEventDestroy(done_);
    if (stream_ != nullptr) driver_->cuStreamDestroy(stream_);
    if (input_ != 0) driver_->cuMemFree(input_);
    if (out_ != 0) driver_->cuMemFree(out_);
    WarpgroupGpu::TearDown();
  }

  Call random_call(std::mt19937* random, int head_dim, bool causal, ElementType dtype) {
    const auto any = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(*random); };
    Call c;
    Problem& p = c.problem;
    p.set_types(dtype);
    p.mask = causal ? Mask::kCausal : Mask::kNone;
    p.head_dim = p.head_dim_v = head_dim;
    p.batch = any(1, kMostBatch);
    p.kv_heads = any(1, 2);
    p.q_heads = p.kv_heads * (1 << any(0, 2));
    p.q_len = any(1, kMostLength);
    p.kv_len = any(1, kMostLength);
    for (const Role role : {Role::kQ, Role::kK, Role::kV}) c.place(role, reinterpret_cast<const void*>(input_));
    c.place(Role::kOut, reinterpret_cast<void*>(out_));
    const auto compact = [&](std::int64_t length, std::int64_t heads) {
      return Strides{length * heads * head_dim, heads * head_dim, head_dim};
    };
    c.strides(Role::kQ) = c.strides(Role::kOut) = compact(p.q_len, p.q_heads);
    c.strides(Role::kK) = c.strides(Role::kV) = compact(p.kv_len, p.kv_heads);
    c.scale = 0.01F;
    c.stream = stream_;
    return c;
  }

  // A kernel that hangs cannot be stopped, and everything after it would wait: the program ends.
  void wait_or_end(const std::string& what) {
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuEventRecord(done_, stream_));
    const auto begin = std::chrono::steady_clock::now();
    CUresult result = CUDA_ERROR_NOT_READY;
    while ((result = driver_->cuEventQuery(done_)) == CUDA_ERROR_NOT_READY) {
      if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) continue;
      std::fprintf(stderr, "hangs: %s\n", what.c_str());
      std::_Exit(1);
    }
    ASSERT_EQ(CUDA_SUCCESS, result) << what;
  }

  void expect_ones_and_zeros(const Call& c, const std::string& what) {
    const Problem& p = c.problem;
    const std::int64_t row = std::int64_t{p.batch} * p.q_heads * p.head_dim_v;
    std::vector<std::uint16_t> out(static_cast<std::size_t>(row * p.q_len));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemcpyDtoHAsync(out.data(), out_, 2 * out.size(), stream_));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(stream_));
    const std::int64_t seeing = p.causal() ? std::min(p.q_len, p.kv_len) : p.q_len;
    EXPECT_EQ(std::count(out.begin(), out.end(), kOne), row * seeing) << what;
    EXPECT_EQ(std::count(out.begin(), out.end(), 0), row * (p.q_len - seeing)) << what;
  }

  CUdeviceptr input_ = 0, out_ = 0;
  CUstream stream_ = nullptr;
  CUevent done_ = nullptr;
};

TEST_F(WarpgroupLoad, AThousandLaunchesOfRandomShapes) {
  constexpr int kLaunches = 1000, kTogether = 10;
  const struct {
    int head_dim;
    bool causal;
    ElementType dtype;
    std::vector<Loaded> kernels;
  } families[] = {{128, false, ElementType::kBF16, kernels_for("d=128")},
                  {128, true, ElementType::kBF16, kernels_for("d=128,causal")},
                  {64, false, ElementType::kBF16, kernels_for("d=64,lse=0")},
                  {64, true, ElementType::kBF16, kernels_for("d=64,causal,lse=0")},
                  {64, false, ElementType::kF16, kernels_for("d=64,lse=0,dtype=f16")},
                  {64, true, ElementType::kF16, kernels_for("d=64,causal,lse=0,dtype=f16")}};
  std::mt19937 random(11);
  for (int i = 0; i < kLaunches; i += kTogether) {
    std::string what;
    Call call;
    for (int together = 0; together < kTogether; ++together) {
      const auto& family = families[random() % std::size(families)];
      const Loaded& one = family.kernels[random() % family.kernels.size()];
      call = random_call(&random, family.head_dim, family.causal, family.dtype);
      ASSERT_EQ(CUDA_SUCCESS, driver_->cuMemsetD8Async(out_, 0xff, 2 * kElements, stream_));
      ASSERT_TRUE(one.kernel->run(call).ok());
      what = to_text(call.problem) + " | " + to_text(one.candidate);
    }
    wait_or_end("one of " + std::to_string(kTogether) + ", the last of them " + what);
    expect_ones_and_zeros(call, what);
  }
}

}  // namespace
}  // namespace gqa
