// args_test.cc: each kind of bad input has its status and a message that names what was given and what was expected;
// what is good is accepted as it lies in memory.
#include "runtime/api/args/args.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "runtime/api/tensors/dtype.h"
#include "search/problem/signature.h"
#include "tests/runtime/api/args/fake_call.h"
#include "tests/runtime/api/made_shape.h"

namespace gqa::test {
namespace {

// A good call: batch 2, 8 queries of 4 heads, 16 keys of 2 heads, head dims 64.
struct Args : FakeCall {
  Args() : FakeCall({2, 8, 4, 64}, {2, 16, 2, 64}) {}
  void describe() override {
    if (with_lse) options.lse = lse.get();
  }

  TestTensor lse{5 * kApart, {2, 4, 8}, kF32};
  bool with_lse = false;
};

struct Bad {
  const char* name;
  void (*spoil)(Args& args);
  Code code;
  std::vector<std::string> says;
};

void use_lse(Args& args) { args.with_lse = true; }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

const Bad kBad[] = {
    {"q_null", [](Args& a) { a.q.absent = true; }, Code::kNullArgument, {"q is NULL", "(batch, q_len"}},
    {"out_null", [](Args& a) { a.out.absent = true; }, Code::kNullArgument, {"out is NULL"}},
    {"k_shape_null", [](Args& a) { a.k.no_shape = true; }, Code::kNullArgument, {"k's shape is NULL"}},
    {"v_data_null", [](Args& a) { a.v.data = 0; }, Code::kNullArgument, {"v's data is NULL"}},
    {"call_size_zero",
     [](Args& a) { a.options.size = 0; },
     Code::kStructSize,
     {"size is 0", std::to_string(sizeof(gqa_call))}},
    {"call_size_wild", [](Args& a) { a.options.size = 1u << 20; }, Code::kStructSize, {"1048576"}},
    {"q_rank_3", [](Args& a) { a.q.rank = 3; }, Code::kRank, {"q has 3 dimensions", "expected 4"}},
    {"v_rank_0", [](Args& a) { a.v.rank = 0; }, Code::kRank, {"v has 0 dimensions", "expected 4"}},
    {"k_rank_wild", [](Args& a) { a.k.rank = 1 << 30; }, Code::kRank, {"1073741824"}},
    {"lse_rank_4", [](Args& a) { use_lse(a), a.lse.rank = 4; }, Code::kRank, {"lse has 4", "expected 3"}},
    {"q_float64",
     [](Args& a) { a.q.dtype.code = kDLFloat, a.q.dtype.bits = 64; },
     Code::kDtype,
     {"q is float64, expected float32, float16 or bfloat16: cast it"}},
    {"q_lanes", [](Args& a) { a.q.dtype.lanes = 2; }, Code::kDtype, {"bfloat16x2"}},
    {"q_no_lanes", [](Args& a) { a.q.dtype.lanes = 0; }, Code::kDtype, {"bfloat16x0"}},
    {"q_unknown_code", [](Args& a) { a.q.dtype.code = 200; }, Code::kDtype, {"200"}},
    {"k_other_dtype",
     [](Args& a) { a.k.dtype = kF16; },
     Code::kDtype,
     {"k is float16, but q is bfloat16: cast k to bfloat16"}},
    {"out_other_dtype",
     [](Args& a) { a.out.dtype = kF32; },
     Code::kDtype,
     {"out is float32, but q is bfloat16: cast out to bfloat16"}},
    {"lse_half",
     [](Args& a) { use_lse(a), a.lse.dtype = kF16; },
     Code::kDtype,
     {"lse is float16, expected float32: cast lse to float32"}},
    {"k_on_cpu",
     [](Args& a) {
       a.k.device = {kDLCPU, 0};
     },
     Code::kDevice,
     {"k is on the CPU", "cuda:0"}},
    {"v_other_gpu",
     [](Args& a) {
       a.v.device = {kDLCUDA, 1};
     },
     Code::kDevice,
     {"v is on cuda:1", "cuda:0"}},
    {"k_batch_zero", [](Args& a) { a.k.shape[0] = 0; }, Code::kSize, {"k's dimension 0", "is 0", "1 to"}},
    {"no_query_but_an_out", [](Args& a) { a.q.shape[0] = 0; }, Code::kShape, {"out has batch 2", "q has batch 0"}},
    {"no_query_on_the_cpu",
     [](Args& a) {
       a.q.shape[1] = a.out.shape[1] = 0, a.q.device = {kDLCPU, 0};
     },
     Code::kDevice,
     {"q is on the CPU"}},
    {"kv_len_negative", [](Args& a) { a.k.shape[1] = -7; }, Code::kSize, {"is -7"}},
    {"q_len_huge", [](Args& a) { a.q.shape[1] = kHuge; }, Code::kSize, {std::to_string(kHuge)}},
    {"stride_overflows", [](Args& a) { a.q.strides[0] = kHuge; }, Code::kSize, {"q's sizes times strides"}},
    {"stride_underflows", [](Args& a) { a.q.strides[0] = -kHuge - 1; }, Code::kSize, {"q's sizes times strides"}},
    {"offset_wraps",
     [](Args& a) { a.q.byte_offset = ~std::uint64_t{0} - 255; },
     Code::kSize,
     {"do not fit an address"}},
    {"too_large",
     [](Args& a) {
       for (TestTensor* t : {&a.q, &a.out}) t->shape[1] = 1 << 30, t->shape[0] = 1 << 0;
       a.k.shape[0] = a.v.shape[0] = 1;
       for (TestTensor* t : {&a.q, &a.out}) t->shape[2] = 1 << 14, t->strides = {0, 1 << 20, 64, 1};
       a.k.data = 0x7000000000000000, a.v.data = 0x7100000000000000;
       a.q.data = 0x100000000000000, a.out.data = 0x200000000000000;
     },
     Code::kSize,
     {"1073741824"}},
    {"k_batch", [](Args& a) { a.k.shape[0] = 3; }, Code::kShape, {"k has batch 3", "q has batch 2"}},
    {"v_batch", [](Args& a) { a.v.shape[0] = 1; }, Code::kShape, {"v has batch 1", "q has batch 2"}},
    {"v_len", [](Args& a) { a.v.shape[1] = 15; }, Code::kShape, {"v has kv_len 15", "k has kv_len 16"}},
    {"v_heads", [](Args& a) { a.v.shape[2] = 1; }, Code::kShape, {"v has kv_heads 1", "k has kv_heads 2"}},
    {"k_head_dim", [](Args& a) { a.k.shape[3] = 32; }, Code::kShape, {"k has head_dim 32", "q has head_dim 64"}},
    {"out_len", [](Args& a) { a.out.shape[1] = 9; }, Code::kShape, {"out has q_len 9", "q has q_len 8"}},
    {"out_heads", [](Args& a) { a.out.shape[2] = 3; }, Code::kShape, {"out has q_heads 3", "q has q_heads 4"}},
    {"out_batch", [](Args& a) { a.out.shape[0] = 1; }, Code::kShape, {"out has batch 1", "q has batch 2"}},
    {"out_head_dim",
     [](Args& a) { a.out.shape[3] = 32; },
     Code::kShape,
     {"out has head_dim_v 32", "v has head_dim_v 64"}},
    {"lse_len", [](Args& a) { use_lse(a), a.lse.shape[2] = 7; }, Code::kShape, {"lse has q_len 7", "q has q_len 8"}},
    {"lse_order",
     [](Args& a) {
       use_lse(a), a.lse.shape = {2, 8, 4};
     },
     Code::kShape,
     {"lse has q_heads 8"}},
    {"heads", [](Args& a) { a.k.shape[2] = a.v.shape[2] = 3; }, Code::kHeads, {"kv_heads 3", "q_heads 4", "multiple"}},
    {"more_kv_heads", [](Args& a) { a.k.shape[2] = a.v.shape[2] = 8; }, Code::kHeads, {"kv_heads 8", "q_heads 4"}},
    {"head_dim",
     [](Args& a) {
       for (TestTensor* t : {&a.q, &a.k})
         t->shape[3] = 72, t->strides[2] = 128, t->strides[1] = 512, t->strides[0] = 8192;
     },
     Code::kHeadDim,
     {"72", "64"}},
    {"head_dim_v",
     [](Args& a) {
       for (TestTensor* t : {&a.v, &a.out}) t->shape[3] = 24;
     },
     Code::kHeadDim,
     {"head_dim_v is 24"}},
    {"last_stride_2", [](Args& a) { a.k.strides[3] = 2; }, Code::kStride, {"k's last stride is 2", "expected 1"}},
    {"last_stride_0", [](Args& a) { a.q.strides[3] = 0; }, Code::kStride, {"q's last stride is 0"}},
    {"out_stride_0", [](Args& a) { a.out.strides[0] = 0; }, Code::kStride, {"out overlaps itself", "(0,"}},
    {"out_heads_overlap", [](Args& a) { a.out.strides[2] = 63; }, Code::kStride, {"out overlaps itself", "63"}},
    {"lse_stride_0", [](Args& a) { use_lse(a), a.lse.strides[2] = 0; }, Code::kStride, {"lse overlaps itself"}},
    {"odd_pointer",
     [](Args& a) { a.v.data += 1; },
     Code::kAlignment,
     {"v's data plus byte_offset is 0xc0000001", "2 bytes"}},
    {"odd_offset", [](Args& a) { a.q.byte_offset = 3; }, Code::kAlignment, {"0x40000003"}},
    {"lse_pointer", [](Args& a) { use_lse(a), a.lse.data += 2; }, Code::kAlignment, {"lse's", "4 bytes"}},
    {"out_is_q", [](Args& a) { a.out.data = a.q.data; }, Code::kAlias, {"out touches bytes [0x40000000", "q's"}},
    {"out_meets_last_of_k", [](Args& a) { a.out.data = a.k.data + 2 * (2 * 16 * 2 * 64) - 2; }, Code::kAlias, {"k's"}},
    {"out_ends_in_v", [](Args& a) { a.out.data = a.v.data - 2 * (2 * 8 * 4 * 64) + 2; }, Code::kAlias, {"v's"}},
    {"out_under_reversed_q",
     [](Args& a) {
       a.q.strides[1] = -a.q.strides[1];
       a.out.data = a.q.data - 256;
       a.out.shape = {2, 8, 4, 64};
     },
     Code::kAlias,
     {"q's"}},
    {"lse_is_out", [](Args& a) { use_lse(a), a.lse.data = a.out.data; }, Code::kAlias, {"lse touches", "out's"}},
    {"lse_in_k", [](Args& a) { use_lse(a), a.lse.data = a.k.data + 64; }, Code::kAlias, {"lse touches", "k's"}},
    {"scale_nan", [](Args& a) { a.options.scale = kNan; }, Code::kOption, {"scale is nan"}},
    {"scale_infinite", [](Args& a) { a.options.scale = kInf; }, Code::kOption, {"scale is inf"}},
    {"scale_subnormal",
     [](Args& a) { a.options.scale = 1e-40F; },
     Code::kOption,
     {"gqa_call.scale is ", "at least 1.17549e-38"}},
    {"scale_negative", [](Args& a) { a.options.scale = -0.5f; }, Code::kOption, {"scale is -0.5"}},
    {"causal_2", [](Args& a) { a.options.causal = 2; }, Code::kOption, {"causal is 2", "0 or 1"}},
};

class BadArgument : public ::testing::TestWithParam<Bad> {};

TEST_P(BadArgument, IsRefusedWithItsStatusAndBothValues) {
  Args args;
  ASSERT_TRUE(args.make().ok());
  GetParam().spoil(args);
  const Status status = args.make();
  EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(GetParam().code)) << status.message();
  for (const std::string& part : GetParam().says) {
    EXPECT_NE(status.message().find(part), std::string::npos) << "expected '" << part << "' in: " << status.message();
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadArgument, ::testing::ValuesIn(kBad),
                         [](const ::testing::TestParamInfo<Bad>& tested) { return tested.param.name; });

TEST(Args, DtypesAreCalledWhatTheyAre) {
  EXPECT_EQ(dtype_text({6, 8, 1}), "bool");
  EXPECT_EQ(dtype_text({10, 8, 1}), "float8_e4m3fn");
  EXPECT_EQ(dtype_text({12, 8, 1}), "float8_e5m2");
  EXPECT_EQ(dtype_text({17, 4, 2}), "float4_e2m1fnx2");
  EXPECT_EQ(dtype_text({kDLBfloat, 16, 1}), "bfloat16");
  EXPECT_EQ(dtype_text({99, 8, 1}), "dtype code 99, bits 8");
}

TEST(Args, AGoodCallIsReadAsItLies) {
  Args args;
  args.options.causal = 1;
  args.options.stream = &args;
  args.with_lse = true;
  args.q.byte_offset = 32;
  args.lse.strides = {100, 9, 1};
  const Status status = args.make();
  ASSERT_TRUE(status.ok()) << status.message();
  const Call& call = args.call;
  EXPECT_EQ(to_text(call.problem), "b=2,hq=4,hk=2,sq=8,sk=16,d=64,dtype=bf16,causal,lse");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(call.at(Role::kQ)), kApart + 32);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(call.to(Role::kOut)), 4 * kApart);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(call.to<float>(Role::kLse)), 5 * kApart);
  EXPECT_EQ(call.strides(Role::kK).batch, 2048);
  EXPECT_EQ(call.strides(Role::kK).row, 128);
  EXPECT_EQ(call.strides(Role::kK).head, 64);
  EXPECT_EQ(call.strides(Role::kLse).batch, 100);
  EXPECT_EQ(call.strides(Role::kLse).head, 9);
  EXPECT_EQ(call.strides(Role::kLse).row, 1);
  EXPECT_FLOAT_EQ(call.scale, 0.125f);
  EXPECT_EQ(call.stream, &args);
}

