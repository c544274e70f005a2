// cache_args_test.cc: lengths, pages and windows of a call: what is refused and how it is said, what becomes of the
// rest, structs of headers before them, and calls that repeat.
#include "runtime/api/args/cache_args.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "tests/runtime/api/args/fake_call.h"
#include "tests/runtime/api/made_shape.h"

namespace gqa::test {
namespace {

constexpr DLDataType kInt64 = {kDLInt, 64, 1};

// A good call on pages: batch 2, 8 queries of 4 heads; 10 pages of 16 keys of 2 heads, 3 pages a sequence.
struct CacheCall : FakeCall {
  CacheCall() : FakeCall({2, 8, 4, 64}, {10, 16, 2, 64}) {}
  void describe() override {
    options.lse = with_lse ? lse.get() : nullptr;
    options.cache_seqlens = lengths.get();
    options.page_table = paged ? table.get() : nullptr;
    options.window_size = window.data();
  }

  TestTensor lse{5 * kApart, {2, 4, 8}, kF32};
  TestTensor lengths{6 * kApart, {2}, kInt32};
  TestTensor table{7 * kApart, {2, 3}, kInt32};
  bool paged = true, with_lse = false;
  std::array<std::int32_t, 2> window = {-1, -1};
};

struct BadCacheCall {
  const char* name;
  void (*spoil)(CacheCall& c);
  Code code;
  std::vector<std::string> says;
};

const BadCacheCall kBadCacheCalls[] = {
    {"table_rank", [](CacheCall& c) { c.table.rank = 1; }, Code::kRank, {"page_table has 1 dimensions, expected 2"}},
    {"table_batch",
     [](CacheCall& c) { c.table.shape[0] = 3; },
     Code::kShape,
     {"page_table has batch 3", "q has batch 2"}},
    {"table_type", [](CacheCall& c) { c.table.dtype = kInt64; }, Code::kDtype, {"page_table is int64, expected int32"}},
    {"table_device",
     [](CacheCall& c) {
       c.table.device = {kDLCPU, 0};
     },
     Code::kDevice,
     {"page_table is on the CPU", "cuda:0"}},
    {"table_shape_null", [](CacheCall& c) { c.table.no_shape = true; }, Code::kNullArgument, {"page_table's shape"}},
    {"table_data_null", [](CacheCall& c) { c.table.data = 0; }, Code::kNullArgument, {"page_table's data is NULL"}},
    {"table_empty", [](CacheCall& c) { c.table.shape[1] = 0; }, Code::kSize, {"page_table's dimension 1", " is 0"}},
    {"table_last_stride",
     [](CacheCall& c) { c.table.strides[1] = 2; },
     Code::kStride,
     {"page_table's last stride is 2", "each row"}},
    {"table_unaligned",
     [](CacheCall& c) { c.table.byte_offset = 2; },
     Code::kAlignment,
     {"page_table's data", "4 bytes"}},
    {"table_too_wide",
     [](CacheCall& c) { c.table.shape[1] = 1 << 27, c.table.strides[0] = 1 << 27; },
     Code::kSize,
     {"page_table has 134217728 pages a sequence, of 16", "2147483647"}},
    {"table_in_out", [](CacheCall& c) { c.table.data = c.out.data + 64; }, Code::kAlias, {"out touches", "page_table"}},
    {"lengths_rank",
     [](CacheCall& c) { c.lengths.rank = 2; },
     Code::kRank,
     {"cache_seqlens has 2 dimensions, expected 1"}},
    {"lengths_batch", [](CacheCall& c) { c.lengths.shape[0] = 1; }, Code::kShape, {"cache_seqlens has batch 1"}},
    {"lengths_type", [](CacheCall& c) { c.lengths.dtype = kF32; }, Code::kDtype, {"cache_seqlens is float32", "int32"}},
    {"lengths_device",
     [](CacheCall& c) {
       c.lengths.device = {kDLCUDA, 1};
     },
     Code::kDevice,
     {"cache_seqlens is on cuda:1"}},
    {"lengths_stride",
     [](CacheCall& c) { c.lengths.strides[0] = 2; },
     Code::kStride,
     {"cache_seqlens's last stride is 2"}},
    {"lengths_in_out",
     [](CacheCall& c) { c.lengths.data = c.out.data; },
     Code::kAlias,
     {"out touches", "cache_seqlens"}},
    {"lengths_in_lse",
     [](CacheCall& c) { c.with_lse = true, c.lengths.data = c.lse.data; },
     Code::kAlias,
     {"lse touches", "cache_seqlens"}},
    {"page_of_no_keys",
     [](CacheCall& c) { c.k.shape[1] = 0; },
     Code::kSize,
     {"k's dimension 1 of (pages, page, kv_heads, head_dim) is 0"}},
    {"no_pages", [](CacheCall& c) { c.v.shape[0] = 0; }, Code::kSize, {"v's dimension 0 of (pages, page"}},
    {"other_pages", [](CacheCall& c) { c.v.shape[0] = 9; }, Code::kShape, {"v has pages 9, but k has pages 10"}},
    {"other_page", [](CacheCall& c) { c.v.shape[1] = 8; }, Code::kShape, {"v has page 8, but k has page 16"}},
    {"dense_batch", [](CacheCall& c) { c.paged = false; }, Code::kShape, {"k has batch 10, but q has batch 2"}},
    {"heads", [](CacheCall& c) { c.q.shape[2] = c.out.shape[2] = 3; }, Code::kHeads, {"kv_heads 2", "q_heads 3"}},
    {"window_left",
     [](CacheCall& c) {
       c.window = {-2, 0};
     },
     Code::kOption,
     {"gqa_call.window_size is {-2, 0}"}},
    {"window_right",
     [](CacheCall& c) {
       c.window = {4, -7};
     },
     Code::kOption,
     {"gqa_call.window_size is {4, -7}"}}};

TEST(CacheArgs, EachKindOfBadInputIsRefusedByName) {
  for (const BadCacheCall& bad : kBadCacheCalls) {
    CacheCall c;
    ASSERT_TRUE(c.make().ok());
    bad.spoil(c);
    const Status status = c.make();
    EXPECT_EQ(status.code(), bad.code) << bad.name << ": " << status.message();
    for (const std::string& word : bad.says)
      EXPECT_NE(status.message().find(word), std::string::npos) << bad.name << ": " << status.message();
  }
}

TEST(CacheArgs, PagesAndLengthsBecomeACall) {
  CacheCall c;
  c.table.strides[0] = 7;  // rows of a wider table
  c.options.causal = 1;
  ASSERT_TRUE(c.make().ok());
  EXPECT_EQ(to_text(c.call.problem), "b=2,hq=4,hk=2,sq=8,sk=48,d=64,dtype=bf16,causal,page=16,lens");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kKvLengths)), c.lengths.data);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kPageTable)), c.table.data);
  EXPECT_EQ(c.call.strides(Role::kPageTable).batch, 7);
  EXPECT_EQ(c.call.pages, 10);
  EXPECT_EQ(c.call.strides(Role::kK).batch, 16 * 2 * 64);
}

