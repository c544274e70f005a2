// shapes_test.cc: what --shape, --shapes and --model expand to.
#include "tools/cache/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "search/problem/signature.h"
#include "tests/search/from_text.h"
#include "tools/cache/errors.h"
#include "tools/cache/models.h"

namespace gqa::tools {
namespace {

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Usage& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Models, TableIsSane) {
  std::set<std::string_view> names;
  for (const Model& model : models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name << " twice";
    for (const Problem& shape : model_shapes(model.name)) EXPECT_TRUE(check(shape).ok()) << to_text(shape);
  }
  EXPECT_GE(names.size(), 13u);
}

TEST(Models, ExpandToPrefillAndDecode) {
  const std::vector<Problem> shapes = model_shapes("llama-3-8b");
  ASSERT_EQ(shapes.size(), 17u);
  EXPECT_EQ(shapes.front(), problem_of("b=1,hq=32,hk=8,sq=512,sk=512,d=128,dtype=bf16,causal"));
  EXPECT_EQ(shapes[4], problem_of("b=1,hq=32,hk=8,sq=8192,sk=8192,d=128,dtype=bf16,causal"));
  EXPECT_EQ(shapes[5], problem_of("b=1,hq=32,hk=8,sq=1,sk=1024,d=128,dtype=bf16"));
  EXPECT_EQ(shapes.back(), problem_of("b=64,hq=32,hk=8,sq=1,sk=16384,d=128,dtype=bf16"));
  EXPECT_EQ(std::count_if(shapes.begin(), shapes.end(), [](const Problem& p) { return p.causal(); }), 5);
}

TEST(Models, ShapesAreTheirOwnSignatures) {
  for (const Problem& shape : model_shapes("qwen3-30b-a3b"))
    EXPECT_EQ(shape, Signature(shape).problem()) << to_text(shape);
}

TEST(Models, RanksDivideTheHeads) {
  const Problem first = model_shapes("llama-3-70b,tp=8").front();
  EXPECT_EQ(first.q_heads, 8);
  EXPECT_EQ(first.kv_heads, 1);
  EXPECT_EQ(first.head_dim, 128);
  EXPECT_EQ(model_shapes(" phi-4 , tp=5 ").front().kv_heads, 2);
}

TEST(Models, RefuseWhatCannotBe) {
  // 16 divides 64 query heads but leaves less than one key/value head.
  EXPECT_TRUE(contains(refusal([] { (void)model_shapes("llama-3-70b,tp=16"); }), "the 8 key/value heads"));
  EXPECT_TRUE(contains(refusal([] { (void)model_shapes("llama-3-8b,tp=3"); }), "the 32 query heads"));
  EXPECT_TRUE(contains(refusal([] { (void)model_shapes("llama-3-8b,tp=0"); }), "tp"));
  EXPECT_TRUE(contains(refusal([] { (void)model_shapes("llama-3-8b,tp="); }), "tp"));
  EXPECT_TRUE(contains(refusal([] { (void)model_shapes("llama-3-8b,ep=2"); }), "'ep=2'"));
  EXPECT_TRUE(contains(refusal([] { (void)model_shapes("llama-3-8b,tp=2,tp=4"); }), "2 options"));
  const std::string unknown = refusal([] { (void)model_shapes("llama-9"); });
  for (const Model& model : models()) EXPECT_TRUE(contains(unknown, std::string(model.name))) << unknown;
}

TEST(Models, LayersHaveTheModelsWindowCapAndSink) {
  const std::vector<Problem> shapes = model_shapes("gpt-oss-20b");
  ASSERT_EQ(shapes.size(), 34u);
  EXPECT_EQ(shapes[0], problem_of("hq=64,hk=8,sq=512,sk=512,d=64,causal,sink"));
  EXPECT_EQ(shapes[17], problem_of("hq=64,hk=8,sq=512,sk=512,d=64,causal,left=127,sink"));
  // 512 to 4096 keys: a window of 4096 hides nothing, and the shape stands there already.
  const std::vector<Problem> gemma = model_shapes("gemma-2-9b");
  EXPECT_EQ(gemma.size(), 17u + 1u + 4u);
  EXPECT_EQ(gemma.back(), problem_of("b=64,hq=16,hk=8,sq=1,sk=16384,d=256,left=4095,softcap"));
}

TEST(Serving, IsTheRangeOfEachLayer) {
  const std::vector<Problem> shapes = serving_shapes("gpt-oss-20b,tp=2", "batch=1..2,kv=64..256,page=16");
  const std::vector<Problem> expected = {problem_of("b=1,hq=32,hk=4,sq=1,sk=64,d=64,page=16,lens,sink"),
                                         problem_of("b=1,hq=32,hk=4,sq=1,sk=96,d=64,page=16,lens,sink"),
                                         problem_of("b=1,hq=32,hk=4,sq=1,sk=128,d=64,page=16,lens,sink"),
                                         problem_of("b=1,hq=32,hk=4,sq=1,sk=192,d=64,page=16,lens,sink"),
                                         problem_of("b=1,hq=32,hk=4,sq=1,sk=192,d=64,left=127,page=16,lens,sink")};
  for (const Problem& problem : expected)
    EXPECT_EQ(std::count(shapes.begin(), shapes.end(), problem), problem.windowed() || problem.kv_len > 128 ? 1 : 2)
        << to_text(problem);
  ShapeOptions options;
  options.models = {"gpt-oss-20b,tp=2"};
  options.serves = {"batch=1..2,kv=64..256,page=16"};
  EXPECT_EQ(read_shapes(options).size(), 2u * (5u + 2u));
  options.serves.push_back("batch=2,kv=256,page=16,lse");
  EXPECT_EQ(read_shapes(options).size(), 2u * (5u + 2u) + 2u);
}

TEST(Serving, SaysWhatIsWrong) {
  const auto refused = [](const ShapeOptions& options) { return refusal([&options] { (void)read_shapes(options); }); };
  ShapeOptions options;
  options.serves = {"batch=1..8,kv=1k"};
  EXPECT_TRUE(contains(refused(options), "without a model")) << refused(options);
  options.models = {"llama-3-8b"};
  EXPECT_EQ(refused(options), "");
  options.serves = {"batch=8..1,kv=1k"};
  EXPECT_TRUE(contains(refused(options), "--serve 'batch=8..1,kv=1k': batch='8..1' runs backwards"))
      << refused(options);
  EXPECT_TRUE(contains(refused(options), "gqa-cache help serve"));
}

TEST(Shapes, JsonStringsAndObjectsMeanTheSame) {
  const std::vector<Problem> shapes = shapes_from_json(
      R"(["b=2,hq=8,hk=2,sq=512,d=64,dtype=f16,causal",
          {"b": 2, "hq": 8, "hk": 2, "sq": 512, "d": 64, "dtype": "f16", "causal": true},
          {"hq": 8, "sq": 512, "d": 192, "dv": 128, "causal": false, "align": 2},
          {"hq": 8, "sq": 512, "d": 64, "lse": true}])",
      "test");
  ASSERT_EQ(shapes.size(), 4u);
  EXPECT_EQ(shapes[3], problem_of("hq=8,sq=512,d=64,lse"));
  EXPECT_EQ(shapes[0], shapes[1]);
  EXPECT_EQ(shapes[2], problem_of("hq=8,sq=512,d=192,dv=128,align=2"));
}

