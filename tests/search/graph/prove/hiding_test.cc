// hiding_test.cc: which inputs hide keys, what is hidden, and that every program of the search bears it.
#include "search/graph/prove/hiding.h"

#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/masked_graphs.h"

namespace gqa {
namespace {

using masked::kMasks;
using masked::kSpellings;

constexpr masked::Shape kShape = {2, 24, 300, 16};

std::string hidings_text(const std::string& text) {
  std::string found;
  const KernelGraph graph = graph_of(text);
  for (const Hiding& hiding : find_hidings(graph)) {
    constexpr const char* kBy[] = {"lowest", "highest", "zero"};
    found += graph.tensor(graph.inputs()[hiding.input]).name + " " + kBy[static_cast<int>(hiding.by)] + " " +
             std::to_string(hiding.key_dim) + ";";
  }
  return found;
}

TEST(Hiding, FindsTheMaskInEachSpelling) {
  for (const masked::Spelling& spelling : kSpellings) {
    const std::string name = spelling.name;
    if (name == "maximum of other scores") continue;  // the mask is read by a clamp too
    const std::string by = name == "subtracted" ? "highest" : name == "weights multiplied" ? "zero" : "lowest";
    EXPECT_EQ(hidings_text(masked::text_of(spelling, kShape)), "m " + by + " 2;") << name;
  }
}

TEST(Hiding, FollowsViewsAndSigns) {
  const std::string q = "graph 1\nq = input f32[4,6,8]\nk = input f32[4,8,10]\na = matmul(q, k)\n";
  EXPECT_EQ(hidings_text(q + "m = input f32[10,6]\nt = transpose(m) dims=[1,0]\nb = add(t, a)\np = softmax(b) dim=2\n"),
            "m lowest 0;");
  EXPECT_EQ(hidings_text(q + "m = input f32[4,1,10]\nn = scale(m) c=-2\nb = add(a, n)\np = softmax(b) dim=-1\n"),
            "m highest 2;");
  EXPECT_EQ(hidings_text(q + "m = input f32[6,1]\nb = add(a, m)\np = softmax(b) dim=-1\n"), "m lowest -1;");
  EXPECT_EQ(hidings_text(q + "m = input f32[10]\nb = mul(a, m)\np = softmax(b) dim=-1\n"), "m zero 0;");
  EXPECT_EQ(hidings_text("graph 1\nx = input f32[5,7]\np = softmax(x) dim=0\n"), "x lowest 0;");
}

// Read elsewhere too, a hidden element would be an infinity that means something.
TEST(Hiding, LeavesOutWhatIsReadOtherwise) {
  const std::string q = "graph 1\nq = input f32[4,6,8]\nk = input f32[4,8,10]\na = matmul(q, k)\nm = input f32[6,10]\n";
  for (const char* rest : {"b = add(a, m)\nt = tanh(b)\np = softmax(t) dim=-1\n", "b = add(a, m)\n",
                           "b = add(a, m)\np = softmax(b) dim=-1\nr = square(m)\n",
                           "b = add(a, m)\nc = sub(b, m)\nd = add(c, m)\ne = exp(m)\nf = sub(e, m)\n",
                           "b = add(a, m)\nc = mul(b, b)\np = softmax(c) dim=-1\n", "b = mul(a, m)\nc = tanh(b)\n"})
    EXPECT_EQ(hidings_text(q + rest), "") << rest;
}

TEST(Hiding, HidesFirstLastAndMiddleTilesAndWholeRows) {
  constexpr std::int64_t kKeys = 1024, kTile = 64;
  const auto tile_is_hidden = [](HiddenKeys which, std::int64_t tile) {
    for (std::int64_t key = tile * kTile; key < (tile + 1) * kTile; ++key)
      if (!hides(which, key, kKeys)) return false;
    return true;
  };
  for (const HiddenKeys few : {HiddenKeys::kAllButLast, HiddenKeys::kScattered}) EXPECT_TRUE(tile_is_hidden(few, 0));
  EXPECT_TRUE(tile_is_hidden(HiddenKeys::kScattered, 15) && tile_is_hidden(HiddenKeys::kScattered, 7));
  EXPECT_FALSE(tile_is_hidden(HiddenKeys::kScattered, 4));
  EXPECT_TRUE(tile_is_hidden(HiddenKeys::kAllButFirst, 15) && !tile_is_hidden(HiddenKeys::kAllButFirst, 0));
  EXPECT_TRUE(tile_is_hidden(HiddenKeys::kFirstHalf, 7) && !tile_is_hidden(HiddenKeys::kFirstHalf, 8));
  EXPECT_TRUE(tile_is_hidden(HiddenKeys::kLastHalf, 8) && !tile_is_hidden(HiddenKeys::kLastHalf, 7));
  EXPECT_TRUE(tile_is_hidden(HiddenKeys::kMiddle, 8) && !tile_is_hidden(HiddenKeys::kMiddle, 0));
  EXPECT_TRUE(tile_is_hidden(HiddenKeys::kAlternate, 2) && !tile_is_hidden(HiddenKeys::kAlternate, 0));
  for (std::size_t at = 0; at < kHiddenPatterns; ++at) {
    const auto which = static_cast<HiddenKeys>(at);
    for (const std::int64_t keys : {1, 2, 3, 7, 12, 1024}) {
      std::int64_t seen = 0;
      for (std::int64_t key = 0; key < keys; ++key) seen += !hides(which, key, keys);
      EXPECT_EQ(seen == 0, which == HiddenKeys::kAll) << at << " of " << keys;
    }
  }
}

class MaskedSearch : public testing::TestWithParam<std::size_t> {};

// In double, block by block: under every mask every program gives what the graph does.
TEST_P(MaskedSearch, EveryProgramBearsEveryMask) {
  const masked::Spelling& spelling = kSpellings[GetParam()];
  const KernelGraph graph = graph_of(masked::text_of(spelling, kShape));
  const SearchResult result = search(graph, "", 24);
  EXPECT_GT(result.programs.size(), 3U);
  for (const masked::Mask& mask : kMasks) {
    const auto inputs = masked::inputs_of(graph, kShape, spelling, mask);
    const auto expected = values_of(graph, inputs)[0];
    for (const RankedProgram& ranked : result.programs) {
      EXPECT_TRUE(masked::matches(values_of(ranked.program.graph, inputs)[0], expected, 1e-9))
          << spelling.name << ", " << mask.name << "\n"
          << to_text(ranked.program.graph);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spellings, MaskedSearch, testing::Range(std::size_t{0}, std::size(kSpellings)));

// One kernel with a running maximum, and parts that are merged, are still found.
TEST(MaskedSearch, FindsFlashAttentionAndFlashDecoding) {
  for (const std::size_t at : {0U, 1U, 2U}) {
    const SearchResult result = search(graph_of(masked::text_of(kSpellings[at], {2, 64, 1024, 64})), "", 40);
    EXPECT_NE(find_program(result, [](const KernelGraph& g) { return is_flash(g, 1, 1); }), nullptr) << at;
    EXPECT_NE(find_program(result, [](const KernelGraph& g) { return is_flash_decoding(g, 1, 1); }), nullptr) << at;
  }
}

// What the search once found: equal in all numbers, NaN where the first tile is hidden.
TEST(MaskedSearch, APlainSubtractionOfARunningMaximumIsNotProvedEqual) {
  for (const std::size_t at : {0U, 5U}) {  // -inf added, inf subtracted
    const KernelGraph graph = graph_of(masked::text_of(kSpellings[at], {2, 64, 1024, 64}));
    int planted = 0;
    for (const RankedProgram& ranked : search(graph, "", 24).programs) {
      const std::string text = to_text(ranked.program.graph), plain = masked::with_plain_subtraction(text);
      if (plain == text) continue;
      EquivalenceReport report;
      const Status status = prove_equal(graph, graph_of(plain), 1, &report);
      EXPECT_EQ(status.code(), Code::kNoCandidate) << plain;
      EXPECT_NE(status.message().find("where keys are hidden"), std::string::npos) << status.message();
      EXPECT_TRUE(prove_equal(graph, graph_of(text), 1, &report).ok());
      ++planted;
    }
    EXPECT_GT(planted, 3);
  }
}

}  // namespace
}  // namespace gqa