TEST(CacheArgs, LengthsOfDenseKeys) {
  CacheCall c;
  c.paged = false;
  c.k.shape[0] = c.v.shape[0] = 2;
  ASSERT_TRUE(c.make().ok());
  EXPECT_EQ(to_text(c.call.problem), "b=2,hq=4,hk=2,sq=8,sk=16,d=64,dtype=bf16,lens");
  EXPECT_EQ(c.call.list(Role::kPageTable), nullptr);
  c.lengths.absent = true;
  ASSERT_TRUE(c.make().ok());
  EXPECT_EQ(to_text(c.call.problem), "b=2,hq=4,hk=2,sq=8,sk=16,d=64,dtype=bf16");
}

// A side that hides nothing of 48 keys, or of 8 queries, is none; causal makes right 0.
TEST(CacheArgs, WindowsBecomeMasks) {
  const auto mask = [](std::array<std::int32_t, 2> window, int causal) {
    CacheCall c;
    c.window = window;
    c.options.causal = causal;
    EXPECT_TRUE(c.make().ok());
    const std::string text = to_text(c.call.problem);
    const auto from = text.find("bf16") + 4;
    return text.substr(from, text.find(",page") - from);
  };
  EXPECT_EQ(mask({-1, -1}, 0), "");
  EXPECT_EQ(mask({-1, 5}, 1), ",causal");
  EXPECT_EQ(mask({-1, 0}, 0), ",causal");
  EXPECT_EQ(mask({46, 6}, 0), ",left=46,right=6");
  EXPECT_EQ(mask({47, 6}, 0), ",right=6");
  EXPECT_EQ(mask({46, 7}, 0), ",left=46");
  EXPECT_EQ(mask({3, 9}, 1), ",causal,left=3");
  EXPECT_EQ(mask({0, 0}, 0), ",causal,left=0");
}