TEST(Shapes, JsonErrorsNameTheElement) {
  const auto refused = [](const char* text) { return refusal([text] { (void)shapes_from_json(text, "my.json"); }); };
  EXPECT_TRUE(contains(refused("["), "my.json is not JSON"));
  EXPECT_TRUE(contains(refused("7"), "expected an array"));
  EXPECT_TRUE(contains(refused(R"(["hq=8,sq=512,d=64", null])"), "element 2 is a JSON null"));
  EXPECT_TRUE(contains(refused(R"([{"hq": 8, "sq": 512, "d": 64, "heads": 8}])"), "'heads'"));
  EXPECT_TRUE(contains(refused(R"([{"hq": 8, "sq": 512, "d": [64]}])"), "'d' is an array"));
  const std::string deep = "[{\"hq\": " + std::string(100000, '[') + std::string(100000, ']') + "}]";
  EXPECT_TRUE(contains(refused(deep.c_str()), "'hq' is an array"));
  EXPECT_TRUE(contains(refused(R"([{"hq": 8, "sq": 99999999999, "d": 64}])"), "99999999999"));
  EXPECT_TRUE(contains(refused(R"([{"sk": 64}])"), "hq is missing"));
  EXPECT_TRUE(contains(refused("[\"\xff\"]"), "my.json"));
}

TEST(Shapes, EachSignatureOnceInTheOrderGiven) {
  ShapeOptions options;
  options.specs = {"hq=4,sq=1000,d=64", "hq=4,sq=8,d=64", "hq=4,sq=1024,d=64"};
  options.models = {"llama-3-8b", "mistral-7b"};  // the same heads
  const std::vector<Problem> shapes = read_shapes(options);
  ASSERT_EQ(shapes.size(), 2u + 17u);
  EXPECT_EQ(shapes[0], problem_of("hq=4,sq=1024,d=64"));
  EXPECT_EQ(shapes[1], Signature(problem_of("hq=4,sq=8,d=64")).problem());
  options = {};
  options.specs = {"hq=4,sq=8,d=64", "hq=4,sq=8,d=64,lse"};  // tuned apart
  EXPECT_EQ(read_shapes(options).size(), 2u);
  EXPECT_TRUE(read_shapes({}).empty());
}

}  // namespace
}  // namespace gqa::tools
