// args_fuzz_test.cc: random tensors against a slow, naive oracle.
// Owns: a fixed-seed stream of calls, some good, most spoilt in several ways; the oracle lists every element's address
// of small tensors and decides by sets. Accept and refuse must agree, and no input may crash (run it under sanitizers).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "runtime/api/args/args.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/tensors.h"

namespace gqa::test {
namespace {

class Fuzz {
 public:
  explicit Fuzz(unsigned seed) : random_(seed) {}

  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  bool chance(int in) { return pick(in) == 0; }
  template <typename T, std::size_t N>
  T of(const T (&choices)[N]) {
    return choices[pick(N)];
  }
  std::int64_t any_number() {
    const std::int64_t edges[] = {0,
                                  1,
                                  -1,
                                  2,
                                  7,
                                  64,
                                  1 << 20,
                                  std::int64_t{1} << 40,
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min(),
                                  static_cast<std::int64_t>(random_())};
    return of(edges);
  }

 private:
  std::mt19937_64 random_;
};

struct Tensors {
  TestTensor q, k, v, out;
  std::vector<TestTensor*> all() { return {&q, &k, &v, &out}; }
};

// A good call in a random layout: permuted, padded, sliced, broadcast.
Tensors good(Fuzz& fuzz) {
  const std::int64_t kv_heads = 1 + fuzz.pick(3), group = 1 + fuzz.pick(3), batch = 1 + fuzz.pick(2);
  const std::int64_t q_len = 1 + fuzz.pick(3), kv_len = 1 + fuzz.pick(3);
  const std::int64_t dims[] = {16, 64, 80};
  const DLDataType types[] = {kBf16, kF16, kF32};
  const std::int64_t head_dim = fuzz.of(dims), head_dim_v = fuzz.of(dims);
  const DLDataType type = fuzz.of(types);
  return {{0x100000, {batch, q_len, kv_heads * group, head_dim}, type},
          {0x200000, {batch, kv_len, kv_heads, head_dim}, type},
          {0x300000, {batch, kv_len, kv_heads, head_dim_v}, type},
          {0x400000, {batch, q_len, kv_heads * group, head_dim_v}, type}};
}

void relayout(Fuzz& fuzz, TestTensor& tensor) {
  int order[] = {0, 1, 2};
  for (int i = 2; i > 0; --i) std::swap(order[i], order[fuzz.pick(i + 1)]);
  std::int64_t step = tensor.shape[3] + (fuzz.chance(3) ? 8 * fuzz.pick(3) : fuzz.pick(5));
  for (const int dim : order) {
    tensor.strides[dim] = step;
    step = step * tensor.shape[dim] + (fuzz.chance(4) ? fuzz.pick(9) : 0);
  }
}

// Small faults, so that both answers stay likely.
void spoil_gently(Fuzz& fuzz, Tensors& tensors) {
  TestTensor& tensor = *tensors.all()[fuzz.pick(4)];
  const int dim = fuzz.pick(4);
  switch (fuzz.pick(8)) {
    case 0:
      tensor.strides[dim] = fuzz.pick(130) - 20;
      break;
    case 1:
      tensor.shape[dim] = fuzz.pick(4);
      break;
    case 2:
      tensor.data = tensors.all()[fuzz.pick(4)]->data + 2 * static_cast<unsigned>(fuzz.pick(600));
      break;
    case 3:
      tensor.data += static_cast<unsigned>(fuzz.pick(20));
      break;
    case 4:
      tensor.byte_offset = static_cast<unsigned>(fuzz.pick(20));
      break;
    case 5:
      tensor.dtype = fuzz.chance(2) ? kF16 : kF32;
      break;
    case 6:
      tensor.strides[dim] = -tensor.strides[dim];
      break;
    default:
      tensor.strides[dim] = 0;
      break;
  }
}

// ---- the oracle

std::uintptr_t bytes(const TestTensor& t) { return t.dtype.bits / 8U; }

std::vector<std::uintptr_t> elements(const TestTensor& t) {
  std::vector<std::uintptr_t> found;
  for (std::int64_t b = 0; b < t.shape[0]; ++b)
    for (std::int64_t r = 0; r < t.shape[1]; ++r)
      for (std::int64_t h = 0; h < t.shape[2]; ++h)
        for (std::int64_t d = 0; d < t.shape[3]; ++d)
          found.push_back(t.data + t.byte_offset +
                          bytes(t) * static_cast<std::uintptr_t>(b * t.strides[0] + r * t.strides[1] +
                                                                 h * t.strides[2] + d * t.strides[3]));
  return found;
}

bool is_head_dim(std::int64_t dim) {
  const std::set<std::int64_t> known = {16, 32, 64, 80, 96, 112, 128, 192, 256};
  return known.contains(dim);
}

bool same_type(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

bool tensors_agree(Tensors& t) {
  for (TestTensor* tensor : t.all()) {
    for (const std::int64_t size : tensor->shape) {
      if (size < 1) return false;
    }
    if (!same_type(tensor->dtype, t.q.dtype)) return false;
    if (tensor->strides[3] != 1 || (tensor->data + tensor->byte_offset) % bytes(*tensor) != 0) return false;
  }
  const auto &q = t.q.shape, &k = t.k.shape, &v = t.v.shape, &out = t.out.shape;
  return q[0] == k[0] && q[0] == v[0] && q[0] == out[0] && k[1] == v[1] && q[1] == out[1] && k[2] == v[2] &&
         q[2] == out[2] && q[2] % k[2] == 0 && q[3] == k[3] && v[3] == out[3] && is_head_dim(q[3]) && is_head_dim(v[3]);
}

bool has_no_query(const Tensors& t) { return t.q.shape[0] == 0 || t.q.shape[1] == 0; }

enum class Expect { kAccept, kRefuse, kEither };

// Element sets decide overlap; where sets are disjoint but interleaved, a refusal is allowed too.
Expect oracle(Tensors& t) {
  if (!tensors_agree(t)) return Expect::kRefuse;
  const std::vector<std::uintptr_t> written = elements(t.out);
  const std::set<std::uintptr_t> out(written.begin(), written.end());
  if (out.size() != written.size()) return Expect::kRefuse;
  Expect expect = Expect::kAccept;
  for (TestTensor* input : {&t.q, &t.k, &t.v}) {
    const std::vector<std::uintptr_t> read = elements(*input);
    const auto [low, high] = std::minmax_element(read.begin(), read.end());
    for (const std::uintptr_t address : read) {
      const auto near = out.upper_bound(address - bytes(t.out));
      if (near != out.end() && *near < address + bytes(*input)) return Expect::kRefuse;
    }
    if (*low < *out.rbegin() + bytes(t.out) && *out.begin() < *high + bytes(*input)) expect = Expect::kEither;
  }
  std::set<std::int64_t> steps;
  std::int64_t reached = 0;
  bool nested = true;  // sorted strides that step past one another; anything else that is distinct may be refused
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (int i = 0; i < 4; ++i) {
    if (t.out.shape[i] > 1) dims.emplace_back(std::abs(t.out.strides[i]), t.out.shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  for (const auto& [stride, size] : dims) {
    nested = nested && stride > reached;
    reached += stride * (size - 1);
  }
  return nested ? expect : Expect::kEither;
}

std::uint16_t naive_align(Tensors& t) {
  for (TestTensor* tensor : t.all()) {
    const std::vector<std::uintptr_t> all = elements(*tensor);
    for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(tensor->shape[3])) {
      if (all[i] % 16 != 0) return 2;
    }
  }
  return 16;
}

// True if no element lies before one of a smaller index, 16-byte rows and all (nothing here is 2^40 bytes long).
bool naive_tma(Tensors& t) {
  for (TestTensor* tensor : t.all()) {
    for (int i = 0; i < 3; ++i) {
      if (tensor->shape[i] > 1 && tensor->strides[i] < 0) return false;
    }
  }
  return naive_align(t) == 16;
}

Status make(Tensors& t, Call* call) {
  FakeWorld world;
  const FakeDevice device(&world);
  return make_call(device, t.q.get(), t.k.get(), t.v.get(), t.out.get(), nullptr, call);
}

TEST(ArgsFuzz, AgreesWithTheNaiveOracle) {
  Fuzz fuzz(20240607);
  int accepted = 0, refused = 0, mapped = 0;
  for (int round = 0; round < 6000; ++round) {
    Tensors tensors = good(fuzz);
    for (TestTensor* tensor : tensors.all()) {
      if (fuzz.chance(2)) relayout(fuzz, *tensor);
    }
    for (int faults = fuzz.pick(3); faults > 0; --faults) spoil_gently(fuzz, tensors);
    const Expect expect = oracle(tensors);
    Call call;
    const Status status = make(tensors, &call);
    if (status.ok() && !call.has(Role::kOut)) {  // nothing to run: no query
      ASSERT_TRUE(has_no_query(tensors));
      continue;
    }
    (status.ok() ? accepted : refused)++;
    ASSERT_FALSE(expect == Expect::kAccept && !status.ok()) << "round " << round << ": " << status.message();
    ASSERT_FALSE(expect == Expect::kRefuse && status.ok()) << "round " << round;
    ASSERT_EQ(status.ok(), status.message().empty());
    if (!status.ok()) continue;
    // 16 may be missed where a stride is never taken far enough to matter, never claimed where it is not.
    if (call.problem.align == 16) {
      ASSERT_EQ(naive_align(tensors), 16) << "round " << round;
      ASSERT_EQ(call.problem.tma, naive_tma(tensors)) << "round " << round;
    }
    ASSERT_FALSE(call.problem.tma && call.problem.align != 16) << "round " << round;
    mapped += call.problem.tma;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(mapped, 100);
}

TEST(ArgsFuzz, WildNumbersNeverCrashAndAreNeverAcceptedUnread) {
  Fuzz fuzz(99);
  for (int round = 0; round < 50000; ++round) {
    Tensors tensors = good(fuzz);
    for (int faults = 1 + fuzz.pick(4); faults > 0; --faults) {
      TestTensor& tensor = *tensors.all()[fuzz.pick(4)];
      const int dim = fuzz.pick(4);
      switch (fuzz.pick(9)) {
        case 0:
          tensor.shape[dim] = fuzz.any_number();
          break;
        case 1:
          tensor.strides[dim] = fuzz.any_number();
          break;
        case 2:
          tensor.byte_offset = static_cast<std::uint64_t>(fuzz.any_number());
          break;
        case 3:
          tensor.data = static_cast<std::uintptr_t>(fuzz.any_number());
          break;
        case 4:
          tensor.rank = fuzz.pick(4);
          break;  // never past the storage: a rank of 5 is refused unread
        case 5:
          tensor.dtype = {static_cast<std::uint8_t>(fuzz.pick(256)), static_cast<std::uint8_t>(16 << fuzz.pick(2)),
                          static_cast<std::uint16_t>(fuzz.pick(3))};
          break;
        case 6:
          tensor.device = {static_cast<DLDeviceType>(fuzz.pick(16)), fuzz.pick(3)};
          break;
        case 7:
          tensor.absent = true;
          break;
        default:
          tensor.no_strides = true;
          break;
      }
    }
    Call call;
    const Status status = make(tensors, &call);
    if (!status.ok()) {
      ASSERT_GE(static_cast<int>(status.code()), GQA_ERROR_NULL_ARGUMENT);
      ASSERT_LE(static_cast<int>(status.code()), GQA_ERROR_OPTION);
      ASSERT_FALSE(status.message().empty());
      continue;
    }
    if (!call.has(Role::kOut)) {  // nothing to run: no query
      ASSERT_TRUE(has_no_query(tensors));
      continue;
    }
    ASSERT_TRUE(check(call.problem).ok());
    ASSERT_NE(call.at(Role::kQ), nullptr);
  }
}

}  // namespace
}  // namespace gqa::test
