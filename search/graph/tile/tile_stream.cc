// tile_stream.cc: see tile_stream.h.
#include "search/graph/tile/tile_stream.h"

#include <algorithm>

#include "search/rounding.h"

namespace gqa {
namespace {

constexpr std::int64_t kColumns = 8;                    // of mma.sync's result
constexpr std::int64_t kMostWidth = 8;                  // a lane's 16 bytes
constexpr std::int64_t kGroupWidth = 10;                // columns of a lane that a warp has accumulators for
constexpr int kMostStreamSplits = 8, kLeastTurns = 2;   // pieces that each warp of a split loop has
constexpr double kSplitCost = 0.01, kRoundCost = 0.03;  // of meeting and of beginning, against the balance
constexpr double kNarrowCost = 0.2;
constexpr std::int64_t kRegisters = 136, kOtherStreamRegisters = 44;

Status no_stream(const std::string& what) { return Status(Code::kOption, "a streamed loop with " + what); }

bool moves(const BlockNode& node) {
  return std::any_of(node.axes.begin(), node.axes.end(), [](const Axis& axis) { return axis.loop; });
}

// A step is a piece: those of larger tiles would be the same kernel.
bool in_pieces(const BlockGraph& block, const Axis& axis) {
  return axis.loop && axis.tile == kStreamDepth && !may_be_short(block, axis);
}

class Streams {
 public:
  Streams(const KernelGraph& graph, const KernelNode& node, const BlockGraph& block)
      : graph_(graph), kernel_(node), block_(block) {}

  Status run(int warps, TileStream* stream) {
    if (block_.steps < 2) return no_stream("one step");
    for (const BlockStore& store : block_.stores) {
      if (store.map.loop.dim >= 0) return no_stream("results of each step");
    }
    std::int64_t width = 0;
    for (std::size_t at = 0; at < block_.nodes.size(); ++at) {
      if (info(block_.nodes[at].op).kind != OpClass::kAccumulator) continue;
      if (Status s = check_accumulator(static_cast<int>(at)); !s.ok()) return s;
      add_to_group(static_cast<int>(at), &width, stream);
    }
    if (!has_product_) return no_stream("no product");
    if (warps % static_cast<int>(stream->groups.size()) != 0)
      return no_stream(std::to_string(stream->groups.size()) + " groups of accumulators for " + std::to_string(warps) +
                       " warps");
    return check_registers(*stream);
  }

 private:
  const BlockNode& node(int at) const { return block_.nodes[static_cast<std::size_t>(at)]; }
  const TensorSpec& operand(const BlockNode& load) const {
    return graph_.spec(kernel_.inputs[static_cast<std::size_t>(load.operand)]);
  }

  Status check_accumulator(int at) {
    if (node(at).op != Op::kAccumulate) return no_stream("more than sums");
    if (tile_dims(node(at).axes) != tile_dims(node(node(at).inputs[0]).axes)) return no_stream("sums of another shape");
    const std::vector<int> products = streamed_products(block_, at);
    for (const int product : products) {
      if (node(product).attributes.transpose_b != node(products[0]).attributes.transpose_b)
        return no_stream("sums of products whose right operands lie both ways");
      if (Status s = check_product(product); !s.ok()) return s;
    }
    if (!products.empty()) return {};
    const int folded = streamed_fold(block_, at).folded;
    return folded < 0 ? no_stream("what is neither products nor sums of rows") : check_rows(folded);
  }

  Status check_product(int at) {
    const BlockNode& own = node(at);
    const BlockNode &left = node(own.inputs[0]), &right = node(own.inputs[1]);
    if (own.attributes.transpose_a) return no_stream("a transposed left operand");
    if (Status s = check_rows(own.inputs[0]); !s.ok()) return s;
    if (right.op != Op::kLoad) return no_stream("a computed right operand");
    if (type_of(own.inputs[0]) != operand(right).type) return no_stream("operands of two types");
    const std::int64_t inner = left.axes.back().tile, columns = own.axes.back().tile;
    if (tile_elements(right) != inner * columns) return no_stream("batches");
    const std::int64_t width = streamed_width(own);
    if (columns % (kColumns * width) != 0 || (width & (width - 1)) != 0)
      return no_stream(std::to_string(columns) + " columns");
    return check_right(right, own.attributes.transpose_b, width);
  }

