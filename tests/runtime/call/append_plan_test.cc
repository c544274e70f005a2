// append_plan_test.cc: how a call that appends becomes one launch or two, and how the first shares its rows out.
#include "runtime/call/append_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/verify/append_case.h"
#include "runtime/verify/host_memory.h"
#include "tests/runtime/new_tokens_case.h"

namespace gqa::test {
namespace {

// Each item is a warp's on a GPU, and a thread's here.
TEST(AppendPlan, WarpsTakeAllHeadsOfARowWhereRowsAreMany) {
  const auto heads_and_items = [&](const AppendKind& kind) {
    AppendCase t(kind);
    HostMemory memory;
    EXPECT_TRUE(t.place(&memory).ok());
    std::vector<char> between(static_cast<std::size_t>(append_bytes(t.call())));
    const AppendParams p = append_params(t.call(), between.data());
    return std::pair(p.warp_heads, append_items(p));
  };
  const auto kinds = append_kinds();
  const auto first = std::find_if(kinds.begin(), kinds.end(), [](const AppendKind& kind) { return kind.many_rows; });
  ASSERT_NE(first, kinds.end());
  const AppendKind few = kinds[1], many = *first;
  ASSERT_TRUE(many.rotary_dim > 0 && !few.many_rows);
  const AppendSizes sizes(few), large(many);
  const int groups = (sizes.q_heads + 3) / 4 + (sizes.kv_heads + 3) / 4;
  EXPECT_EQ(heads_and_items(few), std::pair(kFewHeads, std::int64_t{sizes.batch * sizes.queries * groups}));
  EXPECT_EQ(heads_and_items(many), std::pair(kManyHeads, std::int64_t{large.batch} * large.queries * 2));
}

// Those that attention's kernel may do in its own launch.
TEST(AppendPlan, APlainAppendIsOneThatANewKeysKernelUnderstands) {
  const NewTokensLaunch run = new_tokens_launches()[1];
  const auto plain_once = [&](auto change) {
    NewTokensCase t(run);
    Call call = t.call;
    alignas(16) static const std::uint16_t somewhere[16] = {};
    for (const Role role : {Role::kNewK, Role::kNewV, Role::kCos, Role::kSin}) call.place(role, somewhere);
    change(&call, somewhere);
    return is_plain_append(call);
  };
  using Bits = std::uint16_t;
  EXPECT_TRUE(plain_once([](Call*, const Bits*) {}));
  EXPECT_TRUE(plain_once([](Call* c, const Bits*) { c->append.count = 1; }));
  EXPECT_FALSE(plain_once([](Call* c, const Bits*) { c->append.count = 4; })) << "a row tile would not reach them all";
  EXPECT_FALSE(plain_once([](Call* c, const Bits*) { c->append.count = 0; }));
  for (const Role list : {Role::kNewStarts, Role::kBatchIdx, Role::kLeftpad})
    EXPECT_FALSE(plain_once([=](Call* c, const Bits*) { c->place(list, c->list(Role::kKvLengths)); }));
  EXPECT_FALSE(plain_once([](Call* c, const Bits*) { c->problem.q_lengths = Lengths::kPacked; }));
  for (const Role rows : {Role::kNewK, Role::kNewV, Role::kCos, Role::kSin})
    EXPECT_FALSE(plain_once([=](Call* c, const Bits* at) { c->place(rows, at + 1); }));
  EXPECT_FALSE(plain_once([](Call* c, const Bits*) { c->strides(Role::kNewK).batch += 4; }));
  EXPECT_FALSE(plain_once([](Call* c, const Bits*) { c->strides(Role::kNewV).head += 4; }));
  EXPECT_FALSE(plain_once([](Call* c, const Bits*) { c->strides(Role::kSin).row += 4; }));
}

}  // namespace
}  // namespace gqa::test