TEST(Args, LogSumExpIsAskedForExactlyWhereATensorIsGiven) {
  Args args;
  for (const bool given : {true, false, true}) {  // whatever the call was before
    args.with_lse = given;
    args.options.lse = nullptr;
    ASSERT_TRUE(args.make().ok());
    EXPECT_EQ(args.call.problem.lse, given);
    EXPECT_EQ(args.call.has(Role::kLse), given);
    EXPECT_EQ(Signature(args.call.problem).problem().lse, given);
  }
  FakeWorld world;
  ASSERT_TRUE(
      make_call(FakeDevice(&world), args.q.get(), args.k.get(), args.v.get(), args.out.get(), nullptr, &args.call)
          .ok());
  EXPECT_FALSE(args.call.problem.lse);
}

// What a call that does not append would fill is not even made: most calls are such, and pay for each byte.
TEST(Args, AnAppendIsMadeForCallsThatAppendOnly) {
  constexpr DLDataType kI32 = {kDLInt, 32, 1};
  Args args;
  TestTensor fresh(6 * kApart, {2, 3, 2, 64}), lengths(7 * kApart, {2}, kI32);
  args.options.cache_seqlens = lengths.get();
  FakeWorld world;
  const FakeDevice device(&world);
  for (const bool appends : {false, true}) {
    args.options.k_new = args.options.v_new = appends ? fresh.get() : nullptr;
    Call call;
    const Status status =
        make_call(device, args.q.get(), args.k.get(), args.v.get(), args.out.get(), &args.options, &call);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(call.appends(), appends);
  }
}

