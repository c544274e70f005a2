// block_graph_test.cc: block graphs: tiles, phases, stores, and what check() refuses.
#include "search/graph/ir/block_graph.h"

#include "tests/search/graph/graphs.h"

namespace gqa {
namespace {

TileMap cut(std::vector<Slice> grid, Slice loop = {}) { return {std::move(grid), loop}; }

const std::vector<TensorSpec> kOperands = {{{256, 64}}, {{64, 512}}};

TEST(BlockGraph, TilesFollowTheMaps) {
  BlockBuilder block(kOperands, {4, 8}, 2);
  block.loop();
  const int x = block.load(0, cut({{0, 64}, {}}, {1, 32})), w = block.load(1, cut({{}, {1, 64}}, {0, 32}));
  const int part = block.add(Op::kMatmul, {x, w});
  const int sum = block.add(Op::kAccumulate, {part});
  block.after();
  block.store(sum, cut({{0, 64}, {1, 64}}), {{256, 512}}, "out");
  BlockGraph made;
  const Status status = block.finish(&made);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(tile_dims(made.nodes[0].axes), (Dims{64, 32}));
  EXPECT_EQ(tile_dims(made.nodes[3].axes), (Dims{64, 64}));
  EXPECT_EQ(made.nodes[3].axes[1].grid, 1);
  EXPECT_EQ(blocks(made), 32);
}

TEST(BlockGraph, LastTilesAreShort) {
  const Axis axis = {100, 48, 20, 0, true};
  const Extent first = axis.at({0}, 2), last = axis.at({2}, 0), none = axis.at({2}, 1);
  EXPECT_EQ(first.begin, 40);
  EXPECT_EQ(first.size, 8);
  EXPECT_EQ(last.begin, 96);
  EXPECT_EQ(last.size, 4);
  EXPECT_EQ(none.size, 0);
}

using Write = void (*)(BlockBuilder*);
struct Refusal {
  const char* why;
  Write write;
  const char* words;
};

TEST(BlockGraph, Refusals) {
  const Refusal cases[] = {
      {"tile too large",
       [](BlockBuilder* b) {
         b->load(0, cut({{0, 300}, {}}));
       },
       "tiles of 300 of dimension 0"},
      {"no such dimension",
       [](BlockBuilder* b) {
         b->load(0, cut({{2, 1}, {}}));
       },
       "a map to dimension 2"},
      {"no such operand", [](BlockBuilder* b) { b->load(2, {}); }, "a load of operand 2: expected 0 to 1"},
      {"a dimension cut twice",
       [](BlockBuilder* b) {
         b->load(0, cut({{0, 64}, {0, 8}}));
       },
       "cut by one grid"},
      {"a map of another grid",
       [](BlockBuilder* b) {
         b->load(0, cut({{}, {}, {}}));
       },
       "a map of 3 grid dimensions"},
      {"a loop's tile before it",
       [](BlockBuilder* b) {
         b->load(0, cut({{}, {}}, {1, 32}));
       },
       "stands before it"},
      {"an accumulator before the loop", [](BlockBuilder* b) { b->add(Op::kAccumulate, {b->load(0, {})}); },
       "an accumulator outside the loop"},
      {"a kernel operator", [](BlockBuilder* b) { b->add(Op::kConstant, {}, order({2})); }, "is not for tiles"},
      {"tiles that do not meet",
       [](BlockBuilder* b) {
         b->loop();
         const int x = b->load(0, cut({{0, 64}, {}}, {1, 32})), y = b->load(0, cut({{}, {0, 64}}, {1, 32}));
         b->add(Op::kAdd, {x, y});
       },
       "are cut differently (grid dimension 0 of 256; grid dimension 1 of 256)"},
      {"inner dimensions that do not meet",
       [](BlockBuilder* b) {
         b->loop();
         const int x = b->load(0, cut({{0, 64}, {}}, {1, 32})), w = b->load(1, cut({{}, {0, 32}}));
         b->add(Op::kMatmul, {x, w});
       },
       "the inner dimensions are cut differently (the loop of 64; grid dimension 1 of 64)"},
      {"softmax of a part",
       [](BlockBuilder* b) {
         b->loop();
         b->add(Op::kSoftmax, {b->load(0, cut({{}, {}}, {1, 32}))}, dim(1));
       },
       "the block sees only a part (the loop of 64)"},
      {"a rescale by no maximum",
       [](BlockBuilder* b) {
         b->loop();
         const int x = b->load(0, {});
         b->add(Op::kAccumulateRescaled, {x, x});
       },
       "expected one as second input"},
      {"an accumulator read in the loop",
       [](BlockBuilder* b) {
         b->loop();
         b->add(Op::kExp, {b->add(Op::kAccumulate, {b->load(0, {})})});
       },
       "which is not there in the loop"},
      {"a value of the loop read after it",
       [](BlockBuilder* b) {
         b->loop();
         const int x = b->load(0, {});
         b->after();
         b->add(Op::kExp, {x});
       },
       "which is not there after the loop"},
      {"a value of the loop stored after it",
       [](BlockBuilder* b) {
         b->loop();
         b->store(b->load(0, cut({{0, 64}, {1, 8}})), cut({{0, 64}, {1, 8}}), {{256, 64}});
       },
       "expected it accumulated"},
      {"blocks that write the same",
       [](BlockBuilder* b) {
         b->store(b->load(0, {}), {}, {{256, 64}});
       },
       "blocks along grid dimension 0 write the same elements"},
      {"a result not filled",
       [](BlockBuilder* b) {
         b->store(b->load(0, cut({{0, 32}, {1, 8}})), cut({{0, 32}, {1, 8}}), {{256, 64}});
       },
       "expected tiles that fill it"},
      {"nothing stored", [](BlockBuilder* b) { b->load(0, {}); }, "1 nodes and 0 stores"},
  };
  for (const Refusal& test : cases) {
    BlockBuilder block(kOperands, {4, 8}, 2);
    test.write(&block);
    BlockGraph made;
    const Status status = block.finish(&made);
    EXPECT_FALSE(status.ok()) << test.why;
    EXPECT_NE(status.message().find(test.words), std::string::npos) << test.why << ": " << status.message();
  }
}

TEST(BlockGraph, AStepMayStoreItsTile) {
  BlockBuilder block({{{100, 7}}}, {3}, 2);
  block.loop();
  const TileMap map = cut({{0, 40}}, {1, 4});
  block.store(block.add(Op::kSquare, {block.load(0, map)}), map, {{100, 7}}, "out");
  KernelBuilder graph;
  graph.custom({graph.input({{100, 7}})}, block);
  const KernelGraph made = finish(graph);
  const auto inputs = random_inputs(made, 1);
  const auto outputs = values_of(made, inputs);
  for (std::size_t at = 0; at < inputs[0].size(); ++at) ASSERT_EQ(outputs[0][at], inputs[0][at] * inputs[0][at]);
}

}  // namespace
}  // namespace gqa
