// words_test.cc: what people write in place of what is meant: short numbers and mistyped words.
#include <gtest/gtest.h>

#include "tools/cache/numbers.h"
#include "tools/cache/shapes.h"
#include "tools/cache/suggestion.h"

namespace gqa::tools {
namespace {

TEST(Numbers, AKIs1024AndAnMItsSquare) {
  EXPECT_EQ(plain_numbers("hq=32,sq=4k,sk=1M,d=128"), "hq=32,sq=4096,sk=1048576,d=128");
  EXPECT_EQ(plain_numbers("batch=1..2K,kv=1k..32k"), "batch=1..2048,kv=1024..32768");
  EXPECT_EQ(plain_numbers("4k"), "4096");
}

TEST(Numbers, WhatIsNoWholeNumberStays) {
  for (const char* text : {"", "k", "llama-3-8b", "dtype=f16", "0.5k", "x4k", "4kk", "4 k", "4m",
                           "9223372036854775807k", "scores=div0+tanh+mul0"})
    EXPECT_EQ(plain_numbers(text), text);
}

TEST(Numbers, ShapesTakeThem) {
  ShapeOptions longhand, shorthand;
  longhand.specs = {"hq=32,sq=4096,sk=1048576,d=128"};
  shorthand.specs = {"hq=32,sq=4k,sk=1M,d=128"};
  EXPECT_EQ(read_shapes(shorthand), read_shapes(longhand));
  EXPECT_EQ(shapes_from_json(R"([{"hq": 32, "sq": "4k", "d": 128}])", "test"),
            shapes_from_json(R"(["hq=32,sq=4096,d=128"])", "test"));
  longhand.specs = shorthand.specs = {};
  longhand.models = shorthand.models = {"llama-3-8b"};
  longhand.serves = {"batch=1..4,kv=1048576"};
  shorthand.serves = {"batch=1..4,kv=1M"};
  EXPECT_EQ(read_shapes(shorthand), read_shapes(longhand));
}

TEST(Suggestion, CountsEdits) {
  EXPECT_EQ(edits("list", "list"), 0);
  EXPECT_EQ(edits("lsit", "list"), 1);
  EXPECT_EQ(edits("lis", "list"), 1);
  EXPECT_EQ(edits("exprot", "export"), 1);
  EXPECT_EQ(edits("", "abc"), 3);
  EXPECT_EQ(edits("warm", "show"), 4);
}

TEST(Suggestion, TheNearestWordThatIsNear) {
  const std::vector<std::string> words = {"warm", "list", "stats", "--unused-for"};
  EXPECT_EQ(did_you_mean("lits", words), "; did you mean 'list'?");
  EXPECT_EQ(did_you_mean("stat", words), "; did you mean 'stats'?");
  EXPECT_EQ(did_you_mean("--unused_for", words), "; did you mean '--unused-for'?");
  EXPECT_EQ(did_you_mean("polish", words), "");
  EXPECT_EQ(did_you_mean("", words), "");
  EXPECT_EQ(did_you_mean(std::string(100000, 'a'), words), "");
}

}  // namespace
}  // namespace gqa::tools
