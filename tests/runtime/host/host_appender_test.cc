// host_appender_test.cc: appending on the CPU: every slot, query and list of each kind of call; what attends comes
// after.
#include "runtime/host/attention/host_appender.h"

#include <gtest/gtest.h>

#include <utility>

#include "runtime/call/append_plan.h"
#include "tests/runtime/append_case.h"
#include "tests/runtime/new_tokens_case.h"

namespace gqa::test {
namespace {

// Looks at the cache once the rows are where they belong.
struct Looker : LoadedProgram {
  Looker(const AppendCase& then, const AppendCase& now) : before(then), after(now) {}
  Status run(const ProgramCall& call) const override {
    const Call& attended = *call.attention;
    EXPECT_FALSE(attended.appends());
    EXPECT_EQ(attended.at(Role::kQ) == after.q.data(), after.kind.rotary_dim == 0) << "q is rotated into a copy";
    wrong = before.wrong(after.k, after.v, attended.at<std::uint16_t>(Role::kQ), attended.list(Role::kKvLengths),
                         attended.list(Role::kKStarts), attended.v_starts, attended.list(Role::kPageTable));
    return {Code::kInternal, "attended"};
  }
  const AppendCase &before, &after;
  mutable std::string wrong = "nothing attended";
};

void give_addresses(AppendCase* t) {
  Call& call = t->call;
  call.place(Role::kQ, t->q.data());
  call.place(Role::kK, t->k.data());
  call.place(Role::kV, t->v.data());
  call.place(Role::kKvLengths, t->lengths.data());
  if (t->kind.page > 0) call.place(Role::kPageTable, t->table.data());
  if (t->kind.packed) call.place(Role::kQStarts, t->starts.data());
  if (t->kind.packed) call.place(Role::kNewStarts, t->starts.data());
  if (t->kind.adds) call.place(Role::kNewK, t->k_new.data());
  call.place(Role::kNewV, t->v_new.data());
  call.place(Role::kCos, t->cos.data());
  call.place(Role::kSin, t->sin.data());
  if (t->kind.own_rotary) call.place(Role::kRotaryStarts, t->rotary_starts.data());
  if (t->kind.batch_idx) call.place(Role::kBatchIdx, t->rows.data());
  if (t->kind.leftpad) call.place(Role::kLeftpad, t->leftpad.data());
}

TEST(HostAppender, PutsEveryRowWhereItBelongsAndThenAttends) {
  for (const AppendKind& kind : append_kinds()) {
    const AppendCase before(kind);
    AppendCase t(kind);
    give_addresses(&t);
    const Looker program(before, t);
    EXPECT_EQ(HostAppender(2).run(t.call, program).message(), "attended");
    EXPECT_EQ(program.wrong, "");
  }
}

// Each item is a warp's on a GPU, and a thread's here.
TEST(AppendPlan, WarpsTakeAllHeadsOfARowWhereRowsAreMany) {
  AppendCase t(append_kinds()[1]);
  give_addresses(&t);
  const auto heads_and_items = [&] {
    std::vector<char> between(static_cast<std::size_t>(append_bytes(t.call)));
    const AppendParams p = append_params(t.call, between.data());
    return std::pair(p.warp_heads, append_items(p));
  };
  const int groups = (t.kQHeads + 3) / 4 + (t.kKvHeads + 3) / 4;
  EXPECT_EQ(heads_and_items(), std::pair(kFewHeads, std::int64_t{t.kBatch * 3 * groups}));
  t.call.problem.q_len = 1000;
  t.call.append.rows = t.kBatch * (t.call.append.count = 1000);
  EXPECT_EQ(heads_and_items(), std::pair(kManyHeads, std::int64_t{t.kBatch * 2 * 1000}));
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
