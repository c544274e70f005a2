// pages_test.cc: gqa::PagePool: tokens through shared pages against attention on the same keys in one piece; ends of
// life; errors as exceptions.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention_numbers.h"
#include "gqa.hpp"
#include "testing.h"

namespace {

int pools_destroyed = 0;

}  // namespace

// Stands before the library's for gqa.hpp, which is compiled into this program: counts, and passes on.
extern "C" void gqa_page_pool_destroy(gqa_page_pool pool) {
  ++pools_destroyed;
  reinterpret_cast<void (*)(gqa_page_pool)>(dlsym(RTLD_NEXT, "gqa_page_pool_destroy"))(pool);
}

namespace {

using gqa::test::Bf16;
using gqa::test::kDim;
using gqa::test::kQHeads;
using gqa::test::Row;
using gqa::test::status_of;
using Sequences = std::vector<std::int64_t>;

constexpr std::int64_t kPages = 8, kPage = 4, kColumns = 3;

class CppPages : public ::testing::Test {
 protected:
  // So many new tokens of each sequence: room, one call that writes and attends, a look at every row.
  void step(const Sequences& sequences, std::int64_t tokens) {
    const auto batch = static_cast<std::int64_t>(sequences.size());
    pool_.append(sequences, static_cast<std::int32_t>(tokens));
    gqa::PageTable table = pool_.table(sequences, kColumns);
    for (std::int32_t& length : table.lengths) length -= static_cast<std::int32_t>(tokens);
    Bf16 q({batch, tokens, kQHeads, kDim}, &numbers_), out({batch, tokens, kQHeads, kDim});
    Bf16 k({batch, tokens, 1, kDim}, &numbers_), v({batch, tokens, 1, kDim}, &numbers_);
    const gqa::Tensor pages(table.pages.data(), {batch, kColumns}, gqa::int32);
    const gqa::Tensor lengths(table.lengths.data(), {batch}, gqa::int32), k_new = k.tensor(), v_new = v.tensor();
    gqa_call call = {};
    call.causal = 1;
    call.page_table = pages.get();
    call.cache_seqlens = lengths.get();
    call.k_new = k_new.get();
    call.v_new = v_new.get();
    handle_.attention(q.tensor(), k_pages_.tensor(), v_pages_.tensor(), out.tensor(), call);

    std::size_t at = 0;
    for (const std::int64_t sequence : sequences) {
      auto& [keys, values] = history_[sequence];
      for (std::int64_t token = 0; token < tokens; ++token, ++at) {
        keys.push_back(k.row(at));
        values.push_back(v.row(at));
        for (std::size_t row = kQHeads * at; row < kQHeads * (at + 1); ++row) {
          const Row expected = gqa::test::attend(q.row(row), keys, values, keys.size());
          EXPECT_LT(gqa::test::largest_difference(out.row(row), expected), 0.02) << sequence << ", row " << row;
        }
      }
    }
  }

