// tile_values.cc: see tile_values.h.
#include "search/graph/tile/tile_values.h"

#include <algorithm>

#include "search/graph/tile/tile_passes.h"
#include "search/graph/tile/tile_product.h"
#include "search/graph/tile/tile_readers.h"
#include "search/rounding.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostRereads = 16;  // of an element of a tile that is not kept
constexpr std::int64_t kLanes = 32;

bool is_view(Op op) { return info(op).kind == OpClass::kView; }
bool is_reduction(Op op) { return info(op).kind == OpClass::kReduction; }

class Placer {
 public:
  Placer(const KernelGraph& graph, const KernelNode& node, TilePlan* plan)
      : graph_(graph), kernel_(node), plan_(*plan) {}

  void run() {
    plan_.values.resize(nodes().size());
    readers_ = tile_readers(plan_);
    types_ = tile_types(graph_, kernel_, plan_.block);
    find_tensor_cores();
    for (std::size_t at = 0; at < nodes().size(); ++at) {
      if (is_accumulator(nodes()[at].op)) take_in(static_cast<int>(at));
    }
    for (std::size_t at = 0; at < nodes().size(); ++at) place(static_cast<int>(at));
  }

 private:
  const std::vector<BlockNode>& nodes() const { return plan_.block.nodes; }
  const BlockNode& node(int at) const { return nodes()[static_cast<std::size_t>(at)]; }
  TileValue& value(int at) { return plan_.values[static_cast<std::size_t>(at)]; }
  const std::vector<TileReader>& readers(int at) const { return readers_[static_cast<std::size_t>(at)]; }
  Phase phase(int at) const { return tile_phase(plan_, node(at)); }

  void find_tensor_cores() {
    for (std::size_t at = 0; at < nodes().size(); ++at) {
      if (nodes()[at].op == Op::kMatmul)
        plan_.values[at].tensor_cores =
            types_[at] != ElementType::kF32 && ProductSizes(plan_.block, nodes()[at]).inner % kProductDepth == 0;
    }
    wanted_.resize(nodes().size(), false);
    for (std::size_t at = nodes().size(); at-- > 0;) wanted_[at] = feeds_tensor_cores(static_cast<int>(at));
  }

  bool feeds_tensor_cores(int at) {
    return std::any_of(readers(at).begin(), readers(at).end(), [&](const TileReader& reader) {
      if (reader.node < 0) return false;
      if (node(reader.node).op == Op::kMatmul) return value(reader.node).tensor_cores;
      return is_flat_view(reader.node) && wanted_[static_cast<std::size_t>(reader.node)];
    });
  }

  bool is_flat_view(int at) const { return node(at).op == Op::kSqueeze || node(at).op == Op::kUnsqueeze; }
  bool read_once(int at) const { return readers(at).size() == 1; }

  // What an accumulator makes of its operand itself, so that it needs no buffer.
  void take_in(int at) {
    const BlockNode& own = node(at);
    const int x = own.inputs[0];
    TileValue& mine = value(at);
    if (own.op == Op::kRunningMax) {
      mine.follows = read_once(x) && node(x).op == Op::kMax;
      if (mine.follows) absorb(x, at);
      return;
    }
    const bool maximum = own.op == Op::kAccumulateMax;
    std::vector<int> absorbed;
    if (!maximum && are_products(at, x, &mine.terms, &absorbed)) {
      for (const int one : absorbed) value(one).place = TilePlace::kAbsorbed;
      mine.place = TilePlace::kFragments;
      return;
    }
    mine.terms.clear();
    mine.place = TilePlace::kLanes;
    if (read_once(x) && node(x).op == (maximum ? Op::kMax : Op::kSum)) absorb(x, at);
  }

  void absorb(int reduction, int into) {
    value(reduction).place = TilePlace::kAbsorbed;
    value(into).width = width_of(reduction);
  }

  // A product, or a sum of products, that nobody else reads.
  bool are_products(int sum, int x, std::vector<int>* terms, std::vector<int>* absorbed) {
    if (!read_once(x) || tile_dims(node(x).axes) != tile_dims(node(sum).axes)) return false;
    absorbed->push_back(x);
    if (node(x).op == Op::kMatmul && value(x).tensor_cores) {
      terms->push_back(x);
      return true;
    }
    return node(x).op == Op::kAdd && node(x).inputs[0] != node(x).inputs[1] &&
           are_products(sum, node(x).inputs[0], terms, absorbed) &&
           are_products(sum, node(x).inputs[1], terms, absorbed);
  }

  // Lanes that share one result: no more than it has elements, nor than there are threads.
  int width_of(int at) const {
    const std::int64_t results = tile_elements(node(at)), size = tile_elements(node(node(at).inputs[0])) / results;
    std::int64_t width = kLanes;
    while (width > 1 && (width > size || results * width > 2 * plan_.threads())) width /= 2;
    return static_cast<int>(width);
  }