  // Lanes read `width` columns side by side; of an operand that lies transposed, pieces of its rows.
  Status check_right(const BlockNode& load, bool transposed, std::int64_t width) {
    const Dims strides = strides_of(operand(load));
    const std::size_t last = load.axes.size() - 1, along = transposed ? last : last - 1;
    const std::int64_t together = transposed ? kColumns : width;
    if (strides[last] != 1 || strides[last - 1] % together != 0 || !in_pieces(block_, load.axes[along]))
      return no_stream("a right operand that does not lie in pieces");
    const Axis& columns = load.axes[transposed ? last - 1 : last];
    if (columns.share % width != 0 || columns.tile % width != 0 || (!transposed && columns.full % width != 0))
      return no_stream("a right operand that is not cut in pieces");
    has_product_ = true;
    return {};
  }

  // Rows along the loop's dimension, elementwise of loads and of what the loop does not change.
  Status check_rows(int at) {
    const BlockNode& own = node(at);
    if (!moves(own)) return own.axes.back().tile == 1 ? Status() : no_stream("a row that every step needs");
    if (!in_pieces(block_, own.axes.back())) return no_stream("rows that do not lie in pieces");
    if (own.op == Op::kLoad) return check_load(own);
    if (info(own.op).kind != OpClass::kElementwise || own.op == Op::kMask) return no_stream(std::string(name(own.op)));
    for (const int input : own.inputs) {
      if (Status s = check_rows(input); !s.ok()) return s;
    }
    return {};
  }

  Status check_load(const BlockNode& load) {
    const Dims strides = strides_of(operand(load));
    if (operand(load).type == ElementType::kF32 || strides.back() != 1)
      return no_stream("rows that are not 16 bits wide");
    for (std::size_t dim = 0; dim + 1 < strides.size(); ++dim) {
      if (load.axes[dim].loop || (load.axes[dim].full != 1 && strides[dim] % kColumns != 0))
        return no_stream("rows that do not lie in pieces");
    }
    return {};
  }

  // The type of what loads feed; float32 where they differ.
  ElementType type_of(int at) const {
    const std::vector<int> loads = streamed_loads(block_, at);
    const ElementType type = loads.empty() ? ElementType::kF32 : operand(node(loads[0])).type;
    const bool same =
        std::all_of(loads.begin(), loads.end(), [&](int load) { return operand(node(load)).type == type; });
    return same ? type : ElementType::kF32;
  }

  // A warp has a few wide columns of the accumulators, or several narrow ones.
  void add_to_group(int at, std::int64_t* width, TileStream* stream) {
    const bool products = !streamed_products(block_, at).empty();
    const std::int64_t own = products ? streamed_width(node(at)) : 0;
    for (std::int64_t column = 0; column < (products ? tile_columns(node(at)) : 1); column += kColumns * own) {
      if (stream->groups.empty() || *width + own > kGroupWidth) {
        stream->groups.emplace_back();
        *width = 0;
      }
      *width += own;
      stream->groups.back().push_back({at, column});
      if (own == 0) break;
    }
  }

  // Whether a lane's registers hold pieces on their way, accumulators and a left operand.
  Status check_registers(const TileStream& stream) const {
    for (const std::vector<StreamedSum>& group : stream.groups) {
      std::int64_t kept = 0, ahead = 0;
      for (const auto& [at, column] : group) {
        const std::int64_t halves = ceil_div(tile_rows(node(at)), kColumns);
        const std::vector<int> products = streamed_products(block_, at);
        kept += products.empty() ? halves : ceil_div(halves, 2) * 4 * streamed_width(node(at));
        for (const int product : products) ahead += 8 * std::max<std::int64_t>(1, streamed_width(node(product)) / 2);
      }
      for (const int load : streamed_rows(block_, group)) ahead += 4 * ceil_div(tile_rows(node(load)), kColumns);
      const std::int64_t all = stream.ahead * ahead + kept + kOtherStreamRegisters;
      if (all > kRegisters) return no_stream(std::to_string(all) + " registers a thread");
    }
    return {};
  }