TEST(Args, NoStridesMeansCompact) {
  Args with, without;
  for (TestTensor* tensor : {&without.q, &without.k, &without.v, &without.out}) tensor->no_strides = true;
  ASSERT_TRUE(with.make().ok());
  ASSERT_TRUE(without.make().ok());
  EXPECT_EQ(with.call.strides(Role::kQ).batch, without.call.strides(Role::kQ).batch);
  EXPECT_EQ(with.call.strides(Role::kV).row, without.call.strides(Role::kV).row);
  EXPECT_EQ(with.call.strides(Role::kOut).head, without.call.strides(Role::kOut).head);
}

TEST(Args, HeadsFirstIsJustOtherStrides) {
  Args args;
  args.q.strides = args.out.strides = {4 * 8 * 64, 64, 8 * 64, 1};
  const Status status = args.make();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(args.call.strides(Role::kOut).head, 512);
  EXPECT_EQ(args.call.problem.align, 16);
}

TEST(Args, SlicesOfOneFusedBufferAreApart) {
  Args args;  // (batch, length, q heads + k heads + v heads, dim), lengths equal
  args.q.shape[1] = args.out.shape[1] = 16;
  args.out = TestTensor(4 * kApart, {2, 16, 4, 64});
  for (TestTensor* tensor : {&args.q, &args.k, &args.v}) tensor->strides = {16 * 8 * 64, 8 * 64, 64, 1};
  args.k.data = args.q.data + 2 * 4 * 64;
  args.v.data = args.q.data + 2 * 6 * 64;
  const Status status = args.make();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Args, KeysMayBeSharedByAllOfABatch) {
  Args args;
  args.k.strides[0] = args.v.strides[0] = 0;
  EXPECT_TRUE(args.make().ok());
  args.v.data = args.k.data;
  EXPECT_TRUE(args.make().ok());
}