  void place(int at) {
    TileValue& own = value(at);
    if (own.place == TilePlace::kAbsorbed) return;
    const BlockNode& each = node(at);
    if (plan_.stream.on() && phase(at) == Phase::kLoop && !is_accumulator(each.op)) {
      own.place = TilePlace::kStreamed;
      return;
    }
    if (each.op == Op::kLoad) return place_load(at);
    if (is_accumulator(each.op)) return place_accumulator(at);
    if (is_reduction(each.op)) {
      own.width = width_of(at);
      return keep(at);
    }
    if (each.op == Op::kMatmul && own.tensor_cores) return place_product(at);
    if (is_view(each.op) && wanted_[static_cast<std::size_t>(at)] && is_flat_view(at) && shares_operand(at)) return;
    if (is_read_in_place(at)) return;
    if (!takes_over(at)) keep(at);
  }

  // The operand's buffer under other dimensions.
  bool shares_operand(int at) {
    const TileValue& operand = value(node(at).inputs[0]);
    if (operand.buffer < 0 || operand.type == ElementType::kF32) return false;
    value(at).place = TilePlace::kShared;
    value(at).type = operand.type;
    value(at).buffer = operand.buffer;
    return true;
  }

  // Elements that a reader computes for itself: each once, in its own phase. A view of what is kept costs nothing.
  bool is_read_in_place(int at) {
    const bool free = is_view(node(at).op) && is_kept(node(at).inputs[0]);
    if (!free && !read_once(at)) return false;
    return std::all_of(readers(at).begin(), readers(at).end(), [&](const TileReader& reader) {
      if (reader.phase != phase(at)) return false;
      if (reader.node < 0) return true;
      const BlockNode& by = node(reader.node);
      if (by.op == Op::kMatmul) return free && !value(reader.node).tensor_cores;
      return free || is_reduction(by.op) || tile_elements(by) <= tile_elements(node(at));
    });
  }

  bool is_kept(int at) const {
    const TileValue& own = plan_.values[static_cast<std::size_t>(at)];
    return own.buffer >= 0 || own.parts >= 0;
  }

  void keep(int at) {
    TileValue& own = value(at);
    own.place = TilePlace::kShared;
    own.type = kept_type(at);
    own.buffer = add_buffer(node(at).name, own.type, tile_rows(node(at)), tile_columns(node(at)), 1);
  }

  ElementType kept_type(int at) const {
    const auto which = static_cast<std::size_t>(at);
    return wanted_[which] ? types_[which] : ElementType::kF32;
  }

