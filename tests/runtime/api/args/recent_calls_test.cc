// recent_calls_test.cc: a call that is like one before in all but its addresses is taken without a second look, and
// what depends on addresses is looked at all the same.
#include "runtime/api/args/recent_calls.h"

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "runtime/api/args/args.h"
#include "tests/runtime/fake_device.h"

namespace gqa::test {
namespace {

// Tensors of (2, 16, heads, 64) at addresses that nothing reads.
struct Addressed {
  struct One {
    std::int64_t shape[4], strides[4];
    DLTensor tensor;
    void set(std::uintptr_t address, std::int64_t heads) {
      const std::int64_t sizes[] = {2, 16, heads, 64}, steps[] = {16 * heads * 64, heads * 64, 64, 1};
      std::copy(sizes, sizes + 4, shape);
      std::copy(steps, steps + 4, strides);
      tensor = {reinterpret_cast<void*>(address), {kDLCUDA, 0}, 4, {kDLBfloat, 16, 1}, shape, strides, 0};
    }
  };
  explicit Addressed(std::uintptr_t base) {
    q.set(base, 8), k.set(base + (1 << 20), 2), v.set(base + (2 << 20), 2), out.set(base + (3 << 20), 8);
  }
  Addressed(const Addressed&) = delete;
  Addressed& operator=(const Addressed&) = delete;
  bool recent(const Device& device, Call* call) const {
    return find_recent_call(device, Operands(&q.tensor, &k.tensor, &v.tensor, &out.tensor, &options), &options, call);
  }
  One q, k, v, out;
  gqa_call options = [] {
    gqa_call call{};
    call.size = sizeof call;
    call.causal = 1;
    return call;
  }();
};

class RecentCallsTest : public ::testing::Test {
 protected:
  Status check(const Addressed& t, Call* call) {
    return make_call(device_, &t.q.tensor, &t.k.tensor, &t.v.tensor, &t.out.tensor, &t.options, call);
  }
  void SetUp() override {
    Call call;
    ASSERT_TRUE(check(first_, &call).ok());
  }
  bool found(const Addressed& t) {
    Call call;
    return t.recent(device_, &call);
  }

  FakeWorld world_;
  FakeDevice device_{&world_};
  Addressed first_{std::uintptr_t{1} << 30};
};

TEST_F(RecentCallsTest, OtherAddressesAndAnotherStreamGiveTheCallThatCheckingGives) {
  Addressed other(std::uintptr_t{1} << 31);
  int stream = 0;
  other.options.stream = &stream;
  Call call;
  ASSERT_TRUE(other.recent(device_, &call));
  EXPECT_EQ(call.at(Role::kQ), other.q.tensor.data);
  EXPECT_EQ(call.to(Role::kOut), other.out.tensor.data);
  EXPECT_EQ(call.stream, &stream);
  EXPECT_EQ(call.to<float>(Role::kLse), nullptr);
  EXPECT_EQ(call.scale, 0.125F);
  EXPECT_TRUE(call.problem.causal() && call.problem.align == 16 && call.problem.tma);
  EXPECT_EQ(call.strides(Role::kK).row, 128);
}

TEST_F(RecentCallsTest, CallsThatDifferInTuningAreOne) {
  for (const auto& [number, tuning] : {std::pair<gqa_call_tuning, std::optional<Tuning>>{GQA_CALL_TUNE_AS_HANDLE, {}},
                                       {GQA_CALL_TUNE_NOW, Tuning::kNow},
                                       {GQA_CALL_TUNE_GUESS, Tuning::kGuess},
                                       {GQA_CALL_TUNE_CACHED_ONLY, Tuning::kCachedOnly}}) {
    Addressed again(std::uintptr_t{1} << 31);
    again.options.tuning = number;
    EXPECT_TRUE(found(again));
    EXPECT_EQ(tuning_of(&again.options), tuning);
  }
}

TEST_F(RecentCallsTest, AnUnknownTuningIsRefused) {
  Addressed other(std::uintptr_t{1} << 31);
  const int unknown = 4;
  std::memcpy(&other.options.tuning, &unknown, sizeof unknown);
  Call call;
  EXPECT_FALSE(found(other));
  const Status status = check(other, &call);
  EXPECT_EQ(status.code(), Code::kOption);
  EXPECT_NE(status.message().find("gqa_call.tuning is 4"), std::string::npos) << status.message();
}

TEST_F(RecentCallsTest, ACallOfAHeaderWithoutTuningIsTaken) {
  Addressed older(std::uintptr_t{1} << 31);
  older.options.size = offsetof(gqa_call, tuning);
  older.options.tuning = GQA_CALL_TUNE_GUESS;  // past its end
  Call call;
  ASSERT_TRUE(check(older, &call).ok());
  EXPECT_FALSE(tuning_of(&older.options).has_value());
}

TEST_F(RecentCallsTest, ACallOfAnyOlderHeaderIsFound) {
  for (const std::size_t size :
       {offsetof(gqa_call, cache_seqlens), offsetof(gqa_call, cu_seqlens_q), offsetof(gqa_call, softcap),
        offsetof(gqa_call, k_new), offsetof(gqa_call, score_scale), offsetof(gqa_call, tuning)}) {
    Addressed older(std::uintptr_t{1} << 31);
    older.options.size = size;
    gqa_call whole;
    const gqa_call* options = of_today(&older.options, &whole);
    ASSERT_EQ(options, &whole);
    const Operands operands(&older.q.tensor, &older.k.tensor, &older.v.tensor, &older.out.tensor, options);
    Call call;
    EXPECT_TRUE(find_recent_call(device_, operands, options, &call)) << size;
  }
}

TEST_F(RecentCallsTest, AnythingElseIsLookedAtAgain) {
  const auto changed = [&](auto change) {
    Addressed other(std::uintptr_t{1} << 31);
    change(&other);
    return found(other);
  };
  EXPECT_TRUE(changed([](Addressed*) {}));
  EXPECT_FALSE(changed([](Addressed* t) { t->q.shape[1] = 17; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->k.strides[1] += 8; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->v.tensor.dtype.code = kDLFloat; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->out.tensor.device.device_id = 1; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->out.tensor.strides = nullptr; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->options.causal = 0; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->options.scale = 2; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->options.size = 8; }));
  EXPECT_FALSE(changed([](Addressed* t) { t->options.lse = &t->q.tensor; }));
}

TEST_F(RecentCallsTest, AddressesAreCheckedEachTime) {
  const auto refused = [&](auto change, Code code) {
    Addressed other(std::uintptr_t{1} << 31);
    change(&other);
    Call call;
    EXPECT_FALSE(found(other));
    EXPECT_EQ(check(other, &call).code(), code);
  };
  refused([](Addressed* t) { t->q.tensor.data = nullptr; }, Code::kNullArgument);
  refused([](Addressed* t) { t->k.tensor.byte_offset = 1; }, Code::kAlignment);
  refused([](Addressed* t) { t->out.tensor.data = t->q.tensor.data; }, Code::kAlias);
  refused([](Addressed* t) { t->v.tensor.data = t->out.tensor.data; }, Code::kAlias);
  refused([](Addressed* t) { t->out.tensor.data = reinterpret_cast<void*>(~std::uintptr_t{15}); }, Code::kSize);
  Addressed unaligned(std::uintptr_t{1} << 31);
  unaligned.q.tensor.byte_offset = 2;
  Call call;
  EXPECT_FALSE(found(unaligned));
  ASSERT_TRUE(check(unaligned, &call).ok());
  EXPECT_EQ(call.problem.align, 2) << "another kernel's call";
}

}  // namespace
}  // namespace gqa::test