TEST(CacheArgs, ACallOfAnEarlierHeaderEndsBeforeLengths) {
  CacheCall c;
  c.k.shape[0] = c.v.shape[0] = 2;
  c.paged = false;
  c.options.causal = 1;
  c.describe();
  c.options.size = offsetof(gqa_call, cache_seqlens);
  c.window = {-9, -9};  // none of this is read
  FakeWorld world;
  const FakeDevice device(&world);
  const Status status = make_call(device, c.q.get(), c.k.get(), c.v.get(), c.out.get(), &c.options, &c.call);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(to_text(c.call.problem), "b=2,hq=4,hk=2,sq=8,sk=16,d=64,dtype=bf16,causal");
  c.options.size = offsetof(gqa_call, page_table);
  EXPECT_EQ(make_call(device, c.q.get(), c.k.get(), c.v.get(), c.out.get(), &c.options, &c.call).code(),
            Code::kStructSize);
}

// ---- calls that repeat

TEST(CacheArgs, ARecentCallIsFoundAtOtherAddresses) {
  CacheCall c;
  ASSERT_TRUE(c.make().ok());
  c.lengths.data += 4;
  c.table.data += 12;
  c.call = {};
  ASSERT_TRUE(c.recent());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kKvLengths)), c.lengths.data);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kPageTable)), c.table.data);
  EXPECT_EQ(c.call.strides(Role::kPageTable).batch, 3);
  EXPECT_EQ(c.call.pages, 10);
}

TEST(CacheArgs, WhatIsNotARecentCallIsLookedAtAgain) {
  const auto found = [](void (*change)(CacheCall & c)) {
    CacheCall c;
    c.window = {9, 2};
    EXPECT_TRUE(c.make().ok());
    change(c);
    return c.recent();
  };
  EXPECT_TRUE(found([](CacheCall&) {}));
  EXPECT_FALSE(found([](CacheCall& c) { c.table.shape[1] = 2; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.table.strides[0] = 5; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.table.absent = true; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.table.dtype = kInt64; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.table.rank = 1; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.table.data = c.out.data; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.table.data += 2; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.lengths.absent = true; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.lengths.data = c.out.data; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.lengths.data = 0; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.lengths.device.device_id = 1; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.k.shape[0] = 11; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.window = {9, 3}; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.window = {8, 2}; }));
  EXPECT_FALSE(found([](CacheCall& c) { c.window = {-1, 2}; }));
}

// ---- gqa_shape

gqa_shape cache_shape() {
  static const std::int32_t window[] = {9, -1};
  gqa_shape shape = made_shape({2, 8, 48, 4, 2, 64});
  shape.causal = shape.lse = shape.cache_seqlens = 1;
  shape.page = 16;
  shape.window_size = window;
  return shape;
}

TEST(CacheArgs, AShapeSaysPagesWindowAndLengths) {
  gqa_shape shape = cache_shape();
  Problem problem;
  ASSERT_TRUE(make_problem(&shape, &problem).ok());
  EXPECT_EQ(to_text(problem), "b=2,hq=4,hk=2,sq=8,sk=48,d=64,dtype=bf16,causal,left=9,page=16,lens,lse");
  shape.size = offsetof(gqa_shape, page);  // of an earlier header
  ASSERT_TRUE(make_problem(&shape, &problem).ok());
  EXPECT_EQ(to_text(problem), "b=2,hq=4,hk=2,sq=8,sk=48,d=64,dtype=bf16,causal,lse");
}

TEST(CacheArgs, BadShapesAreRefused) {
  const auto refused = [](void (*spoil)(gqa_shape&)) { return make_spoilt(cache_shape(), spoil); };
  EXPECT_EQ(refused([](gqa_shape& s) { s.page = -1; }).code(), Code::kSize);
  EXPECT_EQ(refused([](gqa_shape& s) { s.page = std::int64_t{1} << 31; }).code(), Code::kSize);
  EXPECT_EQ(refused([](gqa_shape& s) { s.cache_seqlens = 2; }).code(), Code::kOption);
  static const std::int32_t wrong[] = {0, -2};
  const Status status = refused([](gqa_shape& s) { s.window_size = wrong; });
  EXPECT_EQ(status.code(), Code::kOption);
  EXPECT_NE(status.message().find("gqa_shape.window_size is {0, -2}"), std::string::npos) << status.message();
}

// ---- gqa_options

TEST(CacheArgs, OptionsSayWhetherCallsAreChecked) {
  gqa_options options = {}, read = {};
  options.size = sizeof(options);
  options.checked = 1;
  ASSERT_TRUE(read_options(options, &read).ok());
  EXPECT_EQ(read.checked, 1);
  options.checked = 2;
  EXPECT_NE(read_options(options, &read).message().find("gqa_options.checked is 2"), std::string::npos);
  options.size = offsetof(gqa_options, checked);  // of an earlier header
  ASSERT_TRUE(read_options(options, &read).ok());
  EXPECT_EQ(read.checked, 0);
}

