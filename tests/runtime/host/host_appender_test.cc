// host_appender_test.cc: appending on the CPU: every slot, query and list of each kind of call; what attends comes
// after.
#include "runtime/host/attention/host_appender.h"

#include <gtest/gtest.h>

#include <utility>

#include "runtime/append_plan.h"
#include "tests/runtime/append_case.h"
#include "tests/runtime/new_tokens_case.h"

namespace gqa::test {
namespace {

// Looks at the cache once the rows are where they belong.
struct Looker : LoadedProgram {
  Looker(const AppendCase& then, const AppendCase& now) : before(then), after(now) {}
  Status run(const ProgramCall& call) const override {
    const Call& attended = *call.attention;
    EXPECT_EQ(attended.append, nullptr);
    EXPECT_EQ(attended.q == after.q.data(), after.kind.rotary_dim == 0) << "q is rotated into a copy";
    wrong = before.wrong(after.k, after.v, static_cast<const std::uint16_t*>(attended.q), attended.kv_lengths,
                         attended.k_starts, attended.v_starts, attended.page_table);
    return {Code::kInternal, "attended"};
  }
  const AppendCase &before, &after;
  mutable std::string wrong = "nothing attended";
};

void give_addresses(AppendCase* t) {
  Call& call = t->call;
  Append& a = t->append_;
  call.q = t->q.data();
  call.k = t->k.data();
  call.v = t->v.data();
  call.kv_lengths = t->lengths.data();
  if (t->kind.page > 0) call.page_table = t->table.data();
  if (t->kind.packed) call.q_starts = a.starts = t->starts.data();
  if (t->kind.adds) a.k = t->k_new.data();
  a.v = t->v_new.data();
  a.cos = t->cos.data();
  a.sin = t->sin.data();
  if (t->kind.own_rotary) a.rotary_starts = t->rotary_starts.data();
  if (t->kind.batch_idx) a.batch_idx = t->rows.data();
  if (t->kind.leftpad) a.leftpad = t->leftpad.data();
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
  t.append_.rows = t.kBatch * (t.append_.count = 1000);
  EXPECT_EQ(heads_and_items(), std::pair(kManyHeads, std::int64_t{t.kBatch * 2 * 1000}));
}

// Those that attention's kernel may do in its own launch.
TEST(AppendPlan, APlainAppendIsOneThatANewKeysKernelUnderstands) {
  const NewTokensLaunch run = new_tokens_launches()[1];
  const auto plain_once = [&](auto change) {
    NewTokensCase t(run);
    Call call = t.attended.call;
    alignas(16) static const std::uint16_t somewhere[16] = {};
    t.append.k = t.append.v = t.append.cos = t.append.sin = somewhere;
    call.append = &t.append;
    change(&call, &t.append, somewhere);
    return is_plain_append(call);
  };
  using Bits = std::uint16_t;
  EXPECT_TRUE(plain_once([](Call*, Append*, const Bits*) {}));
  EXPECT_TRUE(plain_once([](Call*, Append* a, const Bits*) { a->count = 1; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits*) { a->count = 4; }))
      << "a row tile would not reach them all";
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits*) { a->count = 0; }));
  EXPECT_FALSE(plain_once([](Call* c, Append* a, const Bits*) { a->starts = c->kv_lengths; }));
  EXPECT_FALSE(plain_once([](Call* c, Append* a, const Bits*) { a->batch_idx = c->kv_lengths; }));
  EXPECT_FALSE(plain_once([](Call* c, Append* a, const Bits*) { a->leftpad = c->kv_lengths; }));
  EXPECT_FALSE(plain_once([](Call* c, Append*, const Bits*) { c->problem.q_lengths = Lengths::kPacked; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits* at) { a->k = at + 1; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits* at) { a->v = at + 1; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits* at) { a->cos = at + 1; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits* at) { a->sin = at + 1; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits*) { a->k_strides.batch += 4; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits*) { a->v_strides.head += 4; }));
  EXPECT_FALSE(plain_once([](Call*, Append* a, const Bits*) { a->sin_stride += 4; }));
}

}  // namespace
}  // namespace gqa::test