TEST(Args, NeighboursThatOnlyTouchAreApart) {
  Args args;
  args.out.data = args.q.data + 2 * (2 * 8 * 4 * 64);
  EXPECT_TRUE(args.make().ok());
  args.out.data = args.q.data - 2 * (2 * 8 * 4 * 64);
  EXPECT_TRUE(args.make().ok());
}

TEST(Args, AStrideOfADimensionOfOneMeansNothing) {
  Args args;
  args.q = TestTensor(kApart, {1, 8, 4, 64});
  args.k = TestTensor(2 * kApart, {1, 16, 2, 64});
  args.v = TestTensor(3 * kApart, {1, 16, 2, 64});
  args.out = TestTensor(4 * kApart, {1, 8, 4, 64});
  args.q.strides[0] = 3;
  args.out.strides[0] = 0;
  args.k.strides[0] = kHuge;
  const Status status = args.make();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(args.call.problem.align, 16);
  EXPECT_EQ(args.call.strides(Role::kK).batch, 0);
}

TEST(Args, RowsThatStartOffSixteenBytesAreHandledElementByElement) {
  const auto align = [](void (*shift)(Args&)) {
    Args args;
    shift(args);
    const Status status = args.make();
    EXPECT_TRUE(status.ok()) << status.message();
    return args.call.problem.align;
  };
  EXPECT_EQ(align([](Args&) {}), 16);
  EXPECT_EQ(align([](Args& a) { a.q.data += 2; }), 2);
  EXPECT_EQ(align([](Args& a) { a.out.byte_offset = 8; }), 2);
  EXPECT_EQ(align([](Args& a) { a.k.strides = {16 * 132, 132, 66, 1}; }), 2);
  EXPECT_EQ(align([](Args& a) { a.v.strides[0] += 4; }), 2);
  EXPECT_EQ(align([](Args& a) { a.v.strides[0] += 8; }), 16);
  EXPECT_EQ(align([](Args& a) { a.with_lse = true, a.lse.data += 4; }), 16);  // lse is written one by one anyway
}