  gqa::test::Numbers numbers_;
  const gqa::Handle handle_{gqa::test::host()};
  Bf16 k_pages_{{kPages, kPage, 1, kDim}}, v_pages_{{kPages, kPage, 1, kDim}};
  gqa::PagePool pool_{handle_, {k_pages_.tensor(), v_pages_.tensor()}};
  std::map<std::int64_t, std::pair<std::vector<Row>, std::vector<Row>>> history_;  // keys and values
};

TEST_F(CppPages, SequencesDecodeFromSharedPages) {
  const std::int64_t first = pool_.add();
  step({first}, 6);  // two pages, the second half full
  EXPECT_EQ(pool_.free_pages(), kPages - 2);
  const std::int64_t second = pool_.share(first), third = pool_.share(first, 4);
  history_[second] = history_[first];
  for (int token = 0; token < 4; ++token) {
    history_[third].first.push_back(history_[first].first[token]);
    history_[third].second.push_back(history_[first].second[token]);
  }
  EXPECT_EQ(pool_.free_pages(), kPages - 2);
  EXPECT_EQ(pool_.length(second), 6);
  EXPECT_EQ(pool_.length(third), 4);
  for (int token = 0; token < 3; ++token) step({first, second, third}, 1);
  EXPECT_EQ(pool_.length(first), 9);
  EXPECT_EQ(pool_.free_pages(), kPages - 6);  // one is shared by all, five are a sequence's own
  pool_.free({first, third});
  EXPECT_EQ(pool_.free_pages(), kPages - 3);
  step({second}, 1);
  pool_.free({second});
  EXPECT_EQ(pool_.free_pages(), kPages);
}

TEST_F(CppPages, TablesOfABatch) {
  const std::int64_t first = pool_.add(), second = pool_.add();
  pool_.append({first, second}, {5, 3});
  const gqa::PageTable table = pool_.table({second, first}, kColumns);
  EXPECT_EQ(table.lengths, (std::vector<std::int32_t>{3, 5}));
  ASSERT_EQ(table.pages.size(), 2 * kColumns);
  std::vector<std::int32_t> own(2 * kColumns, -1);
  pool_.table({second, first}, kColumns, own.data(), nullptr);
  EXPECT_EQ(own, table.pages);
  EXPECT_NE(own[3], own[0]);
  EXPECT_EQ((std::vector<std::int32_t>{own[1], own[2], own[5]}), (std::vector<std::int32_t>{0, 0, 0}));
}

TEST_F(CppPages, PoolsMoveAndFreeThemselves) {
  static_assert(!std::is_copy_constructible_v<gqa::PagePool> && !std::is_copy_assignable_v<gqa::PagePool>);
  static_assert(std::is_nothrow_move_constructible_v<gqa::PagePool>);
  const std::int64_t sequence = pool_.add();
  pool_.append({sequence}, 2);
  pools_destroyed = 0;
  {
    gqa::PagePool moved = std::move(pool_);
    EXPECT_EQ(moved.length(sequence), 2);
    EXPECT_EQ(status_of([&] { pool_.add(); }, "pool is NULL"), GQA_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(pools_destroyed, 0);
  }
  EXPECT_EQ(pools_destroyed, 1);
  pool_ = gqa::PagePool(handle_, {k_pages_.tensor()});
  EXPECT_EQ(pools_destroyed, 1);
  EXPECT_EQ(status_of([&] { (void)pool_.length(sequence); }), GQA_ERROR_OPTION);
  pool_ = gqa::PagePool(handle_, {v_pages_.tensor()});
  EXPECT_EQ(pools_destroyed, 2);
}

TEST_F(CppPages, ErrorsAreExceptionsWithTheLibrarysMessage) {
  const std::int64_t first = pool_.add(), second = pool_.add();
  pool_.append({first}, 29);  // all pages
  std::string message;
  try {
    pool_.append({first, second}, {1, 1});
  } catch (const gqa::Error& error) {
    EXPECT_EQ(error.status(), GQA_ERROR_OUT_OF_MEMORY);
    message = error.what();
  }
  EXPECT_EQ(message, gqa_last_error());
  EXPECT_NE(message.find("more pages, but"), std::string::npos) << message;
  EXPECT_EQ(pool_.length(first), 29) << "nothing is done by half";
}

TEST_F(CppPages, WhatIsWrongIsRefused) {
  const std::int64_t sequence = pool_.add();
  pool_.append({sequence}, 5);
  EXPECT_EQ(status_of([&] { pool_.append({sequence}, {1, 2}); }, "1 sequences and 2 tokens"), GQA_ERROR_SHAPE);
  EXPECT_EQ(status_of([&] { pool_.append({sequence}, -1); }, "tokens of sequence"), GQA_ERROR_SIZE);
  EXPECT_EQ(status_of([&] { pool_.share(sequence, 6); }, "tokens is 6"), GQA_ERROR_SIZE);
  EXPECT_EQ(status_of([&] { pool_.share(sequence + 1); }, "sequence"), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { pool_.free({sequence, sequence}); }, "freed twice"), GQA_ERROR_OPTION);
  EXPECT_EQ(status_of([&] { (void)pool_.table({sequence}, 1); }, "the table has 1 columns"), GQA_ERROR_SHAPE);
  EXPECT_EQ(status_of([&] { pool_.append_within(2, {sequence}, {4}); }, "the table has 2 columns"), GQA_ERROR_SHAPE);
  EXPECT_EQ(status_of([&] { pool_.truncate(sequence, 6); }, "tokens is 6"), GQA_ERROR_SIZE);
  pool_.truncate(sequence, 4);
  pool_.append_within(2, {sequence}, {1});
  EXPECT_EQ(status_of([&] { (void)pool_.table({sequence}, 0); }, "columns is 0"), GQA_ERROR_SIZE);
  EXPECT_EQ(pool_.length(sequence), 5);
  EXPECT_EQ(status_of([&] { gqa::PagePool(handle_, {}); }, "count is 0"), GQA_ERROR_SIZE);
  Bf16 fewer({kPages - 1, kPage, 1, kDim});
  EXPECT_EQ(status_of(
                [&] {
                  gqa::PagePool(handle_, {k_pages_.tensor(), fewer.tensor()});
                },
                "caches[1]"),
            GQA_ERROR_SHAPE);
}

}  // namespace