  int add_buffer(std::string name, ElementType type, std::int64_t rows, std::int64_t columns, std::int64_t copies) {
    plan_.buffers.push_back({std::move(name), type, rows, columns, copies});
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  // An elementwise value in the place of an operand of the same shape that nobody reads after it.
  bool takes_over(int at) {
    if (phase(at) != Phase::kBefore) return false;
    std::vector<int> found;
    find_own_elements(at, at, &found);
    for (const int from : found) {
      const TileValue& operand = value(from);
      if (operand.type != kept_type(at) || last_reader(from) != at) continue;
      std::vector<int> all;
      for (const int input : node(at).inputs) read_foreign(at, input, operand.buffer, &all);
      if (!all.empty()) continue;
      value(at).place = TilePlace::kShared;
      value(at).type = operand.type;
      value(at).buffer = operand.buffer;
      return true;
    }
    return false;
  }

  bool is_inline_step(int at) const {
    return plan_.values[static_cast<std::size_t>(at)].place == TilePlace::kInline &&
           info(node(at).op).kind == OpClass::kElementwise;
  }

  // Kept values whose element at a place is all that `whole` reads of them there.
  void find_own_elements(int whole, int at, std::vector<int>* found) {
    if (info(node(at).op).kind != OpClass::kElementwise) return;
    for (const int input : node(at).inputs) {
      if (tile_dims(node(input).axes) != tile_dims(node(whole).axes)) continue;
      if (value(input).place == TilePlace::kShared && value(input).buffer >= 0) found->push_back(input);
      if (is_inline_step(input)) find_own_elements(whole, input, found);
    }
  }

  // Where `at` reads the buffer at another place than its own.
  void read_foreign(int whole, int at, int buffer, std::vector<int>* found) {
    const bool own = tile_dims(node(at).axes) == tile_dims(node(whole).axes);
    if (value(at).buffer == buffer && !own) found->push_back(at);
    if (value(at).place != TilePlace::kInline) return;
    for (const int input : node(at).inputs) {
      if (own && is_inline_step(at)) {
        read_foreign(whole, input, buffer, found);
      } else {
        std::vector<int> all;
        read_buffers(plan_, input, &all);
        if (std::count(all.begin(), all.end(), buffer) > 0) found->push_back(at);
      }
    }
  }

  // The last pass that reads a kept value, `whole` standing for those inlined into it; int max where that is not known.
  int last_reader(int at) const {
    int last = -1;
    for (const TileReader& reader : readers(at)) {
      if (reader.node < 0 || reader.phase != Phase::kBefore) return std::numeric_limits<int>::max();
      last = std::max(last, pass_of(reader.node));
    }
    for (std::size_t other = 0; other < nodes().size(); ++other) {
      if (static_cast<int>(other) != at && plan_.values[other].buffer >= 0 &&
          plan_.values[other].buffer == plan_.values[static_cast<std::size_t>(at)].buffer)
        return std::numeric_limits<int>::max();
    }
    return last;
  }

  // The node whose pass computes this one: itself, or what it is inlined into. Nodes that are not placed yet come
  // later; none of them has been inlined.
  int pass_of(int at) const {
    const bool pending = info(node(at).op).kind == OpClass::kElementwise && inlined(at);
    return pending && readers(at)[0].node >= 0 ? pass_of(readers(at)[0].node) : at;
  }
  bool inlined(int at) const {
    if (plan_.values[static_cast<std::size_t>(at)].place != TilePlace::kInline || !read_once(at)) return false;
    const TileReader& reader = readers(at)[0];
    return reader.node >= 0 && reader.phase == phase(at) && node(reader.node).op != Op::kMatmul &&
           (is_reduction(node(reader.node).op) || tile_elements(node(reader.node)) <= tile_elements(node(at)));
  }

  void place_load(int at) {
    TileValue& own = value(at);
    own.type = types_[static_cast<std::size_t>(at)];
    if (phase(at) != Phase::kLoop && is_used_once(at)) {
      own.place = TilePlace::kGlobal;
      return;
    }
    own.place = TilePlace::kShared;
    const bool rings = phase(at) == Phase::kLoop;
    own.buffer =
        add_buffer(node(at).name, own.type, tile_rows(node(at)), tile_columns(node(at)), rings ? plan_.stages : 1);
    if (phase(at) != Phase::kAfter) (rings ? plan_.ring : plan_.early).push_back(at);
  }

  bool is_used_once(int at) const {
    if (!read_once(at)) return false;
    const TileReader& reader = readers(at)[0];
    if (reader.phase != phase(at)) return false;
    if (reader.node < 0) return true;
    const BlockNode& by = node(reader.node);
    if (by.op == Op::kMatmul || is_flat_view(reader.node) || is_view(by.op)) return false;
    return is_reduction(by.op) || tile_elements(by) <= kMostRereads * tile_elements(node(at));
  }

  void place_accumulator(int at) {
    TileValue& own = value(at);
    if (plan_.stream.on()) return keep_streamed(at);
    if (own.place == TilePlace::kFragments) {
      own.product = share_out(plan_, own.terms, plan_.block.steps);
      keep_parts(at, own.product.warps_inner);
    } else {
      keep(at);
      const bool lanes = node(at).op != Op::kRunningMax;
      if (lanes) own.place = TilePlace::kLanes;
      if (node(at).op == Op::kRunningMax && is_rescaled_by(at))
        own.change =
            add_buffer(node(at).name + "_change", ElementType::kF32, tile_rows(node(at)), tile_columns(node(at)), 1);
    }
  }

  bool is_rescaled_by(int at) const {
    return std::any_of(readers(at).begin(), readers(at).end(), [&](const TileReader& reader) {
      return reader.node >= 0 && node(reader.node).op == Op::kAccumulateRescaled && reader.operand == 1;
    });
  }

  void place_product(int at) {
    value(at).product = share_out(plan_, {at}, 1);
    value(at).place = TilePlace::kShared;
    keep_parts(at, value(at).product.warps_inner);
  }

  // What so many warps have parts of.
  void keep_parts(int at, int copies) {
    TileValue& own = value(at);
    own.type = kept_type(at);
    if (copies > 1) add_parts(at, copies);
    if (copies == 1 || own.type != ElementType::kF32) add_whole(at);
  }

  // The warps of a stream hand over float32; what thread blocks have of it too is merged.
  void keep_streamed(int at) {
    const bool merged = plan_.stream.splits > 1;
    if (merged && plan_.stream.last < 0) plan_.stream.last = add_buffer("last", ElementType::kF32, 1, 1, 1);
    TileValue& own = value(at);
    own.type = kept_type(at);
    add_parts(at, plan_.copies());
    plan_.buffers[static_cast<std::size_t>(own.parts)].padded = true;
    if (merged || own.type != ElementType::kF32) add_whole(at);
  }

  void add_parts(int at, int copies) {
    value(at).parts =
        add_buffer(node(at).name + "_parts", ElementType::kF32, tile_rows(node(at)), tile_columns(node(at)), copies);
  }
  void add_whole(int at) {
    value(at).buffer = add_buffer(node(at).name, value(at).type, tile_rows(node(at)), tile_columns(node(at)), 1);
  }

  const KernelGraph& graph_;
  const KernelNode& kernel_;
  TilePlan& plan_;
  TileReaders readers_;
  std::vector<ElementType> types_;
  std::vector<bool> wanted_;  // as operands of tensor cores
};

}  // namespace

void place_values(const KernelGraph& graph, const KernelNode& node, TilePlan* plan) { Placer(graph, node, plan).run(); }

}  // namespace gqa