TEST(Args, StridesThatNoTensorMapCanExpressAreSaidSo) {
  const auto tma = [](void (*change)(Args&)) {
    Args args;
    change(args);
    const Status status = args.make();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(Signature(args.call.problem).problem().tma, args.call.problem.tma);
    return args.call.problem.tma;
  };
  constexpr std::int64_t kReach = std::int64_t{1} << 40;    // bytes
  constexpr std::uintptr_t kFar = std::uintptr_t{1} << 45;  // past the other tensors
  EXPECT_TRUE(tma([](Args&) {}));
  EXPECT_TRUE(tma([](Args& a) { a.q.strides = a.out.strides = {4 * 8 * 64, 64, 8 * 64, 1}; }));  // heads first
  EXPECT_TRUE(tma([](Args& a) { a.v.strides[0] += 8; }));
  EXPECT_TRUE(tma([](Args& a) { a.k.data = kFar, a.k.strides[0] = kReach / 2 - 8; }));
  EXPECT_FALSE(tma([](Args& a) { a.k.data = kFar, a.k.strides[0] = kReach / 2; }));
  EXPECT_TRUE(tma([](Args& a) { a.k.strides[0] = 0; }));                                        // shared by a batch
  EXPECT_TRUE(tma([](Args& a) { a.v.strides[2] = 0; }));                                        // by heads
  EXPECT_TRUE(tma([](Args& a) { a.q.strides[1] = 0; }));                                        // by rows
  EXPECT_FALSE(tma([](Args& a) { a.k.strides[1] *= -1, a.k.byte_offset = 2 * 2 * 64 * 15; }));  // backwards
  EXPECT_TRUE(tma([](Args& a) {
    a.k.shape[0] = a.v.shape[0] = a.q.shape[0] = a.out.shape[0] = 1,  // means nothing
        a.k.strides[0] = 0;
  }));
  // Rows off 16 bytes are one kind of call, whatever their strides.
  EXPECT_FALSE(tma([](Args& a) { a.q.data += 2; }));
  Args aligned_strides, backwards;
  aligned_strides.q.data += 2;
  backwards.q.data += 2;
  backwards.k.strides[1] *= -1, backwards.k.byte_offset = 2 * 2 * 64 * 15;
  ASSERT_TRUE(aligned_strides.make().ok());
  ASSERT_TRUE(backwards.make().ok());
  EXPECT_EQ(aligned_strides.call.problem, backwards.call.problem);
}

