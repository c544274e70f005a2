// host_packed_test.cc: the host's attention on packed sequences: each gives what it gives alone, bit for bit, and rows
// that no sequence has are left alone; and that a trial verifies such kernels and catches those that read a list
// wrongly.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/element.h"
#include "runtime/host/attention/host_kernel.h"
#include "runtime/workload/workload.h"
#include "tests/search/from_text.h"

namespace gqa::test {
namespace {

constexpr std::uint16_t kUntouched = 0xffff;  // NaN, too
constexpr int kSpare = 3;                     // rows of each packed tensor after the last sequence's
constexpr float kUntouchedLse = -12345;

const char* const kPackedCandidates[] = {"flash m=32 n=64 warps=1 stages=1 pack=1",
                                         "flash m=16 n=32 warps=1 stages=1 pack=2",
                                         "split m=16 n=32 warps=1 stages=1 pack=2 splits=3"};

Candidate packed_candidate(const std::string& text) { return gqa::candidate_of(text); }

struct Sizes {
  std::vector<std::int32_t> queries, keys;
};

std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts = {0};
  for (const std::int32_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

// Packed tensors of heads side by side, NaN past the last sequence.
class PackedCase {
 public:
  PackedCase(const std::string& text, const Sizes& lengths) : q_starts(starts_of(lengths.queries)) {
    call.problem = problem_of(text);
    const Problem& p = call.problem;
    k_starts = starts_of(lengths.keys);
    q = random(q_starts.back(), p.q_heads * p.head_dim);
    k = random(k_starts.back(), p.kv_heads * p.head_dim);
    v = random(k_starts.back(), p.kv_heads * p.head_dim_v);
    const auto rows = static_cast<std::size_t>(q_starts.back() + kSpare);
    out.assign(rows * static_cast<std::size_t>(p.q_heads * p.head_dim_v), kUntouched);
    lse.assign(rows * static_cast<std::size_t>(p.q_heads), kUntouchedLse);
    point();
  }

  // Sequence b's as a call of its own; the caller's out and lse.
  Call alone(int b, std::uint16_t* own_out, float* own_lse) const {
    Call one = call;
    const auto at = static_cast<std::size_t>(b);
    one.problem.q_lengths = one.problem.kv_lengths = Lengths::kOne;
    one.problem.batch = 1;
    one.problem.q_len = q_starts[at + 1] - q_starts[at];
    one.problem.kv_len = k_starts[at + 1] - k_starts[at];
    one.place(Role::kQ, q.data() + q_starts[at] * call.strides(Role::kQ).row);
    one.place(Role::kK, k.data() + k_starts[at] * call.strides(Role::kK).row);
    one.place(Role::kV, v.data() + k_starts[at] * call.strides(Role::kV).row);
    one.place(Role::kOut, own_out);
    one.place(Role::kLse, own_lse);
    one.leave_out(Roles(Role::kQStarts) | Role::kKStarts | Role::kQLengths | Role::kKvLengths);
    return one;
  }

  std::vector<std::uint16_t> q, k, v, out;
  std::vector<float> lse;
  std::vector<std::int32_t> q_starts, k_starts;
  Call call;

 private:
  std::vector<std::uint16_t> random(std::int32_t rows, std::int32_t row) {
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> made(static_cast<std::size_t>((rows + kSpare) * row), kUntouched);
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows * row); ++i)
      made[i] = store(call.problem.q_type, normal(random_));
    return made;
  }

  void point() {
    const Problem& p = call.problem;
    const auto strides = [](std::int64_t heads, std::int64_t dim) { return Strides{0, heads * dim, dim}; };
    call.place(Role::kQ, q.data());
    call.place(Role::kK, k.data());
    call.place(Role::kV, v.data());
    call.place(Role::kOut, out.data());
    call.place(Role::kLse, lse.data());
    call.strides(Role::kQ) = strides(p.q_heads, p.head_dim);
    call.strides(Role::kK) = strides(p.kv_heads, p.head_dim);
    call.strides(Role::kV) = strides(p.kv_heads, p.head_dim_v);
    call.strides(Role::kOut) = strides(p.q_heads, p.head_dim_v);
    call.strides(Role::kLse).head = q_starts.back() + kSpare;
    call.strides(Role::kLse).row = 1;
    call.place(Role::kQStarts, q_starts.data());
    call.place(Role::kKStarts, k_starts.data());
    call.scale = 0.125F;
  }