// ---- packed sequences

// Three sequences: 20 queries of 4 heads, 50 keys of 2 heads.
struct PackedCall : FakeCall {
  PackedCall() : FakeCall({20, 4, 64}, {50, 2, 64}) {
    options.causal = 1;
    options.max_seqlen_q = 9;
    options.max_seqlen_k = 30;
  }
  void describe() override {
    options.lse = lse.get();
    options.cu_seqlens_q = q_packed ? q_starts.get() : nullptr;
    options.cu_seqlens_k = k_packed ? k_starts.get() : nullptr;
    options.seqused_q = with_used ? used.get() : nullptr;
  }

  TestTensor lse{5 * kApart, {4, 20}, kF32};
  TestTensor q_starts{6 * kApart, {4}, kInt32};
  TestTensor k_starts{7 * kApart, {4}, kInt32};
  TestTensor used{8 * kApart, {3}, kInt32};
  bool q_packed = true, k_packed = true, with_used = false;
};

TEST(PackedArgs, ACallIsItsSequences) {
  PackedCall c;
  c.with_used = true;
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  EXPECT_EQ(to_text(c.call.problem), "b=3,hq=4,hk=2,sq=9,sk=30,d=64,dtype=bf16,causal,packk,packq,lse");
  EXPECT_EQ(c.call.strides(Role::kQ).batch, 0);
  EXPECT_EQ(c.call.strides(Role::kK).batch, 0);
  EXPECT_EQ(c.call.strides(Role::kQ).row, 256);
  EXPECT_EQ(c.call.strides(Role::kLse).head, 20);
  EXPECT_EQ(c.call.strides(Role::kLse).row, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kQStarts)), 6 * kApart);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kKStarts)), 7 * kApart);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kQLengths)), 8 * kApart);
  // Once more, found among the recent calls: the lists are where they are now, and other maxima are another problem.
  c.q_starts.data = 9 * kApart;
  ASSERT_TRUE(c.make().ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.call.list(Role::kQStarts)), 9 * kApart);
  c.options.max_seqlen_q = 20;
  ASSERT_TRUE(c.make().ok());
  EXPECT_EQ(c.call.problem.q_len, 20);
}

TEST(PackedArgs, PackedQueriesOnABatchOfKeys) {
  PackedCall c;
  c.k_packed = false;
  c.options.max_seqlen_k = 0;
  c.k.shape = c.v.shape = {3, 50, 2, 64};
  c.k.strides = c.v.strides = {6400, 128, 64, 1};
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  EXPECT_EQ(to_text(c.call.problem), "b=3,hq=4,hk=2,sq=9,sk=50,d=64,dtype=bf16,causal,packq,lse");
  c.k.shape[0] = c.v.shape[0] = 2;
  EXPECT_EQ(c.make().message(), "k has batch 2, but cu_seqlens_q has batch 3: they must be equal");
}

TEST(PackedArgs, WithoutAKeyARowOfQAndOutStandsThereUnread) {
  PackedCall c;
  c.k.shape[0] = c.v.shape[0] = 0;
  c.k.data = c.v.data = 0;  // as a framework's empty tensors have it
  c.k.strides = {8192, 4096, 1};
  c.options.max_seqlen_k = 0;
  for (int again = 0; again < 2; ++again) {  // such a call is not remembered with its addresses
    ASSERT_TRUE(c.make().ok()) << c.make().message();
    EXPECT_EQ(to_text(c.call.problem), "b=3,hq=4,hk=2,sq=9,sk=1,d=64,dtype=bf16,causal,packk,packq,lse");
    EXPECT_EQ(c.call.at(Role::kK), c.call.at(Role::kQ));
    EXPECT_EQ(c.call.strides(Role::kK).head, c.call.strides(Role::kQ).head);
    EXPECT_EQ(c.call.at(Role::kV), c.call.to(Role::kOut));
    EXPECT_EQ(c.call.strides(Role::kV).head, c.call.strides(Role::kOut).head);
    EXPECT_EQ(c.call.k_rows, 0);
  }
  c.v.shape[0] = 5;
  EXPECT_EQ(c.make().code(), Code::kSize);
}

TEST(PackedArgs, MaximaOfNothing) {
  PackedCall c;
  c.options.max_seqlen_q = c.options.max_seqlen_k = 0;
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  EXPECT_EQ(c.call.problem.q_len, 1);
  EXPECT_EQ(c.call.problem.kv_len, 1);
}