TEST(Args, ALargerStructIsFineWhileWhatIsUnknownIsZero) {
  struct Later {
    gqa_call known;
    std::uint64_t fresh = 0;
  } later = {};
  later.known.size = sizeof(Later);
  later.known.causal = 1;
  Args args;
  FakeWorld world;
  const FakeDevice device(&world);
  const auto make = [&] {
    return make_call(device, args.q.get(), args.k.get(), args.v.get(), args.out.get(), &later.known, &args.call);
  };
  EXPECT_TRUE(make().ok());
  EXPECT_TRUE(args.call.problem.causal());
  later.fresh = 1;
  const Status status = make();
  EXPECT_EQ(status.code(), Code::kStructSize);
  EXPECT_NE(status.message().find("does not know"), std::string::npos);
}

TEST(Args, EveryArgumentStatusHasATestOfItsOwn) {
  std::vector<int> seen;
  for (const Bad& bad : kBad) seen.push_back(static_cast<int>(bad.code));
  for (int code = GQA_ERROR_NULL_ARGUMENT; code <= GQA_ERROR_OPTION; ++code) {
    EXPECT_NE(std::count(seen.begin(), seen.end(), code), 0) << "status " << code;
  }
}

// ---- gqa_shape and gqa_options

gqa_shape good_shape() {
  gqa_shape shape = made_shape({2, 8, 16, 4, 2, 192}, kF16);
  shape.head_dim_v = 128;
  shape.causal = 1;
  return shape;
}

TEST(Shape, BecomesAProblem) {
  const gqa_shape shape = good_shape();
  Problem problem;
  ASSERT_TRUE(make_problem(&shape, &problem).ok());
  EXPECT_EQ(to_text(problem), "b=2,hq=4,hk=2,sq=8,sk=16,d=192,dv=128,dtype=f16,causal");
  gqa_shape same = shape;
  same.head_dim_v = 0;
  ASSERT_TRUE(make_problem(&same, &problem).ok());
  EXPECT_EQ(problem.head_dim_v, 192);
}

TEST(Shape, SaysWhetherCallsAskForLogSumExp) {
  gqa_shape shape = good_shape();
  Problem problem;
  shape.lse = 1;
  ASSERT_TRUE(make_problem(&shape, &problem).ok());
  EXPECT_TRUE(problem.lse);
  // As an earlier header has it: what follows is not part of it.
  shape.size = offsetof(gqa_shape, lse);
  shape.lse = 7;
  const Status status = make_problem(&shape, &problem);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(to_text(problem), "b=2,hq=4,hk=2,sq=8,sk=16,d=192,dv=128,dtype=f16,causal");
}