  std::mt19937 random_{7};
};

// What all sequences give alone, in the place that the packed call has for them.
void run_alone(const HostKernel& kernel, const PackedCase& t, std::vector<std::uint16_t>* out,
               std::vector<float>* lse) {
  *out = std::vector<std::uint16_t>(t.out.size(), kUntouched);
  *lse = std::vector<float>(t.lse.size(), kUntouchedLse);
  for (int b = 0; b < t.call.problem.batch; ++b) {
    const std::int32_t first = t.q_starts[static_cast<std::size_t>(b)];
    const Call one = t.alone(b, out->data() + first * t.call.strides(Role::kOut).row, lse->data() + first);
    if (one.problem.q_len == 0) continue;
    ASSERT_TRUE(kernel.run(one).ok());
  }
}

void expect_as_alone(const std::string& text, const Sizes& lengths) {
  for (const TileKernels* kernels : usable_tile_kernels())
    for (const char* candidate : kPackedCandidates) {
      const HostKernel kernel(packed_candidate(candidate), 1, *kernels);
      PackedCase t(text, lengths);
      ASSERT_TRUE(kernel.run(t.call).ok());
      std::vector<std::uint16_t> out;
      std::vector<float> lse;
      run_alone(kernel, t, &out, &lse);
      // A share of a call of its own may end elsewhere: there sums are added in another order.
      const bool same_order = packed_candidate(candidate) != packed_candidate(kPackedCandidates[2]);
      EXPECT_TRUE(!same_order || t.out == out) << kernels->name << ", " << candidate;
      for (std::size_t i = 0; i < lse.size(); ++i)
        ASSERT_TRUE(t.lse[i] == lse[i] || std::fabs(t.lse[i] - lse[i]) < 1e-4F);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const float given = load(t.call.problem.out_type, t.out[i]), alone = load(t.call.problem.out_type, out[i]);
        ASSERT_TRUE(t.out[i] == out[i] || std::fabs(given - alone) < 0.02F) << kernels->name << ", " << candidate;
      }
    }
}

// None, one, more queries than keys, more than a tile.
const Sizes kMixed = {{5, 0, 1, 70, 3, 40}, {90, 7, 33, 20, 0, 40}};

TEST(HostPacked, EachSequenceGivesWhatItGivesAlone) {
  for (const char* more : {"", ",causal", ",left=9,right=2", ",dtype=f16,causal"})
    expect_as_alone("b=6,hq=4,hk=2,sq=70,sk=90,d=64,packq,packk,lse" + std::string(more), kMixed);
}

TEST(HostPacked, HundredsOfShortSequences) {
  Sizes lengths;
  for (int i = 0; i < 300; ++i) {
    lengths.queries.push_back(i % 5);
    lengths.keys.push_back(i * 7 % 23);
  }
  expect_as_alone("b=300,hq=2,hk=1,sq=4,sk=22,d=32,causal,packq,packk,lse", lengths);
}

TEST(HostPacked, UsedLengthsAreFewerThanTheListsSay) {
  const HostKernel kernel(packed_candidate(kPackedCandidates[0]), 1);
  PackedCase t("b=2,hq=2,hk=1,sq=9,sk=30,d=32,causal,packq,packk,lse", {{9, 8}, {30, 20}});
  const std::vector<std::int32_t> queries = {4, 8}, keys = {30, 11};
  t.call.place(Role::kQLengths, queries.data());
  t.call.place(Role::kKvLengths, keys.data());
  ASSERT_TRUE(kernel.run(t.call).ok());
  for (int b : {0, 1}) {
    const auto at = static_cast<std::size_t>(b);
    const auto row = static_cast<std::size_t>(t.call.strides(Role::kOut).row);
    std::vector<std::uint16_t> out(9 * row, kUntouched);
    std::vector<float> lse(t.lse.size());
    Call one = t.alone(b, out.data(), lse.data());
    one.problem.q_len = queries[at];
    one.problem.kv_len = keys[at];
    ASSERT_TRUE(kernel.run(one).ok());
    const std::size_t first = static_cast<std::size_t>(t.q_starts[at]) * row;
    const std::size_t count = static_cast<std::size_t>(t.q_starts[at + 1] - t.q_starts[at]) * row;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(t.out[first + i], out[i]) << b << ", " << i;
  }
}

