// append_args_test.cc: calls that append: caches whose keys and values lie otherwise, or have one slot a row, and what
// an empty one does.
#include "runtime/api/args/append_args.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/call/append_plan.h"
#include "tests/runtime/api/args/fake_call.h"

namespace gqa::test {
namespace {

// Two sequences of 3 queries of 4 heads, in a cache of 2 rows of 6 slots of 2 heads; 3 new keys each.
struct AppendingCall : FakeCall {
  AppendingCall() : FakeCall({2, 3, 4, 64}, {2, 6, 2, 64}) {}
  void describe() override {
    options.cache_seqlens = lengths.get();
    options.k_new = adds ? k_new.get() : nullptr;
    options.v_new = adds ? v_new.get() : nullptr;
    options.cu_seqlens_k_new = packed_new ? new_starts.get() : nullptr;
    options.rotary_cos = rotates ? cos.get() : nullptr;
    options.rotary_sin = rotates ? sin.get() : nullptr;
    options.cache_batch_idx = by_rows ? rows.get() : nullptr;
    options.cache_leftpad = padded ? padding.get() : nullptr;
    options.cu_seqlens_q = packed ? q_starts.get() : nullptr;
  }
  Status made() {
    FakeWorld world;
    const FakeDevice device(&world);
    describe();
    call = {};
    return make_call(device, q.get(), k.get(), v.get(), out.get(), &options, &call);
  }
  std::string said() { return made().message(); }
  void set_slots(std::int64_t slots) {
    for (TestTensor* cache : {&k, &v}) {
      cache->shape[1] = slots;
      cache->strides[0] = slots * cache->strides[1];
    }
  }
  // Heads before slots, as some engines lay out keys alone.
  void put_heads_first(TestTensor* cache) {
    cache->strides[1] = cache->shape[3];
    cache->strides[2] = cache->shape[1] * cache->shape[3];
  }

