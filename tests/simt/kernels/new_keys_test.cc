// Attention's own kernel appends what its call brings, on the CPU: the answer is that of a cache that had the keys
// already, and the cache holds them then, bit by bit; and faults planted in it, each of which must be seen.
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/new_tokens_case.h"
#include "tests/simt/kernels/cache_launch.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

using test::NewTokensCase;
using test::NewTokensLaunch;

constexpr const char* kNewKeys = "attention/common/new_keys.cuh";
constexpr const char *kSplit = "attention/split_kv/split.cuh", *kFlash = "attention/mma_flash/flash.cuh";
constexpr const char* kSequence = "attention/common/sequence.cuh";
constexpr const char* kSource = "attention/common/key_source.cuh";

KernelText text_of(const NewTokensLaunch& c, Candidate* candidate, const std::string& header = "",
                   const std::string& from = "", const std::string& to = "") {
  EXPECT_TRUE(parse(c.candidate, candidate).ok()) << c.candidate;
  Problem problem;
  EXPECT_TRUE(parse(c.problem, &problem).ok()) << c.problem;
  return {attention_source(problem, *candidate), planted(header, from, to)};
}

// One launch, each tensor guarded.
::testing::AssertionResult right(const Kernel& kernel, const Candidate& candidate, const NewTokensLaunch& c,
                                 const Schedule& schedule) {
  NewTokensCase t(c);
  test::CacheCase& attended = t.attended;
  const Buffer q("q", t.q), k("k", t.k), v("v", t.v), k_new("k_new", t.k_new), v_new("v_new", t.v_new),
      cos("cos", t.cos), sin("sin", t.sin), lengths("lengths", t.cached), starts("rotary_starts", t.rotary_starts),
      out("out", attended.out), lse("lse", attended.lse);
  Buffer table("page_table", needed_entries(attended) * sizeof(std::int32_t), sizeof(std::int32_t));
  table.copy_in(attended.table.data(), table.bytes());
  Call call = t.call;
  call.place(Role::kQ, q.data());
  call.place(Role::kK, k.data());
  call.place(Role::kV, v.data());
  call.place(Role::kOut, out.data());
  call.place(Role::kLse, lse.as<float>());
  call.place(Role::kKvLengths, lengths.as<std::int32_t>());
  if (call.has(Role::kPageTable)) call.place(Role::kPageTable, table.as<std::int32_t>());
  call.place(Role::kNewK, k_new.data());
  call.place(Role::kNewV, v_new.data());
  call.place(Role::kCos, cos.data());
  call.place(Role::kSin, sin.data());
  if (t.kind.own_rotary) call.place(Role::kRotaryStarts, starts.as<std::int32_t>());
  if (const Status s = launch_call(kernel, candidate, call, schedule); !s.ok())
    return ::testing::AssertionFailure() << s.message();
  attended.out = out.values<std::uint16_t>();
  attended.lse = lse.values<float>();
  if (k.values<std::uint16_t>() != attended.k) return ::testing::AssertionFailure() << "keys in the cache";
  if (v.values<std::uint16_t>() != attended.v) return ::testing::AssertionFailure() << "values in the cache";
  return attended.right();
}

// Under every schedule.
::testing::AssertionResult right(const Kernel& kernel, const Candidate& candidate, const NewTokensLaunch& c) {
  for (const Schedule& schedule : schedules())
    if (auto result = right(kernel, candidate, c, schedule); !result) return result << " " << to_text(schedule);
  return ::testing::AssertionSuccess();
}

class NewKeys : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
  // True where some case shows the fault.
  static bool seen(const char* header, const std::string& from, const std::string& to) {
    for (const NewTokensLaunch& c : test::new_tokens_launches()) {
      Candidate candidate;
      const KernelText text = text_of(c, &candidate, header, from, to);
      if (!judged(text, [&](const Kernel& kernel) { return right(kernel, candidate, c); })) return true;
    }
    return false;
  }
};

