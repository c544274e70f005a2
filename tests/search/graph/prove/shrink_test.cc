// shrink_test.cc: small twins keep what makes a graph right or wrong.
#include "search/graph/prove/shrink.h"

#include <sstream>

#include "tests/search/graph/graphs.h"
#include "tests/search/graph/programs.h"

namespace gqa {
namespace {

using namespace programs;  // NOLINT(google-build-using-namespace)

ShrunkPair shrunk(const std::string& a, const std::string& b, int variant = 0) {
  ShrunkPair pair;
  const Status status = shrink(graph_of(a), graph_of(b), variant, &pair);
  EXPECT_TRUE(status.ok()) << status.message();
  return pair;
}

const BlockGraph& block_of(const KernelGraph& graph, std::size_t node = 0) { return *graph.nodes()[node].block; }

const BlockNode& node_of(const BlockGraph& block, std::string_view name) {
  for (const BlockNode& node : block.nodes) {
    if (node.name == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return block.nodes[0];
}

// "2->2 64->5": each small size larger than the one before, and no larger than its original.
bool in_order(const std::string& sizes) {
  std::istringstream words(sizes);
  std::int64_t full = 0, small = 0, last = 0;
  for (char arrow[2]; words >> full >> arrow[0] >> arrow[1] >> small; last = small) {
    if (small <= last || small > full) return false;
  }
  return last > 0;
}

TEST(Shrink, EverySizeStaysInItsPlace) {
  for (const int variant : {0, 1}) {
    const std::pair<const std::string&, const std::string&> pairs[] = {{kNaive, kSplit},
                                                                       {kFlash, kSplit},
                                                                       {kMasked, kMaskedFlash},
                                                                       {kNormLinear, kNormLinearFused},
                                                                       {kGated, kGatedFused}};
    for (const auto& [a, b] : pairs) EXPECT_TRUE(in_order(shrunk(a, b, variant).sizes)) << shrunk(a, b, variant).sizes;
  }
}

TEST(Shrink, SizesStayApartAndInOrder) {
  for (const int variant : {0, 1}) {
    const KernelGraph small = shrunk(kNaive, kSplit, variant).a;
    const Dims q = small.spec(0).dims, k = small.spec(1).dims;
    EXPECT_EQ(q[0], k[0]);
    EXPECT_EQ(q[2], k[1]);
    EXPECT_LT(q[0], q[2]);
    EXPECT_LT(q[2], q[1]);
    EXPECT_LT(q[1], k[2]);
    EXPECT_LT(k[2], 100);
  }
  EXPECT_NE(shrunk(kNaive, kFlash, 0).sizes, shrunk(kNaive, kFlash, 1).sizes);
}

TEST(Shrink, BlocksStepsAndTilesStayMany) {
  const ShrunkPair pair = shrunk(kNaive, kSplit);
  const BlockGraph& block = block_of(pair.b);
  for (const std::int64_t extent : block.grid) EXPECT_GE(extent, 2);
  EXPECT_GE(block.steps, 2);
  const Axis& keys = node_of(block, "kt").axes[2];
  EXPECT_GE(keys.tile, 2);
  EXPECT_EQ(keys.share, keys.tile * block.steps);
  EXPECT_EQ(keys.full, keys.share * block.grid[2]);
  EXPECT_EQ(pair.a.spec(1).dims, pair.b.spec(1).dims);
}

TEST(Shrink, ShortTilesStayShort) {
  const ShrunkPair pair = shrunk(kMasked, kMaskedFlash);
  const BlockGraph& block = block_of(pair.b);
  const Axis& rows = block.nodes[0].axes[1];
  EXPECT_NE(rows.full % rows.share, 0);
  EXPECT_GE(block.grid[0] * rows.share, rows.full);
}

TEST(Shrink, MissingPartsStayMissing) {
  std::string text = kFlash;
  text.replace(text.find("steps=64"), 8, "steps=63");
  const ShrunkPair pair = shrunk(kNaive, text);
  const Axis& keys = node_of(block_of(pair.b), "kt").axes[2];
  EXPECT_LT(keys.tile * block_of(pair.b).steps, keys.full);
}

TEST(Shrink, WindowsStayApartAndInside) {
  std::string wider = kMaskedFlash;
  wider.replace(wider.find("left=100"), 8, "left=101");
  const ShrunkPair pair = shrunk(kMasked, wider);
  const std::int64_t user = pair.a.nodes()[2].attributes.left;
  const std::int64_t program = node_of(block_of(pair.b), "s").attributes.left;
  EXPECT_LT(user, program);
  EXPECT_GT(pair.a.spec(0).dims[1], program + 1);
  EXPECT_GT(user, 1);
  const ShrunkPair plain = shrunk(kWindow, kWindow);  // nothing cuts its dimensions
  EXPECT_GT(plain.a.spec(0).dims[0], plain.a.nodes()[0].attributes.left + 1);
}

TEST(Shrink, CountsFollowTheirDimension) {
  const ShrunkPair pair = shrunk(kNormLinear, kNormLinearFused);
  EXPECT_EQ(node_of(block_of(pair.b), "mean").attributes.count, pair.b.spec(0).dims[1]);
}

TEST(Shrink, SmallSizesStay) {
  const ShrunkPair pair =
      shrunk("graph 1\nx = input f16[1,2]\ny = exp(x)\n", "graph 1\nx = input f16[1,2]\ny = exp(x)\n");
  EXPECT_EQ(pair.a.spec(0).dims, (Dims{1, 2}));
}

}  // namespace
}  // namespace gqa