// As gqa_call asks for it where tensors lie so.
TEST(Shape, SaysHowRowsLie) {
  const auto layout = [](int align, int notma) {
    gqa_shape shape = good_shape();
    shape.align = align;
    shape.notma = notma;
    Problem problem;
    EXPECT_TRUE(make_problem(&shape, &problem).ok());
    return std::pair(static_cast<int>(problem.align), problem.tma);
  };
  EXPECT_EQ(layout(0, 0), std::pair(16, true));
  EXPECT_EQ(layout(16, 1), std::pair(16, false));
  EXPECT_EQ(layout(2, 0), std::pair(2, false));
  // As the header before it has it, which ends in whole words.
  gqa_shape shape = good_shape();
  shape.align = 7;
  shape.size = (offsetof(gqa_shape, align) + 7) / 8 * 8;
  Problem problem;
  ASSERT_TRUE(make_problem(&shape, &problem).ok());
  EXPECT_EQ(problem.align, 16);
}

TEST(Shape, BadOnesAreRefused) {
  const auto refused = [](void (*spoil)(gqa_shape&)) { return make_spoilt(good_shape(), spoil).code(); };
  EXPECT_EQ(refused([](gqa_shape& s) { s.size = 8; }), Code::kStructSize);
  EXPECT_EQ(refused([](gqa_shape& s) { s.dtype = {kDLFloat, 64, 1}; }), Code::kDtype);
  EXPECT_EQ(refused([](gqa_shape& s) { s.causal = -1; }), Code::kOption);
  EXPECT_EQ(refused([](gqa_shape& s) { s.lse = 2; }), Code::kOption);
  EXPECT_EQ(refused([](gqa_shape& s) { s.sink = 2; }), Code::kOption);
  EXPECT_EQ(refused([](gqa_shape& s) { s.align = 4; }), Code::kOption);
  EXPECT_EQ(refused([](gqa_shape& s) { s.notma = 2; }), Code::kOption);
  EXPECT_EQ(refused([](gqa_shape& s) { s.batch = 0; }), Code::kSize);
  EXPECT_EQ(refused([](gqa_shape& s) { s.kv_len = kHuge; }), Code::kSize);
  EXPECT_EQ(refused([](gqa_shape& s) { s.head_dim_v = -1; }), Code::kSize);
  EXPECT_EQ(refused([](gqa_shape& s) { s.head_dim = 100; }), Code::kHeadDim);
  EXPECT_EQ(refused([](gqa_shape& s) { s.kv_heads = 3; }), Code::kHeads);
  EXPECT_EQ(make_problem(nullptr, nullptr).code(), Code::kNullArgument);
}

TEST(Options, BadOnesAreRefusedByName) {
  const auto message = [](void (*spoil)(gqa_options&)) {
    gqa_options options = {}, read;
    options.size = sizeof(options);
    EXPECT_TRUE(read_options(options, &read).ok());
    spoil(options);
    const Status status = read_options(options, &read);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  EXPECT_NE(message([](gqa_options& o) { o.size = 1; }).find("size is 1"), std::string::npos);
  EXPECT_NE(message([](gqa_options& o) { o.cache_mode = static_cast<gqa_cache_mode>(3); }).find("cache_mode is 3"),
            std::string::npos);
  EXPECT_NE(message([](gqa_options& o) { o.tuning = static_cast<gqa_tuning>(3); }).find("tuning is 3"),
            std::string::npos);
  EXPECT_NE(message([](gqa_options& o) { o.tuning_budget = -1; }).find("tuning_budget is -1"), std::string::npos);
  EXPECT_NE(message([](gqa_options& o) { o.tuning_budget = kNan; }).find("tuning_budget is nan"), std::string::npos);
  EXPECT_NE(message([](gqa_options& o) { o.threads = -2; }).find("threads is -2"), std::string::npos);
}

}  // namespace
}  // namespace gqa::test
