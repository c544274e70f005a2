// page_numbers_test.cc: who holds which page: allocation, sharing, copies of the last page, what goes back, all or
// nothing; and 20,000 random steps against a model that keeps each token's own page and slot.
#include "runtime/pages/page_numbers.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace gqa::test {
namespace {

using Growths = std::vector<PageGrowth>;

class PageNumbersTest : public ::testing::Test {
 protected:
  std::int64_t sequence_of(std::int32_t tokens) {
    const std::int64_t made = pool_.add();
    EXPECT_TRUE(append(made, tokens).ok());
    return made;
  }
  Status append(std::int64_t sequence, std::int32_t tokens) { return pool_.append({&sequence, 1}, &tokens, &growths_); }
  std::int64_t share(std::int64_t sequence, std::int64_t tokens = -1) {
    std::int64_t copy = -1;
    EXPECT_TRUE(pool_.share(sequence, tokens, &copy).ok());
    return copy;
  }
  std::vector<std::int32_t> pages_of(std::int64_t sequence) {
    std::vector<std::int32_t> row(8, -1);
    std::int32_t tokens = 0;
    EXPECT_TRUE(pool_.table({&sequence, 1}, 8, row.data(), &tokens).ok());
    row.resize(static_cast<std::size_t>((tokens + 3) / 4));
    return row;
  }
  void expect_refused(const Status& status, Code code, const std::string& words) {
    EXPECT_EQ(status.code(), code);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }

  PageNumbers pool_{8, 4};  // 8 pages of 4 tokens
  Growths growths_;
};

TEST_F(PageNumbersTest, PagesAreGivenAsTokensNeedThem) {
  const std::int64_t sequence = pool_.add();
  for (std::int32_t tokens = 1; tokens <= 9; ++tokens) {
    ASSERT_TRUE(append(sequence, 1).ok());
    EXPECT_EQ(pool_.free_pages(), 8 - (tokens + 3) / 4) << tokens;
  }
  EXPECT_EQ(pages_of(sequence), (std::vector<std::int32_t>{0, 1, 2}));
  ASSERT_TRUE(append(sequence, 12).ok());
  EXPECT_EQ(pages_of(sequence).size(), 6u);
  std::int64_t tokens = 0;
  ASSERT_TRUE(pool_.tokens(sequence, &tokens).ok());
  EXPECT_EQ(tokens, 21);
}

TEST_F(PageNumbersTest, WhoAppendsToASharedPageThatIsNotFullGetsOneOfItsOwn) {
  const std::int64_t first = sequence_of(6), second = share(first);
  EXPECT_EQ(pages_of(first), pages_of(second));
  EXPECT_EQ(pool_.free_pages(), 6);
  ASSERT_TRUE(append(second, 1).ok());
  ASSERT_EQ(growths_.size(), 1u);
  EXPECT_EQ(growths_[0].shared, 1);
  EXPECT_EQ(growths_[0].own, 2);
  EXPECT_EQ(pages_of(second), (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(pages_of(first), (std::vector<std::int32_t>{0, 1}));
  ASSERT_TRUE(append(first, 1).ok());
  EXPECT_EQ(growths_[0].shared, -1) << "nobody else holds it any more";
}

TEST_F(PageNumbersTest, OfTwoInOneAppendTheFirstCopies) {
  const std::int64_t first = sequence_of(6), second = share(first), both[] = {first, second};
  const std::int32_t tokens[] = {1, 1};
  ASSERT_TRUE(pool_.append(both, tokens, &growths_).ok());
  EXPECT_EQ(growths_[0].own, 2);
  EXPECT_EQ(growths_[1].own, -1);
  EXPECT_EQ(pool_.free_pages(), 5);
}

TEST_F(PageNumbersTest, AFullSharedPageIsNeverCopied) {
  const std::int64_t first = sequence_of(8), second = share(first);
  ASSERT_TRUE(append(second, 1).ok());
  EXPECT_EQ(growths_[0].shared, -1);
  EXPECT_EQ(pages_of(second), (std::vector<std::int32_t>{0, 1, 2}));
  ASSERT_TRUE(append(first, 0).ok());
  EXPECT_TRUE(growths_.empty()) << "no token, no page";
}

TEST_F(PageNumbersTest, APrefixSharesItsPagesOnly) {
  const std::int64_t whole = sequence_of(11), part = share(whole, 5), none = share(whole, 0);
  EXPECT_EQ(pages_of(part), (std::vector<std::int32_t>{0, 1}));
  EXPECT_TRUE(pages_of(none).empty());
  ASSERT_TRUE(append(part, 1).ok());
  EXPECT_EQ(growths_[0].shared, 1) << "it holds tokens of the whole's past the prefix";
  std::int64_t copy = 0;
  expect_refused(pool_.share(whole, 12, &copy), Code::kSize, "tokens is 12, expected 0 to 11");
  expect_refused(pool_.share(whole, -2, &copy), Code::kSize, "tokens is -2");
}

TEST_F(PageNumbersTest, ATruncatedSequenceGivesBackThePagesItLeaves) {
  const std::int64_t first = sequence_of(11);
  ASSERT_TRUE(pool_.truncate(first, 8).ok());
  EXPECT_EQ(pages_of(first), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(pool_.free_pages(), 6);
  ASSERT_TRUE(pool_.truncate(first, 8).ok()) << "as many as it has";
  const std::int64_t second = share(first);
  ASSERT_TRUE(pool_.truncate(second, 5).ok());
  EXPECT_EQ(pool_.free_pages(), 6) << "the first holds both pages";
  ASSERT_TRUE(append(second, 1).ok());
  EXPECT_EQ(growths_[0].shared, 1) << "the first's tokens past the fifth stay";
  ASSERT_TRUE(pool_.truncate(first, 0).ok());
  EXPECT_TRUE(pages_of(first).empty());
  EXPECT_EQ(pool_.free_pages(), 6) << "the second holds one of the two, and one of its own";
  expect_refused(pool_.truncate(second, 7), Code::kSize, "tokens is 7, expected 0 to 6");
  expect_refused(pool_.truncate(second, -1), Code::kSize, "tokens is -1");
  expect_refused(pool_.truncate(second + 1, 0), Code::kOption, "is none of this pool's");
}

TEST_F(PageNumbersTest, AnAppendKeepsToTheColumnsOfATable) {
  const std::int64_t first = sequence_of(6), second = sequence_of(8), both[] = {first, second};
  const std::int32_t none[] = {0, 0}, fit[] = {2, 0}, one_too_many[] = {1, 1};
  expect_refused(pool_.append(both, one_too_many, &growths_, 2), Code::kShape,
                 "would have 3 pages with 1 more tokens, but the table has 2 columns");
  EXPECT_EQ(pool_.free_pages(), 4);
  std::int64_t tokens = 0;
  ASSERT_TRUE(pool_.tokens(first, &tokens).ok());
  EXPECT_EQ(tokens, 6) << "all or nothing";
  EXPECT_TRUE(pool_.append(both, fit, &growths_, 2).ok());
  expect_refused(pool_.append(both, none, &growths_, 1), Code::kShape, "but the table has 1 columns");
}

TEST_F(PageNumbersTest, APageIsFreeOnceNobodyHoldsIt) {
  const std::int64_t first = sequence_of(6), second = share(first);
  ASSERT_TRUE(append(second, 1).ok());
  ASSERT_TRUE(pool_.free({&first, 1}).ok());
  EXPECT_EQ(pool_.free_pages(), 6);
  ASSERT_TRUE(pool_.free({&second, 1}).ok());
  EXPECT_EQ(pool_.free_pages(), 8);
}

TEST_F(PageNumbersTest, WherePagesRunOutAllIsAsBefore) {
  const std::int64_t first = sequence_of(6), second = share(first), third = sequence_of(16);  // 2 are free
  const std::int64_t all[] = {first, third, second};
  const std::int32_t tokens[] = {1, 1, 7};
  const auto before = std::pair(pages_of(first), pages_of(third));
  expect_refused(pool_.append(all, tokens, &growths_), Code::kOutOfMemory,
                 "needs 2 more pages, but 0 of the pool's 8 are free");
  EXPECT_EQ(pool_.free_pages(), 2);
  EXPECT_EQ(std::pair(pages_of(first), pages_of(third)), before);
  EXPECT_EQ(pages_of(first), pages_of(second));
  ASSERT_TRUE(append(first, 1).ok());
  EXPECT_EQ(growths_[0].shared, 1) << "still shared";
  EXPECT_EQ(growths_[0].own, 6) << "the page that was taken first, and given back";
}

TEST_F(PageNumbersTest, AnUndoneAppendLeavesNoTrace) {
  const std::int64_t first = sequence_of(6), second = share(first), both[] = {first, second};
  const std::int32_t tokens[] = {3, 9};
  ASSERT_TRUE(pool_.append(both, tokens, &growths_).ok());
  pool_.undo(growths_);
  EXPECT_EQ(pool_.free_pages(), 6);
  EXPECT_EQ(pages_of(first), pages_of(second));
  for (const std::int64_t sequence : both) ASSERT_TRUE(pool_.free({&sequence, 1}).ok());
  EXPECT_EQ(pool_.free_pages(), 8);
}

TEST_F(PageNumbersTest, SequencesThatAreNotThereAreRefusedByName) {
  PageNumbers other(8, 4);
  const std::int64_t freed = sequence_of(3), foreign = other.add(), kept = sequence_of(1);
  ASSERT_TRUE(pool_.free({&freed, 1}).ok());
  const auto refuses = [&](std::int64_t sequence, const std::string& words) {
    const std::int64_t both[] = {kept, sequence};
    const std::int32_t tokens[] = {1, 1};
    std::int64_t answer = 0;
    std::int32_t row[16];
    const std::string name = "sequence " + std::to_string(sequence) + " " + words;
    expect_refused(pool_.free(both), Code::kOption, name);
    expect_refused(pool_.append(both, tokens, &growths_), Code::kOption, name);
    expect_refused(pool_.share(sequence, -1, &answer), Code::kOption, name);
    expect_refused(pool_.tokens(sequence, &answer), Code::kOption, name);
    expect_refused(pool_.table(both, 8, row, nullptr), Code::kOption, name);
  };
  refuses(freed, "was freed before");
  refuses(foreign, "is none of this pool's");
  refuses(kept + 1, "is none of this pool's");
  refuses(-1, "is none of this pool's");
  const std::int64_t twice[] = {kept, kept};
  expect_refused(pool_.free(twice), Code::kOption, "is to be freed twice");
  EXPECT_EQ(pages_of(kept).size(), 1u) << "what was refused freed and grew nothing";
  EXPECT_EQ(pool_.free_pages(), 7);
}

TEST_F(PageNumbersTest, LengthsThatMeanNothingAreRefused) {
  const std::int64_t sequence = sequence_of(3);
  expect_refused(append(sequence, -1), Code::kSize, "is -1, expected 0 to 2147483644");
  expect_refused(append(sequence, 2147483645), Code::kSize, "is 2147483645, expected 0 to 2147483644");
  expect_refused(append(sequence, 2147483644), Code::kOutOfMemory, "needs 536870911 more pages");
}

TEST_F(PageNumbersTest, ATableHasARowASequence) {
  const std::int64_t rows[] = {sequence_of(5), sequence_of(0), sequence_of(9)};
  std::int32_t table[12], lengths[3];
  ASSERT_TRUE(pool_.table(rows, 4, table, lengths).ok());
  EXPECT_EQ(std::vector(table, table + 12), (std::vector<std::int32_t>{0, 1, 0, 0, 0, 0, 0, 0, 2, 3, 4, 0}));
  EXPECT_EQ(std::vector(lengths, lengths + 3), (std::vector<std::int32_t>{5, 0, 9}));
  expect_refused(pool_.table(rows, 2, table, lengths), Code::kShape, "has 2 columns, but sequence");
}

// Every token of every sequence in the slot that it was written to, copies of pages copied.
class Model {
 public:
  static constexpr std::int32_t kPages = 40, kPage = 3;
  void step(std::mt19937* random) {
    const std::uint32_t what = (*random)() % 10;
    if (tokens_.empty() || what == 0) {
      tokens_[pool_.add()];
    } else if (what < 7) {
      append(any(random), static_cast<std::int32_t>((*random)() % 5));
    } else if (what == 7) {
      share(any(random), (*random)());
    } else {
      const std::int64_t sequence = any(random);
      ASSERT_TRUE(pool_.free({&sequence, 1}).ok());
      tokens_.erase(sequence);
    }
    check();
  }

 private:
  std::int64_t any(std::mt19937* random) {
    return std::next(tokens_.begin(), static_cast<std::ptrdiff_t>((*random)() % tokens_.size()))->first;
  }
  std::vector<std::int32_t> row(std::int64_t sequence) {
    std::vector<std::int32_t> pages(kPages + 1);
    EXPECT_TRUE(pool_.table({&sequence, 1}, kPages + 1, pages.data(), nullptr).ok());
    return pages;
  }
  int& slot(const std::vector<std::int32_t>& pages, std::size_t token) {
    return memory_[pages[token / kPage]][token % kPage];
  }
  void append(std::int64_t sequence, std::int32_t count) {
    Growths growths;
    const std::int32_t free = pool_.free_pages();
    const Status status = pool_.append({&sequence, 1}, &count, &growths);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kOutOfMemory);
      EXPECT_EQ(pool_.free_pages(), free);
      return;
    }
    for (const PageGrowth& growth : growths)
      if (growth.shared >= 0)
        for (std::size_t at = 0; at < kPage; ++at) memory_[growth.own][at] = memory_[growth.shared][at];
    const std::vector<std::int32_t> pages = row(sequence);
    for (std::vector<int>& own = tokens_[sequence]; count > 0; --count) {
      slot(pages, own.size()) = ++last_;
      own.push_back(last_);
    }
  }
  void share(std::int64_t sequence, std::uint32_t chosen) {
    const std::vector<int> own = tokens_[sequence];
    const std::size_t count = chosen % (own.size() + 1);
    std::int64_t copy = 0;
    ASSERT_TRUE(pool_.share(sequence, static_cast<std::int64_t>(count), &copy).ok());
    tokens_[copy] = {own.begin(), own.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  void check() {
    std::set<std::int32_t> held;
    for (const auto& [sequence, own] : tokens_) {
      const std::vector<std::int32_t> pages = row(sequence);
      for (std::size_t token = 0; token < own.size(); ++token) {
        ASSERT_EQ(slot(pages, token), own[token]) << "token " << token << " of sequence " << sequence;
        held.insert(pages[token / kPage]);
      }
    }
    ASSERT_EQ(static_cast<int>(held.size()), kPages - pool_.free_pages());
  }

  PageNumbers pool_{kPages, kPage};
  std::map<std::int64_t, std::vector<int>> tokens_;
  std::map<std::int32_t, int[kPage]> memory_;
  int last_ = 0;
};

TEST(PageNumbersModel, NoTokenIsEverOverwritten) {
  Model model;
  std::mt19937 random(5);
  for (int step = 0; step < 20000 && !::testing::Test::HasFatalFailure(); ++step) model.step(&random);
}

}  // namespace
}  // namespace gqa::test
