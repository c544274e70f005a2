// shrink.cc: see shrink.h. First what is cut how (Survey), then the sizes (Plan), then the graphs anew.
#include "search/graph/prove/shrink.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostUnit = 48;  // elements of a dimension that all its cuts divide

// A dimension as one load or store cuts it.
struct Cut {
  std::int64_t full, share, tile;
  std::int64_t along = 1, steps = 1;  // blocks, steps of the loop
  bool grid = false, loop = false;

  bool misses_share() const { return loop && steps * tile < share; }
  bool misses_full() const { return grid && along * share < full; }
  bool one_each() const { return grid && !loop && share == 1 && along == full; }
  bool ragged() const { return full % share != 0 || share % tile != 0; }
};

Cut cut_of(const BlockGraph& block, const Axis& axis) {
  Cut cut = {axis.full, axis.share, axis.tile};
  cut.grid = axis.grid >= 0;
  cut.loop = axis.loop;
  if (cut.grid) cut.along = block.grid[static_cast<std::size_t>(axis.grid)];
  if (cut.loop) cut.steps = block.steps;
  return cut;
}

// Calls visit(cut axes) for each load and store of a block.
template <typename Visit>
void for_each_map(const BlockGraph& block, Visit visit) {
  for (const BlockNode& node : block.nodes) {
    if (node.op == Op::kLoad) visit(node.axes);
  }
  for (const BlockStore& store : block.stores) {
    Axes axes;
    Status status = cut_axes(store.result.dims, store.map, block.grid.size(), &axes);
    (void)status;  // the graph has been checked
    visit(axes);
  }
}

// What two graphs do with each size.
struct Survey {
  std::map<std::int64_t, std::vector<Cut>> cuts;  // by size; a size that nothing cuts has none
  std::set<std::int64_t> masked;                  // sizes that a mask is laid over
  std::set<std::int64_t> windows;                 // of the masks, without sign
  std::set<std::int64_t> one_each;                // sizes with a block an element: the grid's extent is the size

  void add(const KernelGraph& graph) {
    for (const KernelTensor& tensor : graph.tensors()) add_sizes(tensor.spec.dims);
    for (const KernelNode& node : graph.nodes()) {
      if (node.block) add_block(*node.block);
      if (node.op == Op::kMask) add_mask(node.attributes, whole_axes(graph.spec(node.inputs[0]).dims));
    }
  }

 private:
  void add_sizes(const Dims& dims) {
    for (const std::int64_t size : dims) cuts[size];
  }
  void add_block(const BlockGraph& block) {
    for_each_map(block, [&](const Axes& axes) {
      for (const Axis& axis : axes) {
        if (axis.whole()) continue;
        cuts[axis.full].push_back(cut_of(block, axis));
        if (cuts[axis.full].back().one_each()) one_each.insert(axis.full);
      }
    });
    for (const BlockNode& node : block.nodes) {
      if (node.op == Op::kMask) add_mask(node.attributes, node.axes);
    }
  }
  void add_mask(const Attributes& attributes, const Axes& axes) {
    for (const std::int64_t bound : {attributes.left, attributes.right}) {
      if (bound != kUnbounded) windows.insert(std::abs(bound));
    }
    masked.insert({axes[axes.size() - 2].full, axes.back().full});
  }
};

class Plan {
 public:
  Plan(const Survey& survey, int variant) : survey_(survey), variant_(variant) {
    std::int64_t last_window = 1;
    for (const std::int64_t width : survey.windows) windows_[width] = width <= 1 ? width : ++last_window;
    longest_window_ = windows_.empty() ? 0 : windows_.rbegin()->second;
    std::int64_t last = 0;
    for (const auto& [size, cuts] : survey.cuts) last = sizes_[size] = choose(size, cuts, last);
  }

  std::int64_t size(std::int64_t full) const {
    const auto found = sizes_.find(full);
    return found == sizes_.end() ? full : found->second;
  }
  std::int64_t window(std::int64_t width) const {
    if (width == kUnbounded) return width;
    return width < 0 ? -windows_.at(-width) : windows_.at(width);
  }
  std::int64_t along(std::int64_t extent, bool one_each) const {
    return one_each ? size(extent) : std::min<std::int64_t>(extent, 2 + variant_);
  }
  std::int64_t steps(std::int64_t original) const { return std::min<std::int64_t>(original, 3 - variant_); }

  // Share and tile of a cut dimension; the grid dimension that cuts it has `blocks` blocks now.
  std::pair<std::int64_t, std::int64_t> tiles(const Cut& cut, std::int64_t blocks) const {
    const std::int64_t parts = cut.grid ? blocks + cut.misses_full() : 1;
    const std::int64_t share = ceil_div(size(cut.full), parts);
    return {share, cut.loop ? ceil_div(share, steps(cut.steps) + cut.misses_share()) : share};
  }

  std::string text() const {
    std::string text;
    for (const auto& [size, small] : sizes_)
      text += (text.empty() ? "" : " ") + std::to_string(size) + "->" + std::to_string(small);
    return text;
  }

 private:
  static std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

  // The fewest elements that keep the structure of a cut. Extents are sizes of smaller dimensions or small anyway.
  std::int64_t unit(const Cut& cut) const {
    const bool counted = survey_.one_each.count(cut.along) && cut.along < cut.full;
    const std::int64_t blocks = cut.grid ? along(cut.along, counted) + cut.misses_full() : 1;
    const std::int64_t walked = cut.loop ? steps(cut.steps) + cut.misses_share() : 1;
    return blocks * walked * (cut.tile > 1 ? 2 + variant_ : 1);
  }