TEST(PackedArgs, WithoutAQueryThereIsNothingToRun) {
  PackedCall c;
  c.q.shape[0] = c.out.shape[0] = 0;
  c.q.data = c.out.data = 0;
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  EXPECT_EQ(c.call.to(Role::kOut), nullptr);
  c.out.shape[1] = 3;
  EXPECT_EQ(c.make().message(), "out has q_heads 3, but q has q_heads 4: they must be equal");
  c.out.rank = 2;
  EXPECT_EQ(c.make().code(), Code::kRank);
  c.q.dtype = kInt64;
  c.out.rank = 3;
  EXPECT_EQ(c.make().code(), Code::kDtype);
}

TEST(PackedArgs, AListOfOneStartNamesNoSequence) {
  PackedCall c;
  c.q_starts.shape[0] = c.k_starts.shape[0] = 1;  // beside 20 rows of q, which are nobody's
  ASSERT_TRUE(c.make().ok()) << c.make().message();
  EXPECT_EQ(c.call.to(Role::kOut), nullptr);
  c.out.shape[0] = 19;
  EXPECT_EQ(c.make().code(), Code::kShape);
}

struct BadPackedCall {
  void (*spoil)(PackedCall& c);
  Code code;
  std::string says;
};

const BadPackedCall kBadPackedCalls[] = {
    {[](PackedCall& c) { c.options.max_seqlen_q = -1; }, Code::kSize, "gqa_call.max_seqlen_q is -1, expected 0 to"},
    {[](PackedCall& c) { c.options.max_seqlen_k = -1; }, Code::kSize, "gqa_call.max_seqlen_k is -1, expected 0 to"},
    {[](PackedCall& c) { c.k_packed = false; }, Code::kSize,
     "max_seqlen_k is 30, expected 0, since there is no cu_seqlens_k"},
    {[](PackedCall& c) { c.q_starts.shape[0] = 0; }, Code::kSize, "cu_seqlens_q's dimension 0 of (batch + 1) is 0"},
    {[](PackedCall& c) { c.k_starts.shape[0] = 3; }, Code::kShape, "cu_seqlens_k has 3 numbers, expected 4"},
    {[](PackedCall& c) { c.q_starts.dtype = kInt64; }, Code::kDtype, "cu_seqlens_q is int64, expected int32"},
    {[](PackedCall& c) {
       c.k_starts.device = {kDLCPU, 0};
     },
     Code::kDevice, "cu_seqlens_k"},
    {[](PackedCall& c) {
       c.q.shape = {1, 20, 4, 64};
     },
     Code::kRank, "q has 4 dimensions, expected 3"},
    {[](PackedCall& c) { c.q.no_shape = true; }, Code::kNullArgument, "q's shape is NULL"},
    {[](PackedCall& c) { c.v.no_shape = true; }, Code::kNullArgument, "v's shape is NULL"},
    {[](PackedCall& c) { c.lse.no_shape = true; }, Code::kNullArgument, "lse's shape is NULL"},
    {[](PackedCall& c) { c.v.rank = 2; }, Code::kRank, "v has 2 dimensions, expected 3"},
    {[](PackedCall& c) { c.lse.rank = 1; }, Code::kRank, "lse has 1 dimensions, expected 2"},
    {[](PackedCall& c) {
       c.lse.shape = {20, 4};
     },
     Code::kShape, "lse has q_heads 20"},
    {[](PackedCall& c) { c.with_used = true, c.used.shape[0] = 2; }, Code::kShape, "seqused_q has batch 2"},
    {[](PackedCall& c) { c.out.data = c.q_starts.data; }, Code::kAlias, "which overlap cu_seqlens_q"},
    {[](PackedCall& c) { c.with_used = true, c.lse.data = c.used.data; }, Code::kAlias, "which overlap seqused_q"},
};

TEST(PackedArgs, WhatIsWrongIsNamed) {
  for (const BadPackedCall& bad : kBadPackedCalls) {
    PackedCall c;
    bad.spoil(c);
    const Status status = c.make();
    EXPECT_EQ(status.code(), bad.code) << bad.says << ": " << status.message();
    EXPECT_NE(status.message().find(bad.says), std::string::npos) << bad.says << ": " << status.message();
  }
}

TEST(PackedArgs, UsedQueriesNeedAList) {
  PackedCall c;
  c.q_packed = false;
  c.options.max_seqlen_q = 0;
  c.with_used = true;
  EXPECT_EQ(c.make().message(), "seqused_q is given without cu_seqlens_q, expected both or neither");
}

}  // namespace
}  // namespace gqa::test
