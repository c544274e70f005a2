// serving_calls_test.cc: the calls of a serving range are served by the signatures that the range has: every batch,
// length and number of queries, handed in as tensors are, through the checks of gqa_run_ex. Their neighbours are not.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "runtime/api/args/args.h"
#include "search/problem/serving_range.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/tensors.h"
#include "tests/search/from_text.h"

namespace gqa::test {
namespace {

constexpr std::uintptr_t kFarApart = std::uintptr_t{1} << 36;
constexpr DLDataType kList = {kDLInt, 32, 1}, kRows = {kDLFloat, 32, 1};
constexpr std::int64_t kQueryHeads = 4, kKeyHeads = 2, kDim = 64;

struct Sizes {
  std::int64_t batch = 1, q_len = 1, kv_len = 1, page = 0;
  bool packed_q = false, packed_k = false, lse = false, sink = false, softcap = false;
  std::int32_t left = -1;
};

// What gqa_run_ex makes of the call's tensors; kv_len is rounded up to whole pages.
Signature signature_of(const Sizes& s) {
  const auto rows = [&](bool packed, std::int64_t length, std::int64_t heads) {
    return packed ? std::vector<std::int64_t>{s.batch * length, heads, kDim}
                  : std::vector<std::int64_t>{s.batch, length, heads, kDim};
  };
  const auto tensor = [](int at, const std::vector<std::int64_t>& shape, DLDataType type = kBf16) {
    TestTensor made(static_cast<std::uintptr_t>(at) * kFarApart, {1}, type);
    made.shape = shape;
    made.no_strides = true;
    return made;
  };
  const std::int64_t columns = s.page > 0 ? (s.kv_len + s.page - 1) / s.page : 0;
  const auto keys =
      s.page > 0 ? std::vector<std::int64_t>{7, s.page, kKeyHeads, kDim} : rows(s.packed_k, s.kv_len, kKeyHeads);
  TestTensor q = tensor(1, rows(s.packed_q, s.q_len, kQueryHeads)), k = tensor(2, keys), v = tensor(3, keys),
             out = tensor(4, rows(s.packed_q, s.q_len, kQueryHeads));
  TestTensor lengths = tensor(5, {s.batch}, kList), table = tensor(6, {s.batch, columns}, kList),
             q_starts = tensor(7, {s.batch + 1}, kList), k_starts = tensor(8, {s.batch + 1}, kList),
             sink = tensor(9, {kQueryHeads}, kRows),
             lse = tensor(10,
                          s.packed_q ? std::vector<std::int64_t>{kQueryHeads, s.batch * s.q_len}
                                     : std::vector<std::int64_t>{s.batch, kQueryHeads, s.q_len},
                          kRows);
  const std::array<std::int32_t, 2> window = {s.left, 0};
  gqa_call options{};
  options.size = sizeof(options);
  options.causal = 1;
  options.window_size = window.data();
  if (!s.packed_k) options.cache_seqlens = lengths.get();
  if (s.page > 0) options.page_table = table.get();
  if (s.packed_q) options.cu_seqlens_q = q_starts.get(), options.max_seqlen_q = s.q_len;
  if (s.packed_k) options.cu_seqlens_k = k_starts.get(), options.max_seqlen_k = s.kv_len;
  if (s.lse) options.lse = lse.get();
  if (s.sink) options.sink = sink.get();
  if (s.softcap) options.softcap = 30;
  FakeWorld world;
  const FakeDevice device(&world);
  Call call;
  const Status status = make_call(device, q.get(), k.get(), v.get(), out.get(), &options, &call);
  EXPECT_TRUE(status.ok()) << status.message();
  return Signature(call.problem);
}

class Warmed {
 public:
  explicit Warmed(std::string_view text, std::string_view more = "") {
    ServingRange range;
    const Status status = parse(text, &range);
    EXPECT_TRUE(status.ok()) << status.message();
    const Problem layer = problem_of("hq=4,hk=2,sq=1,d=64" + std::string(more));
    for (const Signature& signature : signatures(range, layer)) names_.insert(to_text(signature));
  }
  bool serves(const Sizes& sizes) {
    const std::string name = to_text(signature_of(sizes));
    met_.insert(name);
    return names_.contains(name);
  }
  // Nothing was warmed in vain.
  bool all_met() const { return met_ == names_; }

