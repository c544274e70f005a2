// forget_test.cc: one winner goes, with the kernels that only it runs.

#include <string>
#include <vector>

#include "tests/cache/support.h"

namespace gqa::cache {
namespace {

class Forget : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* kernel : {"a", "b", "shared", "loser"}) ASSERT_TRUE(store_->put_kernel(sample_kernel(kernel)));
    put("first", {"a", "shared", "a"});
    put("second", {"b", "shared"});
  }

  void put(const std::string& name, const std::vector<std::string>& kernels) {
    WinnerRow row = sample_winner(name);
    row.kernel.clear();
    for (const std::string& kernel : kernels) row.kernel += (row.kernel.empty() ? "" : " ") + hash128(kernel);
    ASSERT_TRUE(store_->put_winner(row));
  }

  std::string id(const std::string& name) const {
    WinnerRow row = sample_winner(name);
    return row.id();
  }

  bool has(const std::string& kernel) { return store_->find_kernel(hash128(kernel)).has_value(); }

  TempFolder folder_;
  const std::unique_ptr<Store> store_ = open_store(folder_.file());
};

TEST_F(Forget, TakesAWinnerAndWhatOnlyItRuns) {
  const Pruned gone = store_->forget(id("first"));
  EXPECT_EQ(gone.winners, 1);
  EXPECT_EQ(gone.kernels, 1);
  EXPECT_FALSE(store_->find_winner(sample_key("first"), kCompiler));
  EXPECT_TRUE(store_->find_winner(sample_key("second"), kCompiler));
  EXPECT_FALSE(has("a"));
  EXPECT_TRUE(has("b") && has("shared"));
  EXPECT_TRUE(has("loser")) << "no winner's before, either: prune's affair";
  EXPECT_TRUE(store_->verify(false).empty());
}

TEST_F(Forget, TheLastWinnerTakesWhatWasShared) {
  store_->forget(id("first"));
  EXPECT_EQ(store_->forget(id("second")).kernels, 2);
  EXPECT_FALSE(has("b") || has("shared"));
}

TEST_F(Forget, WhatIsNotThereIsNotCounted) {
  EXPECT_EQ(store_->forget(id("third")).winners, 0);
  EXPECT_EQ(store_->forget(hash128("a")).winners, 0) << "a kernel's key";
  EXPECT_TRUE(has("a"));
  EXPECT_EQ(store_->list_winners().size(), 2u);
  EXPECT_TRUE(store_->take_warnings().empty());
}

TEST_F(Forget, AFileThatIsOnlyReadStays) {
  const auto reader = open_store(folder_.file(), Mode::kReadOnly);
  EXPECT_EQ(reader->forget(id("first")).winners, 0);
  EXPECT_TRUE(store_->find_winner(sample_key("first"), kCompiler));
}

}  // namespace
}  // namespace gqa::cache
