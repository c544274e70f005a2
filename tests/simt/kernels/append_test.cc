// The kernel that appends to a cache, run on the CPU: every slot, query and list of each kind of call; and faults
// planted in it, each of which must be seen.
#include <gtest/gtest.h>

#include "tests/runtime/append_case.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

using test::AppendCase;
using test::AppendKind;

constexpr const char *kKernel = "append/append.cuh", *kRows = "append/head_rows.cuh";
constexpr const char *kRules = "append/append_params.h", *kTokens = "append/new_tokens.h";

KernelText kernel_text(const std::string& header = "", const std::string& from = "", const std::string& to = "") {
  return {append_source(), planted(header, from, to), kAppendEntryPoint};
}

// Once the call says what it has.
std::size_t bytes_between(AppendCase* t) {
  if (t->kind.batch_idx) t->call.place(Role::kBatchIdx, t->rows.data());
  if (t->kind.leftpad) t->call.place(Role::kLeftpad, t->leftpad.data());
  return static_cast<std::size_t>(append_bytes(t->call));
}

// A case's memory, guarded.
struct Guarded {
  explicit Guarded(AppendCase* t)
      : q("q", t->q),
        k("k", t->k),
        v("v", t->v),
        k_new("k_new", t->k_new),
        v_new("v_new", t->v_new),
        cos("cos", t->cos),
        sin("sin", t->sin),
        lengths("lengths", t->lengths),
        rows("rows", t->rows),
        leftpad("leftpad", t->leftpad),
        starts("starts", t->starts),
        rotary_starts("rotary_starts", t->rotary_starts),
        table("table", t->table.empty() ? std::vector<int>{0} : t->table),
        between("between", bytes_between(t)) {
    Call& call = t->call;
    call.place(Role::kQ, q.data());
    call.place(Role::kK, k.data());
    call.place(Role::kV, v.data());
    call.place(Role::kKvLengths, lengths.as<int>());
    if (t->kind.page > 0) call.place(Role::kPageTable, table.as<int>());
    if (t->kind.packed) call.place(Role::kQStarts, starts.as<int>());
    if (t->kind.packed) call.place(Role::kNewStarts, starts.as<int>());
    if (t->kind.adds) call.place(Role::kNewK, k_new.data());
    call.place(Role::kNewV, v_new.data());
    call.place(Role::kCos, cos.data());
    call.place(Role::kSin, sin.data());
    if (t->kind.own_rotary) call.place(Role::kRotaryStarts, rotary_starts.as<int>());
    if (t->kind.batch_idx) call.place(Role::kBatchIdx, rows.as<int>());
    if (t->kind.leftpad) call.place(Role::kLeftpad, leftpad.as<int>());
  }
  Buffer q, k, v, k_new, v_new, cos, sin, lengths, rows, leftpad, starts, rotary_starts, table, between;
};

// "" where warps of so many heads do all of a kind rightly, under a schedule.
std::string wrong(const Kernel& kernel, const AppendKind& kind, int warp_heads, const Schedule& schedule) {
  AppendCase t(kind);
  Guarded memory(&t);
  AppendParams params = append_params(t.call, memory.between.as<char>());
  params.warp_heads = warp_heads;
  void* arguments[] = {&params};
  const Status status = kernel.launch({{append_blocks(params), 1, 1}, {kAppendThreads, 1, 1}, 0, arguments}, schedule);
  if (!status.ok()) return status.message();
  return t.wrong(memory.k.values<std::uint16_t>(), memory.v.values<std::uint16_t>(),
                 static_cast<const std::uint16_t*>(params.q_out), params.out_lengths, params.out_starts,
                 params.out_value_starts, params.out_table);
}

std::string wrong(const Kernel& kernel, const AppendKind& kind, const Schedule& schedule = {}) {
  const std::string few = wrong(kernel, kind, kFewHeads, schedule);
  return few.empty() ? wrong(kernel, kind, kManyHeads, schedule) : few;
}

class AppendKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
  // True where some case shows the fault.
  static bool seen(const char* header, const std::string& from, const std::string& to) {
    return !judged(kernel_text(header, from, to), [](const Kernel& kernel) -> ::testing::AssertionResult {
      for (const AppendKind& kind : test::append_kinds())
        if (const std::string why = wrong(kernel, kind); !why.empty()) return ::testing::AssertionFailure() << why;
      return ::testing::AssertionSuccess();
    });
  }
};

TEST_F(AppendKernel, PutsEveryRowWhereItBelongs) {
  EXPECT_TRUE(judged_whole(kernel_text(), [](const Kernel& kernel) {
    int at = 0;
    for (const AppendKind& kind : test::append_kinds()) {
      for (const Schedule& schedule : schedules()) EXPECT_EQ(wrong(kernel, kind, schedule), "") << "kind " << at;
      ++at;
    }
  }));
}

TEST_F(AppendKernel, AKeyPutASlotAsideIsSeen) {
  EXPECT_TRUE(seen(kKernel, "s.cached + place.at) +", "s.cached + place.at + 1) +"));
  EXPECT_TRUE(seen(kRules, "s.cached = p.lengths == nullptr", "s.cached = p.lengths != nullptr"));
}

TEST_F(AppendKernel, AKeyPastTheLastSlotIsSeen) {
  EXPECT_TRUE(seen(kRules, "within(new_keys_of(p, sequence), p.kv_len - s.cached)", "new_keys_of(p, sequence)"));
}

TEST_F(AppendKernel, APageEntryOfANeighbourIsSeen) {
  EXPECT_TRUE(seen(kRules, "p.table[row * p.table_stride + slot / p.page]", "p.table[slot / p.page]"));
  EXPECT_TRUE(seen(kRules, "slot % p.page * strides.row", "0"));
}

TEST_F(AppendKernel, AnotherRowOfTheCacheIsSeen) {
  EXPECT_TRUE(seen(kRules, "p.batch_idx == nullptr ? sequence", "true ? sequence"));
  EXPECT_TRUE(seen(kRules, "s.row * batch_rows + s.leftpad", "s.row * batch_rows"));
  EXPECT_TRUE(seen(kRules, "first_row_of(s, p.cache_batch_values)", "first_row_of(s, p.cache_batch_rows)"));
  EXPECT_TRUE(seen(kRules, "s.cached - s.leftpad + s.added", "s.cached + s.added"));
}

TEST_F(AppendKernel, AnotherEntryOfTheTableThatIsMadeIsSeen) {
  EXPECT_TRUE(seen(kRules, "page * p.page + slot % p.page : page", "page * p.page + key % p.page : page"));
  EXPECT_TRUE(
      seen(kRules, "key = column * p.out_page, slot = s.leftpad + key", "key = column * p.out_page, slot = key"));
  EXPECT_TRUE(seen(kKernel, "if (entry >= 0) p.out_table[i]", "if (entry > 0) p.out_table[i]"));
  EXPECT_TRUE(seen(kKernel, "i += static_cast<long long>(gridDim.x) * kAppendThreads", "i += entries"));
}

TEST_F(AppendKernel, AWrongRotationIsSeen) {
  EXPECT_TRUE(seen(kRows, "fmaf(y, cosine, x * sine)", "fmaf(y, cosine, -x * sine)"));
  EXPECT_TRUE(seen(kRows, "kInterleaved ? 2 * i : i]", "i]"));
  EXPECT_TRUE(seen(kKernel, "if (p.tokens.interleaved)", "if (!p.tokens.interleaved)"));
  EXPECT_TRUE(seen(kKernel, "p.tokens.advances ? place.at : 0", "place.at"));
  EXPECT_TRUE(seen(kKernel, "place.sequence, s.cached) + place.at}", "place.sequence, s.cached)}"));
  EXPECT_TRUE(seen(kKernel, "copy_columns(rows, p.tokens.rotary_dim, p.head_dim, lane);", ""));
  EXPECT_TRUE(seen(kTokens, "t.rotary_starts == nullptr ? cached", "true ? cached"));
  EXPECT_TRUE(seen(kTokens, "within(position, t.rotary_len - 1)", "position"));
}