// More rows are used, says the call, than there are.
TEST(HostPacked, UsedLengthsBeyondASequencesRowsAreItsRows) {
  const HostKernel kernel(packed_candidate(kPackedCandidates[0]), 1);
  PackedCase t("b=3,hq=2,hk=1,sq=9,sk=30,d=32,causal,packq,packk,lse", {{9, 3, 8}, {30, 4, 20}});
  ASSERT_TRUE(kernel.run(t.call).ok());
  const std::vector<std::uint16_t> out = std::move(t.out);
  const std::vector<float> lse = std::move(t.lse);
  t.out.assign(out.size(), kUntouched);
  t.lse.assign(lse.size(), kUntouchedLse);
  t.call.place(Role::kOut, t.out.data());
  t.call.place(Role::kLse, t.lse.data());
  const std::vector<std::int32_t> queries = {9, 7, 9}, keys = {30, 30, 21};
  t.call.place(Role::kQLengths, queries.data());
  t.call.place(Role::kKvLengths, keys.data());
  ASSERT_TRUE(kernel.run(t.call).ok());
  EXPECT_EQ(t.out, out);
  EXPECT_EQ(t.lse, lse);
}

// ---- the trial

class MisledPacked final : public LoadedProgram {
 public:
  using Mistake = void (*)(Call*);
  explicit MisledPacked(Mistake mistake) : mistake_(mistake) {}
  using LoadedProgram::run;
  Status run(const ProgramCall& program_call) const override {
    Call call = *program_call.attention;
    mistake_(&call);
    return HostKernel(packed_candidate(kPackedCandidates[0]), 1).run(call);
  }

 private:
  Mistake mistake_;
};

bool packed_passes(const std::string& text, MisledPacked::Mistake mistake) {
  std::unique_ptr<Device> device;
  EXPECT_TRUE(open_host_device(1, &device).ok());
  std::unique_ptr<Trial> trial;
  EXPECT_TRUE(compile_and_try(*device, {problem_of(text)}, Effort(60), &trial).ok());
  return trial->verify(MisledPacked(mistake)).passed;
}

TEST(HostPackedTrial, CatchesAListThatIsReadWrongly) {
  for (const char* more : {"", ",causal"}) {
    const std::string text = "b=7,hq=2,hk=2,sq=20,sk=96,d=64,packq,packk,lse" + std::string(more);
    EXPECT_TRUE(packed_passes(text, [](Call*) {}));
    EXPECT_FALSE(packed_passes(text, [](Call* call) {
      call->place(Role::kQStarts, call->list(Role::kQStarts) + 1);
      --call->problem.batch;
    })) << "a sequence left out";
    EXPECT_FALSE(packed_passes(text, [](Call* call) {
      call->place(Role::kK, call->at<std::uint16_t>(Role::kK) + call->strides(Role::kK).row);
    })) << "a neighbour's key";
    EXPECT_FALSE(packed_passes(text, [](Call* call) { --call->problem.q_len; })) << "the longest one's last query";
    EXPECT_FALSE(packed_passes(text, [](Call* call) { call->problem.kv_len -= 8; })) << "the longest one's last keys";
  }
  const std::string paged = "b=5,hq=2,hk=2,sq=20,sk=96,d=64,packq,lens,page=16,causal";
  EXPECT_TRUE(packed_passes(paged, [](Call*) {}));
  EXPECT_FALSE(packed_passes(paged, [](Call* call) { call->strides(Role::kPageTable).batch = 0; }))
      << "the first sequence's pages";
}

}  // namespace
}  // namespace gqa::test
