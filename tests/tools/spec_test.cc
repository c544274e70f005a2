// spec_test.cc: what `gqa-cache help spec` says is what the parsers do.
#include "tools/cache/commands/spec.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "search/problem/problem.h"
#include "search/problem/serving_range.h"
#include "search/problem/signature.h"
#include "search/text.h"
#include "tools/cache/models.h"
#include "tools/cache/shapes.h"

namespace gqa::tools {
namespace {

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

Problem minimal() {
  Problem problem;
  EXPECT_TRUE(parse("hq=4,sq=8,d=64", &problem).ok());
  return problem;
}

TEST(Spec, ExamplesAreRead) {
  const std::vector<std::string> specs = matches(spec_text(), "\n  ((?:b|hq)=[^ \n]*,[^ \n]*)");
  ASSERT_GE(specs.size(), 5u);
  for (const std::string& spec : specs) {
    Problem problem;
    const Status status = parse(spec, &problem);
    EXPECT_TRUE(status.ok()) << spec << ": " << status.message();
  }
}

TEST(Spec, ShapesFileExampleIsRead) {
  const std::vector<std::string> arrays = matches(spec_text(), "\n  (\\[.*\\])\n");
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(shapes_from_json(arrays[0], "example").size(), 2u);
}

// The parser lists its keys when it meets one that it does not know.
TEST(Spec, KeysAreTheParsers) {
  Problem problem;
  const std::string message = parse("no_key=1", &problem).message();
  const std::string known = message.substr(message.find("expected ") + 9);
  const std::vector<std::string> parsers = matches(known, "([a-z]+)(?:,|$| or)");
  const std::vector<std::string> told = matches(spec_text(), "\n  ([a-z]+)(?:=[A-Z]+)?  +[^ =]+ ");
  const std::set<std::string> keys(parsers.begin(), parsers.end());
  EXPECT_EQ(keys.size(), 24u) << known;
  for (const std::string& key : keys) EXPECT_EQ(std::count(told.begin(), told.end(), key), 1) << key;
}

TEST(Spec, HeadDimsAreTheParsers) {
  const std::vector<std::string> lists = matches(spec_text(), "each one of ([0-9, ]+)\\.");
  ASSERT_EQ(lists.size(), 1u);
  std::set<std::int64_t> told;
  for (const std::string_view item : split_text(lists[0], ',')) told.insert(std::stoi(std::string(trim(item))));
  for (std::int32_t dim = 1; dim <= 1024; ++dim) {
    Problem problem = minimal();
    problem.head_dim = dim;
    EXPECT_EQ(check(problem).ok(), told.count(dim) == 1) << dim;
  }
}

TEST(Spec, DefaultsAndRangesAreTheParsers) {
  Problem all;
  ASSERT_TRUE(
      parse("b=1,hq=4,hk=4,sq=8,sk=8,d=64,dv=64,dtype=bf16,causal=0,align=16,notma=0,ktrans=0,lse=0", &all).ok());
  EXPECT_EQ(minimal(), all);
  for (const char* dtype : {"bf16", "bfloat16", "f16", "fp16", "float16"}) {
    Problem problem;
    EXPECT_TRUE(parse(std::string("hq=4,sq=8,d=64,dtype=") + dtype, &problem).ok()) << dtype;
    EXPECT_NE(spec_text().find(dtype), std::string::npos) << dtype;
  }
  const std::vector<std::string> steps = matches(spec_text(), "rounded up to ([0-9, ]+),");
  ASSERT_EQ(steps.size(), 1u);
  std::int32_t last = 0;
  for (const std::string_view item : split_text(steps[0], ',')) {
    const std::int32_t step = std::stoi(std::string(trim(item)));
    EXPECT_EQ(bucket(last + 1), step);
    EXPECT_EQ(bucket(step), step);
    last = step;
  }
  EXPECT_GE(last, 48);
}

// The parser lists its keys when it meets one that it does not know.
TEST(Serving, KeysAndExamplesAreTheParsers) {
  ServingRange range;
  const std::string message = parse("no_key=1", &range).message();
  const std::vector<std::string> keys = matches(message.substr(message.find("expected ") + 9), "([a-z]+)(?:,|$| or)");
  const std::vector<std::string> told = matches(serving_text(), "\n  ([a-z]+)(?:=[A-Z]+)?  +[^ =]+ ");
  EXPECT_EQ(std::set<std::string>(told.begin(), told.end()), std::set<std::string>(keys.begin(), keys.end()));
  EXPECT_EQ(keys.size(), 8u) << message;
  const std::vector<std::string> examples = matches(serving_text(), "(batch=[0-9][^ \n]*)");
  EXPECT_GE(examples.size(), 5u);
  for (const std::string& example : examples) {
    const Status status = parse(example, &range);
    EXPECT_TRUE(status.ok()) << example << ": " << status.message();
  }
}

TEST(Spec, EveryModelStandsThere) {
  for (const Model& model : models()) {
    const std::string text = spec_text();
    EXPECT_NE(text.find("\n  " + std::string(model.name) + " "), std::string::npos) << model.name;
  }
}

}  // namespace
}  // namespace gqa::tools