  std::int64_t choose(std::int64_t size, const std::vector<Cut>& cuts, std::int64_t last) const {
    if (size == 1) return 1;
    std::int64_t base = 1, largest = 1, least = cuts.empty() ? 3 + 2 * variant_ : 2 + variant_;
    bool ragged = false;
    for (const Cut& cut : cuts) {
      if (cut.one_each()) continue;
      base = std::lcm(base, unit(cut));
      largest = std::max(largest, unit(cut));
      ragged = ragged || (cut.ragged() && !cut.misses_full() && !cut.misses_share());
    }
    if (base > kMostUnit) base = largest;  // the other cuts get a short last tile
    if (survey_.masked.count(size)) least = std::max(least, longest_window_ + 2);
    least = std::max(least, last + 1) + (ragged ? 1 : 0);
    return std::min(size, ceil_div(least, base) * base - (ragged ? 1 : 0));
  }

  const Survey& survey_;
  const int variant_;
  std::map<std::int64_t, std::int64_t> sizes_, windows_;
  std::int64_t longest_window_ = 0;
};

class Shrinker {
 public:
  explicit Shrinker(const Plan& plan) : plan_(plan) {}

  Status shrink(const KernelGraph& graph, KernelGraph* small) const {
    int written = -1;
    for (const KernelTensor& tensor : graph.tensors()) {
      Status status;
      int id = -1;
      if (tensor.node < 0) {
        status = small->add_input({sizes(tensor.spec.dims), tensor.spec.type}, &id, tensor.name);
      } else if (tensor.node > written) {
        written = tensor.node;
        status = add_node(graph, graph.nodes()[static_cast<std::size_t>(written)], small);
      }
      if (!status.ok()) return status;
    }
    for (const int output : graph.marked_outputs()) {
      if (Status status = small->mark_output(output); !status.ok()) return status;
    }
    return {};
  }

 private:
  Dims sizes(Dims dims) const {
    for (std::int64_t& size : dims) size = plan_.size(size);
    return dims;
  }

  Attributes attributes(Op op, Attributes attributes) const {
    attributes.left = plan_.window(attributes.left);
    attributes.right = plan_.window(attributes.right);
    attributes.count = plan_.size(attributes.count);
    if (op != Op::kTranspose) attributes.dims = sizes(attributes.dims);
    return attributes;
  }

  Status add_node(const KernelGraph& graph, const KernelNode& node, KernelGraph* small) const {
    if (node.block) {
      std::vector<int> results;
      return small->add_custom(node.inputs, block(*node.block), &results);
    }
    int id = -1;
    return small->add(node.op, node.inputs, attributes(node.op, node.attributes), &id,
                      graph.tensor(node.outputs[0]).name);
  }

  // The grid with few blocks; as many as a dimension has elements where there is a block for each.
  std::vector<std::int64_t> grid(const BlockGraph& block) const {
    std::vector<bool> one_each(block.grid.size());
    for_each_map(block, [&](const Axes& axes) {
      for (const Axis& axis : axes) {
        if (axis.grid >= 0 && cut_of(block, axis).one_each()) one_each[static_cast<std::size_t>(axis.grid)] = true;
      }
    });
    std::vector<std::int64_t> few;
    for (std::size_t at = 0; at < block.grid.size(); ++at) few.push_back(plan_.along(block.grid[at], one_each[at]));
    return few;
  }

  TileMap map(const BlockGraph& block, const std::vector<std::int64_t>& few, const Axes& axes, TileMap map) const {
    for (std::size_t at = 0; at < axes.size(); ++at) {
      const Axis& axis = axes[at];
      if (axis.whole()) continue;
      const std::int64_t blocks = axis.grid < 0 ? 1 : few[static_cast<std::size_t>(axis.grid)];
      const auto [share, tile] = plan_.tiles(cut_of(block, axis), blocks);
      if (axis.grid >= 0) map.grid[static_cast<std::size_t>(axis.grid)].tile = share;
      if (axis.loop) map.loop.tile = tile;
    }
    return map;
  }

  BlockGraph block(const BlockGraph& original) const {
    BlockGraph small = original;
    small.grid = grid(original);
    small.steps = plan_.steps(original.steps);
    for (BlockNode& node : small.nodes) {
      if (node.op == Op::kLoad) node.map = map(original, small.grid, node.axes, node.map);
      node.attributes = attributes(node.op, node.attributes);
    }
    for (BlockStore& store : small.stores) {
      Axes axes;
      Status status = cut_axes(store.result.dims, store.map, original.grid.size(), &axes);
      (void)status;  // the graph has been checked
      store.map = map(original, small.grid, axes, store.map);
      store.result.dims = sizes(store.result.dims);
      store.result.strides.clear();
    }
    return small;
  }

  const Plan& plan_;
};

}  // namespace

Status shrink(const KernelGraph& a, const KernelGraph& b, int variant, ShrunkPair* pair) {
  Survey survey;
  survey.add(a);
  survey.add(b);
  const Plan plan(survey, variant);
  const Shrinker shrinker(plan);
  ShrunkPair made;
  made.sizes = plan.text();
  Status status = shrinker.shrink(a, &made.a);
  if (status.ok()) status = shrinker.shrink(b, &made.b);
  if (status.ok()) *pair = std::move(made);
  return status;
}

}  // namespace gqa
