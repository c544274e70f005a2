// The kernel that appends to a cache, run on the CPU and held against the trial's own cases; and faults planted in it,
// each of which the trial must refuse.
#include <gtest/gtest.h>

#include "runtime/call/append_plan.h"
#include "runtime/verify/append_case.h"
#include "tests/simt/kernels/emulated_memory.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

constexpr const char *kKernel = "append/append.cuh", *kRows = "append/head_rows.cuh";
constexpr const char *kRules = "append/append_params.h", *kTokens = "append/new_tokens.h";

KernelText kernel_text(const std::string& header = "", const std::string& from = "", const std::string& to = "") {
  return {append_source(), planted(header, from, to), kAppendEntryPoint};
}

// The kernel, with warps of so many heads, and then what attends.
class Emulated final : public LoadedProgram {
 public:
  Emulated(const Kernel& kernel, int warp_heads, const Schedule& schedule)
      : kernel_(kernel), warp_heads_(warp_heads), schedule_(schedule) {}
  Status run(const ProgramCall& given) const override {
    const Call& call = *given.attention;
    const Buffer between("between", static_cast<std::size_t>(append_bytes(call)));
    AppendParams params = append_params(call, between.as<char>());
    params.warp_heads = warp_heads_;
    void* arguments[] = {&params};
    const Launch launch = {{append_blocks(params), 1, 1}, {kAppendThreads, 1, 1}, 0, arguments};
    const Status status = kernel_.launch(launch, schedule_);
    return status.ok() ? given.then->run(attended_call(call, params)) : status;
  }

 private:
  const Kernel& kernel_;
  const int warp_heads_;
  const Schedule& schedule_;
};

// "" where warps of few and of many heads do all of a kind rightly, under a schedule.
std::string wrong(const Kernel& kernel, const AppendKind& kind, const Schedule& schedule = {}) {
  for (const int warp_heads : {kFewHeads, kManyHeads}) {
    AppendCase one(kind);
    EmulatedMemory memory;
    const Verdict verdict = verify(&one, Emulated(kernel, warp_heads, schedule), &memory);
    if (!verdict.passed) return verdict.reason;
  }
  return "";
}

// The few rows of all others are enough for both kinds of warps, and soon done.
std::vector<AppendKind> kinds() {
  std::vector<AppendKind> all(append_kinds().begin(), append_kinds().end());
  std::erase_if(all, [](const AppendKind& kind) { return kind.many_rows; });
  return all;
}

class AppendKernel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
  // True where some case shows the fault.
  static bool seen(const char* header, const std::string& from, const std::string& to) {
    return !judged(kernel_text(header, from, to), [](const Kernel& kernel) -> ::testing::AssertionResult {
      for (const AppendKind& kind : kinds())
        if (const std::string why = wrong(kernel, kind); !why.empty()) return ::testing::AssertionFailure() << why;
      return ::testing::AssertionSuccess();
    });
  }
};

TEST_F(AppendKernel, PutsEveryRowWhereItBelongs) {
  EXPECT_TRUE(judged_whole(kernel_text(), [](const Kernel& kernel) {
    int at = 0;
    for (const AppendKind& kind : kinds()) {
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

// Each begins anywhere, and counts are no pieces.
TEST_F(AppendKernel, PiecesWhereThereAreNoneAreSeen) {
  for (const char* address : {"reinterpret_cast<u64>(from)", "reinterpret_cast<u64>(to)", "reinterpret_cast<u64>(cos)",
                              "reinterpret_cast<u64>(sin)", "static_cast<u64>(from_stride * sizeof(Bits))",
                              "static_cast<u64>(to_stride * sizeof(Bits))"})
    EXPECT_TRUE(seen(kRows, address, "0")) << address;
  EXPECT_TRUE(seen(kRows, "pairs % kVector<Bits> == 0", "true"));
  EXPECT_TRUE(seen(kRows, "first % kVector<Bits> == 0", "true"));
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
