// layers_test.cc: several files as one store.
#include "cache/layers.h"

#include <cstdlib>

#include "cache/layer_paths.h"
#include "support.h"

namespace gqa::cache {
namespace {

using Paths = std::vector<std::string>;

TEST(LayerPaths, AColonSeparatesUnlessABackslashStandsBeforeIt) {
  EXPECT_EQ(layer_paths("/a.db"), Paths({"/a.db"}));
  EXPECT_EQ(layer_paths("/a.db:/b.db:/c.db"), Paths({"/a.db", "/b.db", "/c.db"}));
  EXPECT_EQ(layer_paths("/a\\:1.db:/b.db"), Paths({"/a:1.db", "/b.db"}));
  EXPECT_EQ(layer_paths("/a\\b.db"), Paths({"/a\\b.db"}));
  EXPECT_EQ(layer_paths(":/a.db::/b.db:/a.db:"), Paths({"/a.db", "/b.db"}));
  for (const char* path : {"/a:b.db", "/::", "/plain.db", "/a\\b.db"})
    EXPECT_EQ(layer_paths(as_layer(path)), Paths({path})) << path;
}

TEST(LayerPaths, TheVariableNamesThemAndTheFirstIsTheDefault) {
  EXPECT_EQ(exit_code(spawn([] {
              setenv("HOME", "/home/a:b", 1);
              setenv("GQA_CACHE", "~/user.db:/image.db", 1);
              if (layer_paths("") != Paths({"/home/a:b/user.db", "/image.db"})) return 1;
              if (Store::default_path() != "/home/a:b/user.db") return 2;
              if (layer_paths("/x.db") != Paths({"/x.db"})) return 3;
              unsetenv("XDG_CACHE_HOME");
              for (const char* nothing : {"", ":", "::"}) {
                setenv("GQA_CACHE", nothing, 1);
                if (layer_paths("") != Paths({"/home/a:b/.cache/gqa/cache.db"})) return 4;
              }
              return 0;
            })),
            0);
}

class Layers : public testing::Test {
 protected:
  Layers() : first_(folder_.file("user.db")), image_(folder_.file("image.db")), site_(folder_.file("site.db")) {
    put_both(*open_store(image_), "a", 10);
    put_both(*open_store(site_), "a", 20);
    put_both(*open_store(site_), "b", 30);
    image_bytes_ = read_bytes(image_);
    site_bytes_ = read_bytes(site_);
  }
  std::string all() const { return first_ + ":" + image_ + ":" + site_; }
  double median(Store& store, const std::string& name) const {
    const auto row = store.find_winner(sample_key(name), kCompiler);
    return row ? row->median_us : -1;
  }
  void expect_beneath_untouched() const {
    EXPECT_EQ(read_bytes(image_), image_bytes_);
    EXPECT_EQ(read_bytes(site_), site_bytes_);
  }
  const TempFolder folder_;
  const std::string first_, image_, site_;
  std::string image_bytes_, site_bytes_;
};

TEST_F(Layers, AreLookedUpInOrderAndLearntIntoTheFirst) {
  const auto store = open_store(all());
  EXPECT_EQ(store->mode(), Mode::kReadWrite);
  EXPECT_EQ(store->path(), first_);
  EXPECT_EQ(median(*store, "a"), 10);
  EXPECT_EQ(median(*store, "b"), 30);
  EXPECT_TRUE(store->find_kernel(hash128("b")));
  ASSERT_TRUE(put_both(*store, "c", 40));
  ASSERT_TRUE(put_both(*store, "a", 5));
  EXPECT_EQ(median(*store, "a"), 5);
  EXPECT_EQ(store->list_winners().size(), 3u) << "each key once";
  EXPECT_EQ(store->list_kernels().size(), 3u);
  EXPECT_EQ(open_store(first_)->stats().winners, 2);
  EXPECT_EQ(joined(store->take_warnings()), "");
  expect_beneath_untouched();
}

TEST_F(Layers, AWinnerWhoseKernelLiesBeneathIsWholeInTheFirst) {
  ASSERT_TRUE(open_store(all())->put_winner(sample_winner("b", 3)));
  const auto alone = open_store(first_);
  EXPECT_EQ(median(*alone, "b"), 3);
  ASSERT_TRUE(alone->find_kernel(hash128("b")));
  EXPECT_EQ(alone->find_kernel(hash128("b"))->cubin, sample_kernel("b").cubin);
}

TEST_F(Layers, ATunedWinnerBeneathGoesBeforeAGuessAbove) {
  WinnerRow guess = sample_winner("a", 0);
  guess.provisional = true;
  const auto user = open_store(first_);
  ASSERT_TRUE(user->put_kernel(sample_kernel("a")) && user->put_winner(guess));
  EXPECT_EQ(median(*open_store(all()), "a"), 10);
}

TEST_F(Layers, AWinnerBeneathIsNotForgottenAndItsFileIsNamed) {
  const auto store = open_store(all());
  EXPECT_EQ(store->forget(sample_winner("b").id()).winners, 0);
  const std::string said = joined(store->take_warnings());
  EXPECT_TRUE(contains(said, site_)) << said;
  EXPECT_EQ(median(*store, "b"), 30);
  ASSERT_TRUE(put_both(*store, "c"));
  EXPECT_EQ(store->forget(sample_winner("c").id()).winners, 1);
  expect_beneath_untouched();
}

TEST_F(Layers, AnExportHasTheRowsOfAll) {
  const auto store = open_store(all());
  ASSERT_TRUE(put_both(*store, "c", 40));
  const std::string out = folder_.file("out:1.gqa");
  ASSERT_EQ(store->export_to(out), "");
  const auto exported = open_store(as_layer(out), Mode::kReadOnly);
  EXPECT_EQ(exported->list_winners().size(), 3u);
  EXPECT_TRUE(exported->find_kernel(hash128("b")));
  EXPECT_TRUE(files_in(folder_.path(), ".layers-").empty());
}

TEST_F(Layers, OneThatCannotBeUsedIsNamedAndTheOthersServe) {
  write_bytes(image_, "not a cache");
  const auto store = open_store(first_ + ":" + image_ + ":" + folder_.file("absent.db") + ":" + site_);
  EXPECT_EQ(store->mode(), Mode::kReadWrite);
  EXPECT_EQ(median(*store, "a"), 20);
  const std::string said = joined(store->take_warnings());
  EXPECT_TRUE(contains(said, image_)) << said;
  EXPECT_TRUE(contains(said, "absent.db")) << said;
  EXPECT_EQ(read_bytes(image_), "not a cache");
}

TEST_F(Layers, AReaderNeedsNoFirstFile) {
  const auto store = open_store(all(), Mode::kReadOnly);
  EXPECT_EQ(store->mode(), Mode::kReadOnly);
  EXPECT_EQ(median(*store, "b"), 30);
  EXPECT_EQ(joined(store->take_warnings()), "");
  EXPECT_FALSE(std::filesystem::exists(first_));
}

TEST_F(Layers, AFirstFileThatCannotBeWrittenLeavesThoseBeneathReadable) {
  write_bytes(first_, "not a cache");
  const auto store = open_store(all());
  EXPECT_EQ(store->mode(), Mode::kReadOnly);
  EXPECT_EQ(median(*store, "a"), 10);
  EXPECT_FALSE(put_both(*store, "c"));
  EXPECT_EQ(read_bytes(first_), "not a cache");
}

// A winner's and a kernel's origin; an own file's is "".
TEST_F(Layers, WhatLiesBeneathIsFromElsewhereUntilTheFirstHasIt) {
  const auto store = open_store(all());
  ASSERT_TRUE(put_both(*store, "c"));
  EXPECT_EQ(store->find_winner(sample_key("a"), kCompiler)->elsewhere, image_);
  EXPECT_EQ(store->find_winner(sample_key("b"), kCompiler)->elsewhere, site_);
  EXPECT_EQ(store->find_kernel(hash128("b"))->elsewhere, site_);
  EXPECT_EQ(store->find_winner(sample_key("c"), kCompiler)->elsewhere, "");
  EXPECT_EQ(store->find_kernel(hash128("c"))->elsewhere, "");
  ASSERT_TRUE(store->put_winner(*store->find_winner(sample_key("b"), kCompiler)));
  EXPECT_EQ(store->find_winner(sample_key("b"), kCompiler)->elsewhere, "");
  EXPECT_EQ(store->find_kernel(hash128("b"))->elsewhere, "");
  for (const WinnerRow& row : store->list_winners())
    EXPECT_EQ(row.elsewhere, row.key.text() == sample_key("a").text() ? image_ : "");
  expect_beneath_untouched();
}

TEST_F(Layers, WithoutAFirstFileAReadersRowsAreAllFromElsewhere) {
  EXPECT_EQ(open_store(all(), Mode::kReadOnly)->find_winner(sample_key("a"), kCompiler)->elsewhere, image_);
  EXPECT_EQ(open_store(image_, Mode::kReadOnly)->find_winner(sample_key("a"), kCompiler)->elsewhere, "")
      << "a file that is named alone is one's own";
}

TEST_F(Layers, DamageBeneathIsToldAndNotRepaired) {
  raw_sql(site_, "UPDATE winners SET median_us=1");
  const std::string before = read_bytes(site_);
  const auto store = open_store(all());
  const std::vector<Damage> found = store->verify(true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(contains(found.front().what, site_)) << found.front().what;
  EXPECT_FALSE(found.front().repaired);
  EXPECT_EQ(read_bytes(site_), before);
}

TEST_F(Layers, OffOpensNone) {
  const auto store = open_store(all(), Mode::kOff);
  EXPECT_EQ(store->mode(), Mode::kOff);
  EXPECT_EQ(median(*store, "a"), -1);
}

}  // namespace
}  // namespace gqa::cache
