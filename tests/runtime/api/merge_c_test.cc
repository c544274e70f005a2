// merge_c_test.cc: gqa_merge_states through libgqa.so and gqa.h alone: attention on halves of the keys merged into that
// on all of them; packed states; more parts than a launch takes; what is refused, each by name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/api/gqa.h"
#include "tests/runtime/api/host_handle.h"

namespace {

constexpr float kNoKeys = -std::numeric_limits<float>::infinity();
constexpr DLDataType kStateF32 = {kDLFloat, 32, 1}, kStateBf16 = {kDLBfloat, 16, 1};

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

// Contiguous, in host memory; bfloat16 as its upper halves.
struct StateTensor {
  StateTensor(std::vector<std::int64_t> sizes, DLDataType type, float value)
      : shape(std::move(sizes)), floats(static_cast<std::size_t>(elements_of(shape)), value) {
    tensor = {floats.data(), {kDLCPU, 0}, static_cast<int>(shape.size()), type, shape.data(), nullptr, 0};
    if (type.bits == 16) {
      halves.resize(floats.size());
      for (std::size_t i = 0; i < floats.size(); ++i) set(i, value);
      tensor.data = halves.data();
    }
  }
  StateTensor(const StateTensor&) = delete;
  StateTensor& operator=(const StateTensor&) = delete;

  void set(std::size_t at, float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    if (halves.empty())
      floats[at] = value;
    else
      halves[at] = static_cast<std::uint16_t>(bits >> 16);
  }
  float get(std::size_t at) const {
    if (halves.empty()) return floats[at];
    const std::uint32_t bits = std::uint32_t{halves[at]} << 16;
    float value = 0;
    std::memcpy(&value, &bits, 4);
    return value;
  }

  std::vector<std::int64_t> shape;
  std::vector<float> floats;
  std::vector<std::uint16_t> halves;
  DLTensor tensor;
};

// Two parts of one row each, of two heads, weights 1 and 3, and where they go.
struct TwoParts {
  explicit TwoParts(DLDataType type = kStateF32, bool packed = false)
      : outs_a(out_shape(packed), type, 8),
        outs_b(out_shape(packed), type, 16),
        lses_a(lse_shape(packed), kStateF32, 0),
        lses_b(lse_shape(packed), kStateF32, std::log(3.F)),
        out(out_shape(packed), type, -1),
        lse(lse_shape(packed), kStateF32, -1) {}

  static std::vector<std::int64_t> out_shape(bool packed) {
    return packed ? std::vector<std::int64_t>{3, 2, 16} : std::vector<std::int64_t>{1, 3, 2, 16};
  }
  static std::vector<std::int64_t> lse_shape(bool packed) {
    return packed ? std::vector<std::int64_t>{2, 3} : std::vector<std::int64_t>{1, 2, 3};
  }
  gqa_status merge(gqa_handle handle) {
    return gqa_merge_states(handle, count, outs, lses, &out.tensor, &lse.tensor, nullptr);
  }