  TestTensor lengths{6 * kApart, {2}, kInt32}, rows{7 * kApart, {2}, kInt32}, padding{8 * kApart, {2}, kInt32};
  TestTensor k_new{9 * kApart, {2, 3, 2, 64}}, v_new{10 * kApart, {2, 3, 2, 64}};
  TestTensor cos{11 * kApart, {9, 16}}, sin{12 * kApart, {9, 16}};
  TestTensor new_starts{13 * kApart, {3}, kInt32}, q_starts{14 * kApart, {3}, kInt32};
  bool adds = true, packed_new = false, rotates = false, by_rows = false, padded = false, packed = false;
};

TEST(AppendArgs, RowsOfACacheArePackedKeys) {
  AppendingCall c;
  c.by_rows = c.padded = true;
  ASSERT_EQ(c.said(), "");
  EXPECT_TRUE(c.call.problem.k_packed() && makes_starts(c.call));
  EXPECT_EQ(c.call.append.cache_batch_rows, 6);
}

TEST(AppendArgs, RowsOfOneSlotArePages) {
  for (const bool padded : {false, true}) {
    AppendingCall c;
    c.by_rows = true;
    c.padded = padded;
    c.set_slots(1);
    ASSERT_EQ(c.said(), "");
    EXPECT_TRUE(c.call.problem.paged() && makes_table(c.call));
    EXPECT_EQ(c.call.problem.page, 1);
    EXPECT_EQ(c.call.pages, 2);
    EXPECT_EQ(c.call.list(Role::kPageTable), nullptr);
    EXPECT_EQ(c.call.strides(Role::kK).batch, 128);
  }
}

TEST(AppendArgs, KeysAndValuesThatLieOtherwiseBeginAtRowsOfTheirOwn) {
  for (const bool padded : {false, true}) {
    AppendingCall c;
    c.by_rows = true;
    c.padded = padded;
    c.put_heads_first(&c.k);
    ASSERT_EQ(c.said(), "");
    EXPECT_TRUE(c.call.problem.k_packed() && values_apart(c.call));
    EXPECT_EQ(c.call.append.cache_batch_rows, 12);
    EXPECT_EQ(c.call.append.cache_batch_values, 6);
    EXPECT_EQ(c.call.k_rows, 12 + 6);
    EXPECT_EQ(c.call.v_rows, 6 + 6);
  }
}

TEST(AppendArgs, RowsThatAreNoWholeNumberOfSlotsApartArePages) {
  AppendingCall c;
  c.by_rows = true;
  c.v.strides[0] += 8;
  ASSERT_EQ(c.said(), "");
  EXPECT_EQ(c.call.problem.page, 6);
  EXPECT_EQ(c.call.append.page, 6);
  EXPECT_EQ(c.call.append.pages, 2);
  EXPECT_EQ(c.call.strides(Role::kV).row, 128);
  c.padded = true;
  EXPECT_NE(c.said().find("beside cache_leftpad"), std::string::npos) << c.said();
}

TEST(AppendArgs, RowsOfOtherHeadDimsInOneTensor) {
  AppendingCall c;
  c.by_rows = true;
  c.v = TestTensor{3 * kApart, {2, 6, 2, 128}};
  c.v_new = TestTensor{10 * kApart, {2, 3, 2, 128}};
  c.out = TestTensor{4 * kApart, {2, 3, 4, 128}};
  c.k.strides[0] = c.v.strides[0] = 6 * 2 * (64 + 128);  // a sequence's keys, then its values
  ASSERT_EQ(c.said(), "");
  EXPECT_EQ(c.call.append.cache_batch_rows, 18);
  EXPECT_EQ(c.call.append.cache_batch_values, 9);
}

TEST(AppendArgs, NoNewKeyIsAsGoodAsNone) {
  for (const bool packed : {false, true}) {
    AppendingCall c;
    c.rotates = true;
    c.packed_new = packed;
    for (TestTensor* rows : {&c.k_new, &c.v_new}) {
      *rows = packed ? TestTensor{0, {0, 2, 64}} : TestTensor{0, {2, 0, 2, 64}};
    }
    ASSERT_EQ(c.said(), "");
    EXPECT_EQ(c.call.at(Role::kNewK), nullptr);
    EXPECT_EQ(c.call.append.rows, 0);
    EXPECT_EQ(c.call.append.rotary_dim, 32);
    EXPECT_NE(c.call.to(Role::kOut), nullptr);
    c.v_new.shape[packed ? 0 : 1] = 3;
    EXPECT_NE(c.said().find("3"), std::string::npos) << c.said();
    c.v_new.shape[packed ? 0 : 1] = 0;
    c.k_new.dtype = c.v_new.dtype = kF32;
    EXPECT_EQ(c.made().code(), Code::kDtype);
  }
}

TEST(AppendArgs, WithoutAQueryNewKeysAreWrittenAlone) {
  for (const bool packed : {false, true}) {
    AppendingCall c;
    c.rotates = true;
    c.packed = packed;
    c.q = c.out = packed ? TestTensor{0, {0, 4, 64}} : TestTensor{0, {2, 0, 4, 64}};
    ASSERT_EQ(c.said(), "");
    EXPECT_TRUE(!c.call.has(Role::kOut) && !c.call.has(Role::kQ) && c.call.q_rows == 0);
    ASSERT_TRUE(c.call.appends());
    EXPECT_EQ(c.call.append.rows, 6);
    c.k_new.shape[2] = 1;
    EXPECT_NE(c.said().find("k_new has kv_heads 1"), std::string::npos) << c.said();
  }
}

TEST(AppendArgs, WithoutASequenceThereIsNothingToDo) {
  AppendingCall c;
  c.q = c.out = TestTensor{0, {0, 3, 4, 64}};
  c.k_new = c.v_new = TestTensor{0, {0, 3, 2, 64}};
  ASSERT_EQ(c.said(), "");
  EXPECT_TRUE(!c.call.has(Role::kOut) && !c.call.appends());
  c.k_new = c.v_new = TestTensor{9 * kApart, {2, 3, 2, 64}};  // of sequences that are not there
  EXPECT_NE(c.said(), "");
  c.packed_new = true;  // rows that are nobody's
  c.k_new = c.v_new = TestTensor{9 * kApart, {3, 2, 64}};
  EXPECT_NE(c.said(), "");
  c.new_starts = TestTensor{13 * kApart, {1}, kInt32};
  ASSERT_EQ(c.said(), "");
  EXPECT_TRUE(!c.call.appends());
}

// Rows of q belong to no sequence then, as those past a list's last number do.
TEST(AppendArgs, AListOfOneStartNamesNoSequence) {
  for (const bool adds : {false, true}) {
    AppendingCall c;
    c.packed = true;
    c.adds = adds;
    c.q = TestTensor{1 * kApart, {7, 4, 64}};
    c.out = TestTensor{4 * kApart, {7, 4, 64}};
    c.q_starts.shape[0] = 1;
    if (!adds) c.lengths.shape[0] = 0;
    if (adds) {
      EXPECT_NE(c.said().find("cu_seqlens_q has 1 numbers, expected at least 2"), std::string::npos) << c.said();
      continue;
    }
    ASSERT_EQ(c.said(), "");
    EXPECT_EQ(c.call.to(Role::kOut), nullptr);
    c.out.shape[0] = 6;
    EXPECT_EQ(c.made().code(), Code::kShape);
  }
}

// What a hit takes is what checking gives, wherever the tensors lie.
struct HitOfAppending : AppendingCall {
  HitOfAppending() { rotates = true; }
  bool hit() {
    FakeWorld world;
    const FakeDevice device(&world);
    describe();
    call = {};
    const Operands operands(q.get(), k.get(), v.get(), out.get(), &options);
    return find_recent_call(device, operands, &options, &call);
  }
  void move(std::uintptr_t by) {
    for (TestTensor* tensor : {&q, &k, &v, &out, &lengths, &k_new, &v_new, &cos, &sin}) tensor->data += by;
  }
};

TEST(AppendArgs, AHitIsWhatCheckingGives) {
  HitOfAppending c;
  ASSERT_EQ(c.said(), "");
  c.move(1 << 20);
  ASSERT_TRUE(c.hit());
  ASSERT_TRUE(c.call.appends());
  EXPECT_EQ(c.call.at(Role::kK), c.k.get()->data);
  EXPECT_EQ(c.call.list(Role::kKvLengths), c.lengths.get()->data);
  EXPECT_EQ(c.call.at(Role::kNewK), c.k_new.get()->data);
  EXPECT_EQ(c.call.at(Role::kNewV), c.v_new.get()->data);
  EXPECT_EQ(c.call.at(Role::kCos), c.cos.get()->data);
  EXPECT_EQ(c.call.at(Role::kSin), c.sin.get()->data);
  EXPECT_TRUE(!c.call.has(Role::kNewStarts) && !c.call.has(Role::kRotaryStarts) && !c.call.has(Role::kBatchIdx));
  EXPECT_EQ(c.call.append.count, 3);
  EXPECT_EQ(c.call.append.rotary_dim, 32);
  EXPECT_TRUE(c.call.problem.lengths_differ());
  c.options.rotary_interleaved = 1;
  EXPECT_FALSE(c.hit()) << "another rotation";
}

TEST(AppendArgs, AHitLooksAtAddresses) {
  HitOfAppending c;
  ASSERT_EQ(c.said(), "");
  EXPECT_TRUE(c.hit());
  const std::uintptr_t was = c.k_new.data;
  for (const std::uintptr_t wrong : {c.k.data + 64, c.v.data, c.out.data, std::uintptr_t{0}, was + 2}) {
    c.k_new.data = wrong;
    EXPECT_FALSE(c.hit()) << wrong;
  }
  c.k_new.data = was;
  EXPECT_TRUE(c.hit());
}

}  // namespace
}  // namespace gqa::test