TEST_F(NewKeys, AttendsToWhatItAppends) {
  for (const NewTokensLaunch& c : test::new_tokens_launches()) {
    Candidate candidate;
    const KernelText text = text_of(c, &candidate);
    EXPECT_TRUE(judged(text, [&](const Kernel& kernel) { return right(kernel, candidate, c); })) << c.problem;
  }
}

TEST_F(NewKeys, AKeyPutASlotAsideIsSeen) {
  EXPECT_TRUE(seen(kNewKeys, "(key - cached) * s.row", "(key - begin) * s.row"));
  EXPECT_TRUE(seen(kSource, "table.existing(table.entry(key / kPage)), key % kPage, s", "0, key % kPage, s"));
  EXPECT_TRUE(seen(kSource, "return v_head + key * p.v_strides.row;", "return v_head + key * p.k_strides.row;"));
  EXPECT_TRUE(seen(kNewKeys, "place.kv_head * s.head;", "place.head * s.head;"));
}

TEST_F(NewKeys, AKeyThatNobodyWritesIsSeen) {
  EXPECT_TRUE(seen(kNewKeys, "int i = threadIdx.x; i < first_value", "int i = threadIdx.x + 1; i < first_value"));
  EXPECT_TRUE(
      seen(kNewKeys, "max(cached, first_block * Config::kTileN)", "max(cached, first_block * Config::kTileN + 1)"));
  EXPECT_TRUE(seen(kNewKeys, "min(keys, (first_block + blocks)", "min(keys - 1, (first_block + blocks)"));
  EXPECT_TRUE(seen(kNewKeys, "(key_items + 31) / 32 * 32", "key_items / 32 * 32"));
  EXPECT_TRUE(seen(kNewKeys, "key = begin + value / kValueSteps", "key = begin"));
  EXPECT_TRUE(seen(kNewKeys, "value % kValueSteps)", "0)"));
}

TEST_F(NewKeys, AKeyPastTheLastSlotIsSeen) {
  EXPECT_TRUE(seen(kSequence, "cache->added, p.kv_len)", "cache->added, p.kv_len + 1)"));
}

// Keys that are read before they are written, or never.
TEST_F(NewKeys, AKeyThatIsReadTooSoonIsSeen) {
  EXPECT_TRUE(seen(kSplit, "(all || added.in_block(first_key(i)))", "all"));
  EXPECT_TRUE(seen(kSplit, "(all || added.in_block(first_key(i)))", "added.in_block(first_key(i))"));
  EXPECT_TRUE(seen(kSplit, "write(keys);\n        __syncthreads();\n        written", "write(keys);\n        written"));
  EXPECT_TRUE(seen(kSplit, "bool written = !added.any();", "bool written = true;"));
  EXPECT_TRUE(seen(kFlash, "write(keys);\n    __syncthreads();", "write(keys);"));
}

TEST_F(NewKeys, AWrongRotationIsSeen) {
  EXPECT_TRUE(seen(kNewKeys, "start + key - cached,", "start,"));
  EXPECT_TRUE(seen(kNewKeys, "tokens.advances ? row / Config::kPack : 0", "0"));
  EXPECT_TRUE(seen(kNewKeys, "tokens.advances ? row / Config::kPack : 0", "row / Config::kPack"));
  EXPECT_TRUE(seen(kNewKeys, "one + kWidth : first + rotation.pairs", "one + kWidth : first + kWidth"));
  EXPECT_TRUE(seen(kNewKeys, "kHeadDim / kWidth - pair_steps()", "kHeadDim / kWidth - 2 * pair_steps()"));
  EXPECT_TRUE(seen(kNewKeys, "if (step >= pair_steps())", "if (step > pair_steps())"));
  EXPECT_TRUE(seen(kNewKeys, "copy_vector(from, to, step + pair_steps());", "copy_vector(from, to, step);"));
  EXPECT_TRUE(seen(kNewKeys, "else if (tokens.interleaved)", "else if (!tokens.interleaved)"));
}

}  // namespace
}  // namespace gqa::simt