  const KernelGraph& graph_;
  const KernelNode& kernel_;
  const BlockGraph& block_;
  bool has_product_ = false;
};

bool add_products(const BlockGraph& block, int at, std::vector<int>* products) {
  const BlockNode& own = block.nodes[static_cast<std::size_t>(at)];
  if (own.op == Op::kMatmul) products->push_back(at);
  if (own.op != Op::kAdd) return own.op == Op::kMatmul;
  return add_products(block, own.inputs[0], products) && add_products(block, own.inputs[1], products);
}

void add_loads(const BlockGraph& block, int at, std::vector<int>* loads) {
  const BlockNode& own = block.nodes[static_cast<std::size_t>(at)];
  if (!moves(own)) return;
  if (own.op == Op::kLoad && std::count(loads->begin(), loads->end(), at) == 0) loads->push_back(at);
  for (const int input : own.inputs) add_loads(block, input, loads);
}

double rounds(std::int64_t blocks, std::int64_t sms, int together) {
  return static_cast<double>(ceil_div(blocks, std::max<std::int64_t>(1, sms) * together));
}

}  // namespace

Status plan_stream(const KernelGraph& graph, const KernelNode& node, const BlockGraph& block, int warps,
                   TileStream* stream) {
  return Streams(graph, node, block).run(warps, stream);
}

std::vector<int> streamed_products(const BlockGraph& block, int accumulator) {
  std::vector<int> products;
  const int x = block.nodes[static_cast<std::size_t>(accumulator)].inputs[0];
  return add_products(block, x, &products) ? products : std::vector<int>();
}

StreamedFold streamed_fold(const BlockGraph& block, int accumulator) {
  StreamedFold found;
  int at = block.nodes[static_cast<std::size_t>(accumulator)].inputs[0];
  for (; block.nodes[static_cast<std::size_t>(at)].op == Op::kScale;
       at = block.nodes[static_cast<std::size_t>(at)].inputs[0]) {
    const Attributes& attributes = block.nodes[static_cast<std::size_t>(at)].attributes;
    found.factor *= attributes.factor / static_cast<double>(attributes.count);
  }
  const BlockNode& sum = block.nodes[static_cast<std::size_t>(at)];
  const auto rank = static_cast<std::int64_t>(sum.axes.size());
  if (sum.op == Op::kSum && sum.attributes.dim == rank - 1) found.folded = sum.inputs[0];
  return found;
}

std::vector<int> streamed_loads(const BlockGraph& block, int node) {
  std::vector<int> loads;
  add_loads(block, node, &loads);
  return loads;
}

std::vector<int> streamed_rows(const BlockGraph& block, const std::vector<StreamedSum>& group) {
  std::vector<int> loads;
  for (const auto& [at, column] : group) {
    const std::vector<int> products = streamed_products(block, at);
    for (const int product : products)
      add_loads(block, block.nodes[static_cast<std::size_t>(product)].inputs[0], &loads);
    if (products.empty()) add_loads(block, streamed_fold(block, at).folded, &loads);
  }
  return loads;
}

std::int64_t streamed_width(const BlockNode& product) {
  return std::min(kMostWidth, std::max<std::int64_t>(1, product.axes.back().tile / kColumns));
}

double stream_balance(std::int64_t blocks, std::int64_t sms, int together) {
  const std::int64_t places = std::max<std::int64_t>(1, sms) * together;
  return static_cast<double>(blocks) / static_cast<double>(ceil_div(blocks, places) * places);
}

std::vector<int> stream_splits(const TilePlan& plan, std::int64_t sms, int together) {
  std::vector<std::pair<double, int>> ranked;
  for (int splits = 1; splits <= kMostStreamSplits; ++splits) {
    if (splits > 1 && plan.block.steps < kLeastTurns * splits * plan.copies()) break;
    const std::int64_t blocks = plan.blocks() * splits;
    ranked.emplace_back(
        kSplitCost * splits + kRoundCost * rounds(blocks, sms, together) - stream_balance(blocks, sms, together),
        splits);
  }
  std::stable_sort(ranked.begin(), ranked.end());
  std::vector<int> found;
  for (const auto& [cost, splits] : ranked) found.push_back(splits);
  return found;
}

StreamCost stream_cost(const KernelGraph& graph, const KernelNode& node, std::int64_t sms) {
  TilePlan plan;
  plan.block = *node.block;
  plan.warps = kStreamWarps / 2;
  plan.stream.ahead = 1;
  if (!plan_stream(graph, node, plan.block, plan.warps, &plan.stream).ok()) return {};
  std::int64_t width = 1;
  for (const BlockNode& product : plan.block.nodes) {
    if (product.op == Op::kMatmul && product.phase == Phase::kLoop) width = std::max(width, streamed_width(product));
  }
  const std::int64_t blocks = plan.blocks() * stream_splits(plan, sms, 2)[0];
  // Lanes that read less than a line leave some of it to others, which come at another time.
  const double lines = 1 + kNarrowCost * static_cast<double>(kMostWidth / width - 1);
  return {lines / stream_balance(blocks, sms, 2), rounds(blocks, sms, 2)};
}

}  // namespace gqa