  StateTensor outs_a, outs_b, lses_a, lses_b, out, lse;
  const DLTensor* outs[2] = {&outs_a.tensor, &outs_b.tensor};
  const DLTensor* lses[2] = {&lses_a.tensor, &lses_b.tensor};
  std::int32_t count = 2;
};

class MergeCApi : public gqa::test::HostCApi {
 protected:
  // Refused so, with these words.
  void expect_refused(TwoParts* t, gqa_status status, const std::string& words) {
    EXPECT_EQ(t->merge(handle_), status) << words << ": " << gqa_last_error();
    EXPECT_NE(std::string(gqa_last_error()).find(words), std::string::npos) << gqa_last_error();
    for (std::size_t at = 0; at < t->out.floats.size(); ++at) EXPECT_EQ(t->out.get(at), -1) << "written";
  }
};

TEST_F(MergeCApi, WeighsByExponentialsInEveryTypeAndLayout) {
  for (const DLDataType type : {kStateF32, kStateBf16})
    for (const bool packed : {false, true}) {
      TwoParts t(type, packed);
      ASSERT_EQ(t.merge(handle_), GQA_OK) << gqa_last_error();
      for (std::size_t at = 0; at < t.out.floats.size(); ++at) EXPECT_FLOAT_EQ(t.out.get(at), 14);
      for (const float lse : t.lse.floats) EXPECT_NEAR(lse, std::log(4.F), 1e-6);
    }
}

TEST_F(MergeCApi, AnEmptyPartIsNotRead) {
  TwoParts t;
  for (std::size_t at = 0; at < t.outs_b.floats.size(); ++at) t.outs_b.set(at, std::nanf(""));
  std::fill(t.lses_b.floats.begin(), t.lses_b.floats.end(), kNoKeys);
  ASSERT_EQ(t.merge(handle_), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t.out.floats, t.outs_a.floats);
  EXPECT_EQ(t.lse.floats, t.lses_a.floats);
  t.lses_a.floats.assign(t.lses_a.floats.size(), kNoKeys);
  ASSERT_EQ(t.merge(handle_), GQA_OK) << gqa_last_error();
  EXPECT_EQ(t.out.floats, std::vector<float>(t.out.floats.size(), 0));
  EXPECT_EQ(t.lse.floats, std::vector<float>(t.lse.floats.size(), kNoKeys));
}

TEST_F(MergeCApi, MergesIntoTheFirstPart) {
  for (const DLDataType type : {kStateF32, kStateBf16}) {
    TwoParts t(type);
    const DLTensor *out = t.outs[0], *lse = t.lses[0];
    ASSERT_EQ(gqa_merge_states(handle_, 2, t.outs, t.lses, out, lse, nullptr), GQA_OK) << gqa_last_error();
    for (std::size_t at = 0; at < t.out.floats.size(); ++at) EXPECT_FLOAT_EQ(t.outs_a.get(at), 14);
    for (const float merged : t.lses_a.floats) EXPECT_NEAR(merged, std::log(4.F), 1e-6);
    EXPECT_EQ(gqa_merge_states(handle_, 2, t.outs, t.lses, t.outs[1], lse, nullptr), GQA_ERROR_ALIAS);
    // The same memory, in another order.
    std::int64_t transposed[] = {96, 16, 48, 1};
    t.outs_a.tensor.strides = transposed;
    DLTensor moved = t.outs_a.tensor;
    moved.strides = nullptr;
    EXPECT_EQ(gqa_merge_states(handle_, 2, t.outs, t.lses, &moved, lse, nullptr), GQA_ERROR_ALIAS);
  }
}

TEST_F(MergeCApi, TakesAnyNumberOfParts) {
  TwoParts t;
  std::vector<const DLTensor*> outs(101, &t.outs_a.tensor), lses(101, &t.lses_a.tensor);
  outs[100] = &t.outs_b.tensor;
  lses[100] = &t.lses_b.tensor;
  ASSERT_EQ(gqa_merge_states(handle_, 101, outs.data(), lses.data(), &t.out.tensor, &t.lse.tensor, nullptr), GQA_OK)
      << gqa_last_error();
  for (const float value : t.out.floats) EXPECT_NEAR(value, (100 * 8 + 3 * 16) / 103., 1e-5);
  ASSERT_EQ(gqa_merge_states(handle_, 1, outs.data(), lses.data(), &t.out.tensor, &t.lse.tensor, nullptr), GQA_OK);
  EXPECT_EQ(t.out.floats, t.outs_a.floats);
}

// Keys 0 to 39 and 40 to 99, and all of them.
TEST_F(MergeCApi, HalvesOfTheKeysMakeAttentionOnAll) {
  constexpr std::int64_t kKeys[] = {40, 60}, kDim = 32;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto fill = [&](StateTensor* t) {
    for (std::size_t at = 0; at < t->floats.size(); ++at) t->set(at, normal(random));
  };
  StateTensor q({1, 2, 2, kDim}, kStateBf16, 0), k({1, 100, 1, kDim}, kStateBf16, 0),
      v({1, 100, 1, kDim}, kStateBf16, 0);
  for (StateTensor* t : {&q, &k, &v}) fill(t);
  StateTensor whole({1, 2, 2, kDim}, kStateBf16, 0), whole_lse({1, 2, 2}, kStateF32, 0);
  StateTensor first({1, 2, 2, kDim}, kStateBf16, 0), first_lse({1, 2, 2}, kStateF32, 0);
  StateTensor second({1, 2, 2, kDim}, kStateBf16, 0), second_lse({1, 2, 2}, kStateF32, 0);
  StateTensor merged({1, 2, 2, kDim}, kStateBf16, 0), merged_lse({1, 2, 2}, kStateF32, 0);
  const auto run = [&](std::int64_t from, std::int64_t keys, const StateTensor& out, const StateTensor& lse) {
    gqa_call call = {};
    call.size = sizeof(call);
    call.lse = &lse.tensor;
    std::int64_t shape[] = {1, keys, 1, kDim};
    DLTensor k_part = k.tensor, v_part = v.tensor;
    k_part.shape = v_part.shape = shape;
    k_part.byte_offset = v_part.byte_offset = static_cast<std::uint64_t>(from * kDim * 2);
    EXPECT_EQ(gqa_run_ex(handle_, &q.tensor, &k_part, &v_part, &out.tensor, &call), GQA_OK) << gqa_last_error();
  };
  run(0, 100, whole, whole_lse);
  run(0, kKeys[0], first, first_lse);
  run(kKeys[0], kKeys[1], second, second_lse);
  const DLTensor* outs[] = {&first.tensor, &second.tensor};
  const DLTensor* lses[] = {&first_lse.tensor, &second_lse.tensor};
  ASSERT_EQ(gqa_merge_states(handle_, 2, outs, lses, &merged.tensor, &merged_lse.tensor, nullptr), GQA_OK)
      << gqa_last_error();
  for (std::size_t at = 0; at < merged.floats.size(); ++at) EXPECT_NEAR(merged.get(at), whole.get(at), 0.02);
  for (std::size_t at = 0; at < 4; ++at) EXPECT_NEAR(merged_lse.floats[at], whole_lse.floats[at], 1e-4);
}

TEST_F(MergeCApi, PartsThatAreNoPartsAreRefused) {
  TwoParts t;
  EXPECT_EQ(gqa_merge_states(nullptr, 2, t.outs, t.lses, &t.out.tensor, &t.lse.tensor, nullptr),
            GQA_ERROR_NULL_ARGUMENT);
  t.count = 0;
  expect_refused(&t, GQA_ERROR_SIZE, "count is 0");
  t.count = 2;
  t.outs[1] = nullptr;
  expect_refused(&t, GQA_ERROR_NULL_ARGUMENT, "outs[1] is NULL");
  t.outs[1] = &t.outs_b.tensor;
  t.lses[0] = nullptr;
  expect_refused(&t, GQA_ERROR_NULL_ARGUMENT, "lses[0] is NULL");
  EXPECT_EQ(gqa_merge_states(handle_, 2, nullptr, t.lses, &t.out.tensor, &t.lse.tensor, nullptr),
            GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_merge_states(handle_, 2, t.outs, nullptr, &t.out.tensor, &t.lse.tensor, nullptr),
            GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_merge_states(handle_, 2, t.outs, t.lses, &t.out.tensor, nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_merge_states(handle_, 2, t.outs, t.lses, nullptr, &t.lse.tensor, nullptr), GQA_ERROR_NULL_ARGUMENT);
}

TEST_F(MergeCApi, ShapesThatDifferAreRefused) {
  for (int dim = 0; dim < 4; ++dim) {
    static constexpr const char* kNames[] = {"batch", "q_len", "q_heads", "head_dim_v"};
    TwoParts t;
    t.outs_b.shape[static_cast<std::size_t>(dim)] += dim == 0 ? 1 : -1;
    expect_refused(&t, GQA_ERROR_SHAPE, std::string("outs[1] has ") + kNames[dim]);
  }
  for (int dim = 0; dim < 3; ++dim) {
    static constexpr const char* kNames[] = {"batch", "q_heads", "q_len"};
    TwoParts t, merged;
    t.lses_a.shape[static_cast<std::size_t>(dim)] += dim == 0 ? 1 : -1;
    expect_refused(&t, GQA_ERROR_SHAPE, std::string("lses[0] has ") + kNames[dim]);
    merged.lse.shape[static_cast<std::size_t>(dim)] += dim == 0 ? 1 : -1;
    expect_refused(&merged, GQA_ERROR_SHAPE, std::string("lse has ") + kNames[dim]);
  }
  TwoParts packed(kStateF32, true);
  packed.outs_b.shape[0] = 2;
  expect_refused(&packed, GQA_ERROR_SHAPE, "outs[1] has total_q 2");
  packed.outs_b.shape[0] = 3;
  packed.lses_b.shape[1] = 2;
  expect_refused(&packed, GQA_ERROR_SHAPE, "lses[1] has total_q 2");
}

TEST_F(MergeCApi, RanksDtypesAndDevicesAreRefused) {
  TwoParts t, packed(kStateF32, true);
  t.out.tensor.ndim = 2;
  expect_refused(&t, GQA_ERROR_RANK, "out has 2 dimensions");
  t.out.tensor.ndim = 4;
  t.outs[1] = &packed.outs_b.tensor;
  expect_refused(&t, GQA_ERROR_RANK, "outs[1] has 3 dimensions");
  t.outs[1] = &t.outs_b.tensor;
  t.lses[1] = &packed.lses_b.tensor;
  expect_refused(&t, GQA_ERROR_RANK, "lses[1] has 2 dimensions");
  t.lses[1] = &t.lses_b.tensor;
  t.outs_a.tensor.dtype = {kDLFloat, 16, 1};
  expect_refused(&t, GQA_ERROR_DTYPE, "outs[0] is float16");
  t.outs_a.tensor.dtype = kStateF32;
  t.lses_a.tensor.dtype = {kDLFloat, 64, 1};
  expect_refused(&t, GQA_ERROR_DTYPE, "lses[0] is float64");
  t.lses_a.tensor.dtype = kStateF32;
  t.out.tensor.dtype = {kDLInt, 32, 1};
  expect_refused(&t, GQA_ERROR_DTYPE, "out is of dtype int32");
  t.out.tensor.dtype = kStateF32;
  t.outs_b.tensor.device = {kDLCUDA, 3};
  expect_refused(&t, GQA_ERROR_DEVICE, "outs[1] is on cuda:3");
}

TEST_F(MergeCApi, MemoryThatIsSharedOrStridedWronglyIsRefused) {
  TwoParts t;
  t.outs_b.tensor.data = t.out.floats.data();
  expect_refused(&t, GQA_ERROR_ALIAS, "overlap outs[1]'s");
  t.outs_b.tensor.data = t.outs_b.floats.data();
  t.lse.tensor.data = t.outs_a.floats.data();
  expect_refused(&t, GQA_ERROR_ALIAS, "overlap outs[0]'s");
  t.lse.tensor.data = t.lses_b.floats.data();
  expect_refused(&t, GQA_ERROR_ALIAS, "overlap lses[1]'s");
  t.lse.tensor.data = t.out.floats.data();
  expect_refused(&t, GQA_ERROR_ALIAS, "lse touches");
  t.lse.tensor.data = t.lse.floats.data();
  std::int64_t overlapping[] = {96, 32, 8, 1}, apart[] = {96, 32, 16, 2};
  t.out.tensor.strides = overlapping;
  expect_refused(&t, GQA_ERROR_STRIDE, "out overlaps itself");
  t.out.tensor.strides = nullptr;
  t.outs_a.tensor.strides = apart;
  expect_refused(&t, GQA_ERROR_STRIDE, "outs[0]'s last stride is 2");
  t.outs_a.tensor.strides = nullptr;
  t.outs_a.tensor.byte_offset = 2;
  expect_refused(&t, GQA_ERROR_ALIGNMENT, "outs[0]'s data");
}

}  // namespace
