// enumerate_test.cc: what the search is made of: abstract expressions, dimensions, placements, lowering, estimates, and
// graphs that nobody thought of.
#include "search/graph/enumerate/enumerate.h"

#include <random>

#include "search/graph/enumerate/partition.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/tile/tile_graphs.h"

namespace gqa {
namespace {

using Id = AbstractSpace::Id;

TEST(Abstract, EqualValuesHaveOneNumber) {
  AbstractSpace space;
  const Id x = space.input(0), y = space.input(1), z = space.input(2);
  const auto apply = [&](Op op, std::vector<Id> operands) { return space.apply(op, {}, operands); };
  EXPECT_EQ(apply(Op::kMul, {x, apply(Op::kAdd, {y, z})}),
            apply(Op::kAdd, {apply(Op::kMul, {z, x}), apply(Op::kMul, {x, y})}));
  EXPECT_EQ(apply(Op::kDiv, {apply(Op::kDiv, {x, y}), z}), apply(Op::kDiv, {x, apply(Op::kMul, {z, y})}));
  EXPECT_EQ(space.sum(space.sum(x, 8), 4), space.sum(x, 32));
  EXPECT_EQ(space.sum(apply(Op::kMul, {x, y}), 8), apply(Op::kMul, {space.sum(x, 8), y}));
  EXPECT_EQ(space.sum(space.sum(space.sum(x, 1, -1), 8), 1, 1), space.sum(x, 8));
  EXPECT_NE(space.sum(x, 8), x);
  EXPECT_NE(apply(Op::kExp, {x}), apply(Op::kTanh, {x}));
  EXPECT_NE(apply(Op::kDiv, {apply(Op::kMul, {x, y}), y}), x);  // matrices do not cancel
}

TEST(Abstract, KnowsThePartsOfAGoal) {
  AbstractSpace space;
  const KernelGraph goal = graph_of(programs::kNaive);
  const std::vector<Id> ids = space.tensors(goal);
  space.set_goal({ids[static_cast<std::size_t>(goal.find("o"))]});
  for (const char* part : {"q", "a", "e", "s", "d", "o"})
    EXPECT_TRUE(space.part_of_goal(ids[static_cast<std::size_t>(goal.find(part))])) << part;
  const Id q = space.input(0), v = space.input(2), a = ids[static_cast<std::size_t>(goal.find("a"))],
           e = ids[static_cast<std::size_t>(goal.find("e"))];
  EXPECT_TRUE(space.part_of_goal(space.sum(space.apply(Op::kMul, {}, {e, v}), 4096, -1)));  // not added up yet
  EXPECT_FALSE(space.part_of_goal(space.apply(Op::kMul, {}, {q, v})));
  EXPECT_FALSE(space.part_of_goal(space.apply(Op::kExp, {}, {space.sum(a, 1, -1)})));  // of a part of a sum
  EXPECT_FALSE(space.part_of_goal(space.sum(e, 1, 1)));                                // added up too often
  EXPECT_FALSE(space.part_of_goal(space.apply(Op::kTanh, {}, {a})));
}

TEST(Section, FollowsDimensionsThroughOperators) {
  const Section section = section_of(graph_of(programs::kDivisionLast));
  int grid = 0, loop = 0;
  for (const Dimension& dimension : section.dimensions) grid += dimension.may_grid(), loop += dimension.may_loop();
  EXPECT_EQ(grid, 3);  // batch, rows, columns of v
  EXPECT_EQ(loop, 2);  // keys, columns of q
}

TEST(Section, RowsAndKeysOfOneTensorAreTwoDimensions) {
  const Section section =
      section_of(graph_of("graph 1\nx = input f16[512,64]\na = matmul(x, x) tb=1\ny = matmul(a, x)\n"));
  int rows = 0, keys = 0;
  for (const Dimension& dimension : section.dimensions)
    if (dimension.size == 512) rows += dimension.may_grid(), keys += dimension.may_loop();
  EXPECT_EQ(rows, 1);
  EXPECT_EQ(keys, 1);
}

std::vector<LoopPlacement> placements_along(const std::string& text, std::int64_t size, SearchReport* report) {
  const KernelGraph graph = graph_of(text);
  const Section section = section_of(graph);
  AbstractSpace space;
  const std::vector<Id> ids = space.tensors(graph);
  std::vector<Id> inputs, outputs;
  for (const int input : graph.inputs()) inputs.push_back(ids[static_cast<std::size_t>(input)]);
  for (const int output : graph.outputs()) outputs.push_back(ids[static_cast<std::size_t>(output)]);
  space.set_goal(outputs);
  for (std::size_t at = 0; at < section.dimensions.size(); ++at) {
    if (section.dimensions[at].size == size && section.dimensions[at].may_loop())
      return find_loop_placements(section, static_cast<int>(at), inputs, &space, report);
  }
  ADD_FAILURE() << "no dimension of " << size << " to loop along in\n" << text;
  return {};
}

std::int64_t carried(const LoopPlacement& placement, Carry carry) {
  return std::count_if(placement.nodes.begin(), placement.nodes.end(),
                       [&](const Placement& node) { return node.carry == carry; });
}

const std::string kRunning = programs::kInputs +
                             "a = matmul(q, k)\nm = max(a) dim=2\nz = sub_max(a, m)\ne = exp(z)\ns = sum(e) dim=2\n"
                             "w = matmul(e, v)\no = div(w, s)\n";

TEST(LoopPlacement, AMaximumOverTheLoopBecomesARunningOne) {
  SearchReport report;
  const std::vector<LoopPlacement> found = placements_along(kRunning, 4096, &report);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(carried(found[0], Carry::kRunningMaximum), 1);
  EXPECT_EQ(carried(found[0], Carry::kRescaledSum), 2);
  EXPECT_GT(report.loop_placements.pruned_for(Reason::kWholeInLoop), 0);  // the maximum as it is
  EXPECT_GT(report.loop_placements.pruned_for(Reason::kAbstract), 0);     // parts of sums divided by parts of sums
}

TEST(LoopPlacement, NothingButAQuotientHidesARunningMaximum) {
  SearchReport report;
  std::string text = kRunning;
  text.replace(text.find("o = div(w, s)\n"), 14, "");
  EXPECT_TRUE(placements_along(text, 4096, &report).empty());
  EXPECT_GT(report.loop_placements.pruned_for(Reason::kMaximum), 0);
}

// The graph has these operators between the scores a, with g added to them in b, and the result.
std::int64_t running_maxima(const std::string& operators) {
  SearchReport report;
  std::string text = programs::kInputs + "g = input f16[4096]\na = matmul(q, k)\nb = add(a, g)\n" + operators;
  std::int64_t maxima = 0;
  for (const LoopPlacement& placement : placements_along(text, 4096, &report))
    maxima += carried(placement, Carry::kRunningMaximum);
  return maxima;
}

// -inf while no key is seen: what it is taken from must be -inf then too, or exp of it infinite.
TEST(LoopPlacement, ARunningMaximumIsTakenFromWhatItBounds) {
  const std::string sums = "s = sum(e) dim=2\nw = matmul(e, v)\no = div(w, s)\n";
  EXPECT_EQ(running_maxima("m = max(b) dim=2\nz = sub(b, m)\ne = exp(z)\n" + sums), 1);
  EXPECT_EQ(running_maxima("m = max(a) dim=2\nz = sub(b, m)\ne = exp(z)\n" + sums), 1);
  EXPECT_EQ(running_maxima("m = max(b) dim=2\nc = mask(b) right=0\nz = sub(c, m)\ne = exp(z)\n" + sums), 1);
  EXPECT_EQ(running_maxima("m = max(b) dim=2\nz = sub(b, m)\ne = exp(z)\ns = sum(e) dim=2\n"
                           "y = sub(a, m)\nf = exp(y)\nw = matmul(f, v)\no = div(w, s)\n"),
            0);
  EXPECT_EQ(running_maxima("m = max(b) dim=2\nz = sub(m, b)\ny = exp(z)\ne = div(a, y)\n" + sums), 0);
}

TEST(LoopPlacement, PartsOfASumMayBeAddedUpBehindALinearOperator) {
  SearchReport report;
  const std::vector<LoopPlacement> found = placements_along(programs::kLora, 4096, &report);
  std::set<std::int64_t> sums;
  for (const LoopPlacement& placement : found) sums.insert(carried(placement, Carry::kSum));
  EXPECT_TRUE(sums.count(1)) << "x W and x A B in one accumulator";
  EXPECT_TRUE(sums.count(2)) << "x W and x A in one each";
}

const std::string kOpenedNorm =
    programs::kNormInputs +
    "q = square(x)\ns = sum(q) dim=1\nm = scale(s) count=4096\na = add_constant(m) c=1e-06\n"
    "r = rsqrt(a)\n";

TEST(LoopPlacement, ANormThatTheLoopReadsIsTakenBeforeIt) {
  SearchReport report;
  const std::vector<LoopPlacement> found =
      placements_along(kOpenedNorm + "n = mul(x, r)\nh = mul(n, g)\ny = matmul(h, w)\n", 4096, &report);
  ASSERT_EQ(found.size(), 1U);
  for (std::size_t at = 0; at < found[0].nodes.size(); ++at)
    EXPECT_EQ(found[0].nodes[at].phase, at < 5 ? Phase::kBefore : Phase::kLoop) << at;
  EXPECT_EQ(found[0].nodes.back().carry, Carry::kSum);
}

TEST(LoopPlacement, ButNotOneThatOnlyTheEndReads) {
  SearchReport report;
  const std::vector<LoopPlacement> found =
      placements_along(kOpenedNorm + "h = mul(x, g)\nb = matmul(h, w)\ny = mul(b, r)\n", 4096, &report);
  EXPECT_FALSE(found.empty());
  for (const LoopPlacement& placement : found) {
    for (const Placement& node : placement.nodes) EXPECT_NE(node.phase, Phase::kBefore);
  }
  EXPECT_GT(report.loop_placements.pruned_for(Reason::kSlower), 0);
}

// What the loop reads of x besides is not there before it.
TEST(LoopPlacement, NorOneOfWhatTheLoopComputes) {
  SearchReport report;
  EXPECT_TRUE(
      placements_along(programs::kNormInputs + "b = silu(x)\ns = sum(b) dim=1\nn = div(b, s)\ny = matmul(n, w)\n", 4096,
                       &report)
          .empty());
}

// Rows would be read a third time.
TEST(LoopPlacement, NorOneOfWhatTakesAPassOfItsOwn) {
  SearchReport report;
  EXPECT_TRUE(placements_along(programs::kNormInputs +
                                   "m = max(x) dim=1\nz = sub(x, m)\nq = square(z)\ns = sum(q) dim=1\nr = rsqrt(s)\n"
                                   "n = mul(x, r)\ny = matmul(n, w)\n",
                               4096, &report)
                  .empty());
}

TEST(LoopPlacement, KnowsWhereAProductReadsAPartOfAFloat16Sum) {
  SearchReport report;
  for (const LoopPlacement& placement : placements_along(programs::kLora, 4096, &report))
    EXPECT_FALSE(placement.multiplies_parts) << "bfloat16";
  std::string text = programs::kLora;
  for (std::size_t at = 0; (at = text.find("bf16", at)) != std::string::npos;) text.erase(at, 1);
  const std::vector<LoopPlacement> found = placements_along(text, 4096, &report);
  ASSERT_GE(found.size(), 2U);
  for (const LoopPlacement& placement : found) {
    const bool whole = placement.nodes[1].carry == Carry::kSum;  // x A
    EXPECT_EQ(placement.multiplies_parts, !whole);
  }
}

TEST(LoopPlacement, ButNotBehindOneThatIsNot) {
  SearchReport report;
  const std::vector<LoopPlacement> found = placements_along(programs::kGated, 4096, &report);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(carried(found[0], Carry::kSum), 2);
  EXPECT_EQ(report.loop_placements.explored, 4);  // a wrong way ends where it goes wrong: silu of a part of a sum
}

TEST(Lower, RefusesPartialResultsThatManyBlocksWouldWrite) {
  SearchReport report;
  const Section section = section_of(graph_of(programs::kLora));
  Cuts cuts;
  LoopPlacement two;
  for (const LoopPlacement& placement : placements_along(programs::kLora, 4096, &report)) {
    if (placement.nodes[1].carry == Carry::kSum) two = placement;  // x A, which has no columns of w
  }
  ASSERT_FALSE(two.nodes.empty());
  for (const Dimension& dimension : section.dimensions)
    cuts.tiles.push_back(dimension.may_grid() && dimension.role == DimensionRole::kColumn ? 128 : 0);
  cuts.loop_tile = 128;
  cuts.splits = 4;
  Reason reason = Reason::kSlower;
  EXPECT_FALSE(lower(section, two, cuts, &reason).has_value());
  EXPECT_EQ(reason, Reason::kSharedPartial);
  cuts.splits = 1;
  EXPECT_TRUE(lower(section, two, cuts, &reason).has_value());
}

TEST(Estimate, CountsSharedMemoryAndRegisters) {
  const KernelGraph flash = graph_of(programs::kFlash);
  const BlockNeeds needs = needs_of(flash, flash.nodes()[0]);
  EXPECT_EQ(needs.shared_bytes, 2 * (64 * 64 + 2 * 2 * 64 * 64));  // q once, k and v twice
  EXPECT_GE(needs.register_bytes, 4 * (64 * 64 + 2 * 64 + 64 * 64));
  DeviceSpec device = hopper();
  EXPECT_EQ(misfit(flash, device), std::nullopt);
  device.smem_per_block = static_cast<int>(needs.shared_bytes) - 1;
  EXPECT_EQ(misfit(flash, device), Reason::kSharedMemory);
  device = hopper();
  device.registers_per_sm = 4096;
  EXPECT_EQ(misfit(flash, device), Reason::kRegisters);
}

TEST(Lower, ReadsWholeBeforeTheLoopWhatItCutsThere) {
  SearchReport report;
  const std::string text = kOpenedNorm + "n = mul(x, r)\nh = mul(n, g)\ny = matmul(h, w)\n";
  const Section section = section_of(graph_of(text));
  const std::vector<LoopPlacement> found = placements_along(text, 4096, &report);
  ASSERT_EQ(found.size(), 1U);
  Cuts cuts;
  for (const Dimension& dimension : section.dimensions)
    cuts.tiles.push_back(dimension.may_grid() && dimension.role == DimensionRole::kColumn ? 128 : 0);
  cuts.loop_tile = 64;
  for (const std::int64_t splits : {1, 4}) {
    cuts.splits = splits;
    Reason reason = Reason::kSlower;
    const auto lowered = lower(section, found[0], cuts, &reason);
    ASSERT_TRUE(lowered.has_value()) << splits;
    const BlockGraph& block = *lowered->nodes()[0].block;
    std::vector<const BlockNode*> loads;
    for (const BlockNode& node : block.nodes) {
      if (node.op == Op::kLoad && node.operand == 0) loads.push_back(&node);
    }
    ASSERT_EQ(loads.size(), 2U) << to_text(*lowered);
    EXPECT_EQ(loads[0]->phase, Phase::kBefore);
    EXPECT_EQ(tile_dims(*loads[0]), (Dims{16, 4096}));
    EXPECT_EQ(loads[1]->phase, Phase::kLoop);
    EXPECT_EQ(tile_dims(*loads[1]), (Dims{16, 64}));
    EquivalenceReport proof;
    EXPECT_TRUE(prove_equal(graph_of(text), *lowered, 1, &proof).ok()) << to_text(*lowered);
  }
}

// Rows of any length: they are folded as they come.
TEST(Estimate, DoesNotCountWhatIsReadWholeBeforeTheLoopThatCutsIt) {
  const KernelGraph normed = graph_of(tiles::kNormedFirst);
  const BlockNeeds needs = needs_of(normed, normed.nodes()[0]);
  EXPECT_EQ(needs.shared_bytes, 2 * 2 * (5 * 32 + 32 + 32 * 16));
  EXPECT_EQ(needs.register_bytes, 4 * (5 * 16 + 5 * 32 + 5 * 16));
  std::string apart = tiles::kNormedFirst;  // another's rows are kept
  apart.replace(apart.find("w = input"), 0, "z = input f16[5,72]\n");
  apart.replace(apart.find("custom(x, g, w)"), 15, "custom(x, g, w, z)");
  apart.replace(apart.find("xw = load(0)"), 12, "xw = load(3)");
  const KernelGraph other = graph_of(apart);
  EXPECT_EQ(needs_of(other, other.nodes()[0]).shared_bytes, needs.shared_bytes + 2 * 5 * 72);
}

TEST(Estimate, FewerBytesAndFewerKernelsAreFaster) {
  const DeviceSpec device = hopper();
  EXPECT_LT(seconds(graph_of(programs::kSplit), device), seconds(graph_of(programs::kNaive), device));
  EXPECT_LT(seconds(graph_of(programs::kGatedFused), device), seconds(graph_of(programs::kGated), device));
  EXPECT_LT(seconds(graph_of(programs::kSplit), device), seconds(graph_of(programs::kFlash), device));  // 8 blocks
}

TEST(Partition, GroupsAreConvex) {
  // y waits for s, s for x: x and y without s are no kernel.
  const KernelGraph graph =
      graph_of("graph 1\na = input f16[64,64]\nx = matmul(a, a)\ns = matmul(x, a)\ny = matmul(s, x)\n");
  const Units units = units_of(graph);
  ASSERT_EQ(units.nodes.size(), 3U);
  const std::vector<Group> groups = groups_of(units, 100);
  EXPECT_EQ(std::count(groups.begin(), groups.end(), Group{0b101}), 0);
  EXPECT_EQ(groups.size(), 6U);
}

// A random graph of small square matrices and their rows' sums.
KernelGraph random_graph(std::mt19937* random) {
  KernelBuilder graph;
  const auto pick = [&](std::size_t most) { return static_cast<std::size_t>((*random)() % most); };
  std::vector<int> tensors = {graph.input({{40, 40}, ElementType::kF32}, "x"),
                              graph.input({{40, 40}, ElementType::kF32}, "y"),
                              graph.input({{40, 1}, ElementType::kF32}, "r")};
  const Op unary[] = {Op::kTanh,  Op::kSilu,    Op::kExp,     Op::kSquare,
                      Op::kScale, Op::kSoftmax, Op::kRmsNorm, Op::kTranspose};
  const Op binary[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kMatmul, Op::kMatmul};
  for (int step = 0; step < 6; ++step) {
    const int a = tensors[pick(tensors.size())], b = tensors[pick(tensors.size())];
    const std::vector<TensorSpec> specs = graph.specs({a, b});
    const bool square = specs[0].dims[1] == 40 && specs[1].dims[1] == 40;
    if (pick(2) == 0 && square) {
      tensors.push_back(graph.add(binary[pick(std::size(binary))], {a, b}));
    } else if (pick(4) == 0 && square) {
      tensors.push_back(graph.add(pick(2) == 0 ? Op::kSum : Op::kMax, {a}, dim(1)));
    } else {
      const Op op = unary[pick(std::size(unary))];
      if (specs[0].dims[1] == 1 && (op == Op::kTranspose || op == Op::kRmsNorm)) continue;
      const Attributes attributes = op == Op::kScale       ? factor(0.25)
                                    : op == Op::kSoftmax   ? dim(1)
                                    : op == Op::kTranspose ? order({1, 0})
                                    : op == Op::kRmsNorm   ? epsilon(0.5)
                                                           : Attributes();
      tensors.push_back(graph.add(op, {a}, attributes));
    }
  }
  graph.output(graph.add(Op::kMatmul, {graph.add(Op::kMul, {tensors.back(), tensors[0]}), tensors[1]}));
  return finish(graph);
}

TEST(Enumerate, GraphsNobodyThoughtOfComeOutRight) {
  std::mt19937 random(11);
  std::int64_t custom = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const KernelGraph graph = random_graph(&random);
    SCOPED_TRACE(to_text(graph));
    const auto inputs = random_inputs(graph, 5, 0.3);
    const auto expected = values_of(graph, inputs);
    const SearchResult result = search(graph, "", 10);
    EXPECT_EQ(result.report.programs.pruned_for(Reason::kUnproved), 0) << to_text(result.report);
    for (const RankedProgram& ranked : result.programs) {
      const auto values = values_of(ranked.program.graph, inputs);
      for (std::size_t at = 0; at < values[0].size(); ++at) {
        if (!std::isfinite(expected[0][at]) || std::abs(expected[0][at]) > 1e12) continue;
        ASSERT_NEAR(values[0][at], expected[0][at], 1e-7 * std::max(1.0, std::abs(expected[0][at])))
            << to_text(ranked.program.graph);
      }
      custom += all_custom(ranked.program.graph);
    }
  }
  EXPECT_GT(custom, 40);
}

}  // namespace
}  // namespace gqa