 private:
  std::set<std::string> names_, met_;
};

TEST(ServingCalls, EveryDecodeStepOfARangeOnPages) {
  Warmed warmed("batch=3..40,kv=17..700,page=16");
  for (std::int64_t batch = 3; batch <= 40; ++batch)
    for (std::int64_t kv = 17; kv <= 700; ++kv)
      ASSERT_TRUE(warmed.serves({.batch = batch, .kv_len = kv, .page = 16})) << batch << " " << kv;
  EXPECT_TRUE(warmed.all_met());
  EXPECT_FALSE(warmed.serves({.batch = 2, .kv_len = 64, .page = 16}));
  EXPECT_FALSE(warmed.serves({.batch = 49, .kv_len = 64, .page = 16}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .kv_len = 16, .page = 16}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .kv_len = 769, .page = 16}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .kv_len = 64, .page = 32}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .kv_len = 64}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .q_len = 2, .kv_len = 64, .page = 16}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .kv_len = 64, .page = 16, .packed_q = true}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .kv_len = 64, .page = 16, .lse = true}));
  EXPECT_FALSE(warmed.serves({.batch = 4, .kv_len = 64, .page = 16, .softcap = true}));
}

TEST(ServingCalls, EveryPageAndAWindow) {
  for (const std::int64_t page : {1, 7, 16, 100, 256}) {
    Warmed warmed("batch=2,kv=1..600,q=1..9,page=" + std::to_string(page), ",left=104,sink");
    for (std::int64_t q_len = 1; q_len <= 9; ++q_len)
      for (std::int64_t kv = 1; kv <= 600; ++kv)
        ASSERT_TRUE(warmed.serves({.batch = 2, .q_len = q_len, .kv_len = kv, .page = page, .sink = true, .left = 104}))
            << page << " " << q_len << " " << kv;
    EXPECT_TRUE(warmed.all_met()) << page;
    EXPECT_FALSE(warmed.serves({.batch = 2, .kv_len = 600, .page = page, .sink = true, .left = 103})) << page;
  }
}

TEST(ServingCalls, ADenseCacheAndPackedQueries) {
  Warmed warmed("batch=1..9,kv=1..90,q=1..5,chunk=1..70,lse", ",softcap");
  for (std::int64_t batch = 1; batch <= 9; ++batch) {
    for (std::int64_t kv = 1; kv <= 90; ++kv) {
      for (std::int64_t q_len = 1; q_len <= 70; ++q_len) {
        Sizes sizes = {.batch = batch, .q_len = q_len, .kv_len = kv, .lse = true, .softcap = true};
        ASSERT_TRUE(q_len > 5 || warmed.serves(sizes)) << batch << " " << q_len << " " << kv;
        sizes.packed_q = true;
        ASSERT_TRUE(warmed.serves(sizes)) << batch << " " << q_len << " " << kv;
      }
    }
  }
  EXPECT_TRUE(warmed.all_met());
  EXPECT_FALSE(warmed.serves({.batch = 1, .q_len = 7, .kv_len = 16, .lse = true, .softcap = true}));
}

TEST(ServingCalls, PackedPrompts) {
  Warmed warmed("batch=1..70,prefill=5..300", ",left=69");
  for (std::int64_t batch = 1; batch <= 70; ++batch)
    for (std::int64_t length = 5; length <= 300; ++length)
      ASSERT_TRUE(warmed.serves(
          {.batch = batch, .q_len = length, .kv_len = length, .packed_q = true, .packed_k = true, .left = 69}))
          << batch << " " << length;
  EXPECT_TRUE(warmed.all_met());
  EXPECT_FALSE(
      warmed.serves({.batch = 1, .q_len = 300, .kv_len = 600, .packed_q = true, .packed_k = true, .left = 69}));
}

}  // namespace
}  // namespace gqa::test