TEST_F(AppendKernel, AWrongPieceIsSeen) {
  EXPECT_TRUE(seen(kRows, "words[i / 2] >> (i % 2 * 16)", "words[i / 2]"));
  EXPECT_TRUE(seen(kRows, "elements[2 * i + 1]) << 16", "elements[2 * i]) << 16"));
  EXPECT_TRUE(seen(kRows, "column = first + piece * kWidth", "column = first + piece"));
  EXPECT_TRUE(seen(kRows, "first = piece * kWidth", "first = piece"));
  EXPECT_TRUE(seen(kRows, "one + kWidth : first + r.pairs", "one : first + r.pairs"));
  EXPECT_TRUE(seen(kRows, "one + kWidth : first + r.pairs", "one + kWidth : first + kWidth"));
  EXPECT_TRUE(seen(kRows, "load_elements<kWidth>(r.sin + first, sin)", "load_elements<kWidth>(r.sin, sin)"));
}

// Of each that begins anywhere, and of counts that are no pieces.
TEST_F(AppendKernel, PiecesWhereThereAreNoneAreSeen) {
  for (const char* address :
       {"reinterpret_cast<u64>(from)", "reinterpret_cast<u64>(to)", "reinterpret_cast<u64>(cos)",
        "reinterpret_cast<u64>(sin)", "static_cast<u64>(2 * from_stride)", "static_cast<u64>(2 * to_stride)"})
    EXPECT_TRUE(seen(kRows, address, "0")) << address;
  EXPECT_TRUE(seen(kRows, "pairs % kVector == 0", "true"));
  EXPECT_TRUE(seen(kRows, "first % kVector == 0", "true"));
}

TEST_F(AppendKernel, ElementsThatAreLeftOutAreSeen) {
  EXPECT_TRUE(seen(kRows, "copy_heads<1>(rows, first, columns, lane);", ";"));
  EXPECT_TRUE(seen(kRows, "rotate_heads<Element, kInterleaved, 1>(r, rows, lane);", ";"));
}

TEST_F(AppendKernel, AHeadTooManyOrTooFewIsSeen) {
  EXPECT_TRUE(seen(kRules, "left < p.warp_heads ? left : p.warp_heads", "p.warp_heads"));
  EXPECT_TRUE(seen(kRules, "left < p.warp_heads ? left : p.warp_heads", "1"));
  for (const std::string next : {";\n  const HeadRows", ";\n  const auto rows"})
    EXPECT_TRUE(seen(kKernel, "head = group * p.warp_heads" + next, "head = group" + next));
}

TEST_F(AppendKernel, WhatALaneLeavesOutIsSeen) {
  EXPECT_TRUE(seen(kRows, "heads_apart(32 / pieces_apart)", "heads_apart(33 - pieces_apart)"));
  EXPECT_TRUE(seen(kRows, "pieces_apart(min(pieces, 32))", "pieces_apart(min(pieces, 32) + 1)"));
  EXPECT_TRUE(seen(kRows, "piece += share.pieces_apart", "piece += pieces"));
  EXPECT_TRUE(seen(kRows, "head += share.heads_apart", "head += rows.heads"));
}

TEST_F(AppendKernel, ANeighboursQueryIsSeen) {
  EXPECT_TRUE(seen(kRules, "starts[middle + 1] <= row", "starts[middle + 1] < row"));
}

TEST_F(AppendKernel, ALostItemIsSeen) {
  EXPECT_TRUE(seen(kKernel, "item - queries < static_cast<u32>(p.new_rows) * kv_groups",
                   "item - queries + 1 < static_cast<u32>(p.new_rows) * kv_groups"));
}

}  // namespace
}  // namespace gqa::simt
