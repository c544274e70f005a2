// tile_writer.cc: see tile_writer.h: names, elements, loads and the order of things; tile_passes.cc writes each pass.
#include "jit/block/tile_writer.h"

#include <algorithm>
#include <numeric>

#include "jit/type_text.h"
#include "search/graph/tile/tile_passes.h"

namespace gqa {
namespace {

// Only where a name is worth reading.
std::string described(const BlockGraph& block, const BlockNode& node) {
  std::string text = node.name + " = " + std::string(name(node.op)) + "(";
  for (std::size_t at = 0; at < node.inputs.size(); ++at)
    text += (at == 0 ? "" : ", ") + block.nodes[static_cast<std::size_t>(node.inputs[at])].name;
  return text + ")" + to_text(node.attributes);
}

}  // namespace

TileWriter::TileWriter(const KernelGraph& graph, const TilePlan& plan)
    : graph_(graph), kernel_(graph.nodes()[0]), plan_(plan) {
  const auto add = [&](const Axes& axes) {
    for (const Axis& axis : axes) {
      if (!axis.whole() && std::count(extents_.begin(), extents_.end(), axis) == 0) extents_.push_back(axis);
    }
  };
  for (const BlockNode& each : plan.block.nodes) add(each.axes);
  for (const BlockStore& store : plan.block.stores) {
    Axes target;
    if (cut_axes(store.result.dims, store.map, plan.block.grid.size(), &target).ok()) add(target);
  }
}

const TensorSpec& TileWriter::operand(const BlockNode& load) const {
  return graph_.spec(kernel_.inputs[static_cast<std::size_t>(load.operand)]);
}

std::string TileWriter::argument(const BlockNode& load) const {
  const int tensor = kernel_.inputs[static_cast<std::size_t>(load.operand)];
  const auto at = std::find(graph_.inputs().begin(), graph_.inputs().end(), tensor) - graph_.inputs().begin();
  return "in" + std::to_string(at);
}

std::string TileWriter::name_of(int at) const { return node(at).name + "_" + std::to_string(at); }
std::string TileWriter::buffer_name(int at) const { return buffer(at).name + "_s" + std::to_string(at); }

std::string TileWriter::buffer_type(int at) const {
  const TileBuffer& one = buffer(at);
  return "gqa::TileBuffer<" + type_text(one.type) + ", " + std::to_string(one.rows) + ", " +
         std::to_string(one.columns) + (one.padded ? ", 16>" : ">");
}

std::string TileWriter::extent_name(const Axis& axis) const {
  return "part" + std::to_string(std::find(extents_.begin(), extents_.end(), axis) - extents_.begin());
}

std::string TileWriter::element(int at, const TileIndex& index) const {
  const BlockNode& own = node(at);
  if (at == read_as_x_) return "x";
  if (value(at).buffer >= 0 || value(at).parts >= 0) return in_buffer(at, index);
  if (own.op == Op::kLoad && value(at).place == TilePlace::kStreamed) return streamed(at);
  if (own.op == Op::kLoad) {
    return "gqa::read<" + type_text(operand(own).type) + ">(" + argument(own) + ", " +
           offset(own.axes, index, strides_of(operand(own))) + ")";
  }
  return computed(at, index);
}

std::string TileWriter::in_buffer(int at, const TileIndex& index) const {
  const TileValue& own = value(at);
  const std::string place = place_text(index, tile_dims(node(at))) + ")";
  if (own.buffer >= 0) return buffer_name(own.buffer) + ".get(" + place;
  return "gqa::total<" + std::to_string(buffer(own.parts).copies) + ">(" + buffer_name(own.parts) + ", " + place;
}

std::string TileWriter::computed(int at, const TileIndex& index) const {
  const BlockNode& own = node(at);
  if (own.op == Op::kMatmul) return dot(at, index);
  if (own.op == Op::kMask) return masked(at, index);
  if (info(own.op).kind == OpClass::kView)
    return element(own.inputs[0], viewed_index(own.op, own.attributes, index, tile_dims(node(own.inputs[0]))));
  std::vector<std::string> operands;
  for (const int input : own.inputs) operands.push_back(element(input, operand_index(index, tile_dims(node(input)))));
  return operation_text(own.op, own.attributes, operands);
}

std::string TileWriter::dot(int at, const TileIndex& index) const {
  const BlockNode& own = node(at);
  const auto side = [&](int input, bool transposed, bool left) {
    const Dims dims = tile_dims(node(input));
    const std::string own_dim = left ? index[index.size() - 2] : index.back();
    TileIndex place(index.begin(), index.end() - 2);
    place.push_back(left != transposed ? own_dim : "k");
    place.push_back(left != transposed ? "k" : own_dim);
    return "[&](int k) { return " + element(input, operand_index(place, dims)) + "; }";
  };
  const Dims a = tile_dims(node(own.inputs[0]));
  const std::int64_t inner = a[a.size() - (own.attributes.transpose_a ? 2 : 1)];
  return "gqa::dot<" + std::to_string(inner) + ">(" + side(own.inputs[0], own.attributes.transpose_a, true) + ", " +
         side(own.inputs[1], own.attributes.transpose_b, false) + ")";
}

std::string TileWriter::masked(int at, const TileIndex& index) const {
  const BlockNode& own = node(at);
  const auto place = [&](std::size_t back) {
    const Axis& axis = own.axes[own.axes.size() - back];
    const std::string& local = index[index.size() - back];
    return axis.whole() ? local : extent_name(axis) + ".begin + " + local;
  };
  return mask_text(own.attributes, place(2), place(1), own.axes[own.axes.size() - 2].full, own.axes.back().full,
                   element(own.inputs[0], index));
}

std::string TileWriter::inside(const Axes& axes, const TileIndex& index) const {
  std::string text;
  for (std::size_t at = 0; at < axes.size(); ++at) {
    if (!may_be_short(plan_.block, axes[at])) continue;
    text += (text.empty() ? "" : " && ") + index[at] + " < " + extent_name(axes[at]) + ".size";
  }
  return text;
}

// Whole dimensions begin at 0.
std::string TileWriter::offset(const Axes& axes, const TileIndex& index, const Dims& strides) const {
  TileIndex placed = index;
  for (std::size_t at = 0; at < axes.size(); ++at) {
    if (axes[at].whole()) continue;
    placed[at] = extent_name(axes[at]) + ".begin" + (index[at] == "0" ? "" : " + " + index[at]);
  }
  return join_index(placed, strides, true);
}

std::string TileWriter::end_of(const Axis& axis) const {
  return may_be_short(plan_.block, axis) ? extent_name(axis) + ".size" : std::to_string(axis.tile);
}

// The load that a reduction before a loop folds, elementwise steps between: rows whose elements come in eights. -1:
// none.
int TileWriter::eights_of(int reduction) const {
  const BlockNode& own = node(reduction);
  int at = own.inputs[0];
  const Axis along = node(at).axes.back();
  const bool last = own.attributes.dim == static_cast<std::int64_t>(own.axes.size()) - 1;
  if (!plan_.loops || own.phase != Phase::kBefore || !last || may_be_short(plan_.block, along) || along.tile % 8 != 0)
    return -1;
  while (node(at).op != Op::kLoad) {
    if (value(at).place != TilePlace::kInline || info(node(at).op).kind != OpClass::kElementwise) return -1;
    at = node(at).inputs[0];
  }
  const bool rows = value(at).place == TilePlace::kGlobal && node(at).axes == node(own.inputs[0]).axes;
  return rows && operand(node(at)).type != ElementType::kF32 && lies_in_pieces(at) ? at : -1;
}

// A lane's share of the dimension that a reduction folds, at a place of its result.
std::string TileWriter::folded(int at, const std::string& fold, const TileIndex& index, int width) {
  const BlockNode& own = node(at);
  const auto dim = static_cast<std::size_t>(own.attributes.dim);
  TileIndex place = index;
  place[dim] = node(own.inputs[0]).axes[dim].tile == 1 ? "0" : "j";
  const std::string share = "lane, " + end_of(node(own.inputs[0]).axes[dim]) + ", " + std::to_string(width);
  if (const int rows = eights_of(at); rows >= 0) {
    const BlockNode& load = node(rows);
    TileIndex begin = index;
    begin[dim] = "0";
    read_as_x_ = rows;
    const std::string term = element(own.inputs[0], place);
    read_as_x_ = -1;
    return "gqa::fold_eights<" + fold + ", " + type_text(operand(load).type) + ">(" + share + ", " + argument(load) +
           ", " + offset(load.axes, begin, strides_of(operand(load))) +
           ", [&]([[maybe_unused]] int j, float x) { return " + term + "; })";
  }
  return "gqa::fold<" + fold + ">(" + share + ", [&](int j) { return " + element(own.inputs[0], place) + "; })";
}

void TileWriter::line(const std::string& text) {
  if (!text.empty()) out_ << std::string(static_cast<std::size_t>(2 * depth_), ' ') << text << "\n";
}
void TileWriter::open(const std::string& text) {
  line(text);
  ++depth_;
}
void TileWriter::close(const std::string& text) {
  --depth_;
  line(text);
}

void TileWriter::split(const std::string& from, const Dims& dims, TileIndex* index) {
  line(split_index(from, dims, index));
}

std::string TileWriter::constants() const {
  std::ostringstream text;
  text << "constexpr int kThreads = " << plan_.threads() << ", kSteps = " << plan_.block.steps
       << ", kStages = " << plan_.stages << ", kAhead = " << plan_.ahead() << ";\n";
  std::int64_t end = 0;
  for (std::size_t at = 0; at < plan_.buffers.size(); ++at) {
    const TileBuffer& one = plan_.buffers[at];
    end = std::max(end, one.offset + one.bytes());
    text << "static_assert(" << one.copies << " * " << buffer_type(static_cast<int>(at))
         << "::kBytes == " << one.bytes() << ", \"the host's plan and the device's layout differ\");\n";
  }
  return text.str();
}

void TileWriter::declare_extents(bool loop) {
  for (const Axis& axis : extents_) {
    if (axis.loop != loop) continue;
    line("[[maybe_unused]] const gqa::Extent " + extent_name(axis) + " = gqa::extent(" + std::to_string(axis.full) +
         ", " + std::to_string(axis.share) + ", " + std::to_string(axis.tile) + ", " +
         (axis.grid < 0 ? "0" : "g" + std::to_string(axis.grid)) + ", " + (loop ? "step" : "0") + ");");
  }
}

void TileWriter::declare_buffers() {
  for (std::size_t at = 0; at < plan_.buffers.size(); ++at) {
    const int number = static_cast<int>(at);
    const bool rings =
        std::any_of(plan_.ring.begin(), plan_.ring.end(), [&](int load) { return value(load).buffer == number; });
    line("const " + buffer_type(number) + " " + buffer_name(number) + (rings ? "_ring" : "") + " = {memory + " +
         std::to_string(plan_.buffers[at].offset) + "};");
  }
}

// Rows that begin at multiples of 16 bytes, with their elements side by side.
bool TileWriter::lies_in_pieces(int at) const {
  const BlockNode& own = node(at);
  const TensorSpec& spec = operand(own);
  const Dims strides = strides_of(spec);
  const std::int64_t piece = 16 / element_bytes(spec.type);
  if (strides.back() != 1 && own.axes.back().full != 1) return false;
  const Axis& last = own.axes.back();
  if (!last.whole() && (last.share % piece != 0 || last.tile % piece != 0)) return false;
  for (std::size_t dim = 0; dim + 1 < strides.size(); ++dim) {
    if (own.axes[dim].full != 1 && strides[dim] % piece != 0) return false;
  }
  return true;
}

void TileWriter::load(int at, const std::string& tile) {
  line("// " + node(at).name);
  if (lies_in_pieces(at)) {
    load_pieces(at, tile);
  } else {
    load_elements(at, tile);
  }
}

void TileWriter::load_pieces(int at, const std::string& tile) {
  const BlockNode& own = node(at);
  Dims rows = tile_dims(own);
  rows.back() = 1;
  open("gqa::load_pieces<kThreads>(" + tile + ", " + argument(own) + ", " + end_of(own.axes.back()) +
       ", [&]([[maybe_unused]] int row, long long& offset) {");
  TileIndex index;
  split("row", rows, &index);
  line("offset = " + offset(own.axes, index, strides_of(operand(own))) + ";");
  const std::string there = inside(Axes(own.axes.begin(), own.axes.end() - 1), index);
  line("return " + (there.empty() ? "true" : there) + ";");
  close("});");
}

// In the tensor's own order, so that neighbouring threads read neighbouring elements.
void TileWriter::load_elements(int at, const std::string& tile) {
  const BlockNode& own = node(at);
  const Dims dims = tile_dims(own), strides = strides_of(operand(own));
  std::vector<std::size_t> order(dims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  Dims sorted;
  for (const std::size_t dim : order) sorted.push_back(dims[dim]);
  open("gqa::load_elements<kThreads>(" + tile + ", " + argument(own) +
       ", [&]([[maybe_unused]] int i, int& row, int& column, long long& offset) {");
  TileIndex found, index(dims.size());
  split("i", sorted, &found);
  for (std::size_t dim = 0; dim < order.size(); ++dim) index[order[dim]] = found[dim];
  line("row = " + row_text(index, dims) + ";");
  line("column = " + index.back() + ";");
  line("offset = " + offset(own.axes, index, strides) + ";");
  const std::string there = inside(own.axes, index);
  line("return " + (there.empty() ? "true" : there) + ";");
  close("});");
}

void TileWriter::begin_loads() {
  for (const int at : plan_.early) {
    load(at, buffer_name(value(at).buffer));
    line("gqa::cp_async_commit();");
  }
  if (!plan_.loops || plan_.stream.on()) return;
  open("const auto load_step = [&]([[maybe_unused]] int step) {");
  declare_extents(true);
  for (const int at : plan_.ring) load(at, buffer_name(value(at).buffer) + "_ring.copy(step % kStages)");
  close("};");
  open("for (int step = 0; step < kAhead; ++step) {");
  line("if (step < kSteps) load_step(step);");
  line("gqa::cp_async_commit();");
  close("}");
}

void TileWriter::begin_accumulators() {
  for (std::size_t at = 0; at < plan_.values.size(); ++at) {
    const int number = static_cast<int>(at);
    const TilePlace place = plan_.values[at].place;
    if (place != TilePlace::kFragments && place != TilePlace::kLanes) continue;
    const bool products = place == TilePlace::kFragments;
    line((products ? products_type(value(number).product) : lanes_type(number)) + " " + name_of(number) + ";");
    line(name_of(number) + ".clear();");
  }
}

void TileWriter::write_loop() {
  open("for (int step = 0; step < kSteps; ++step) {");
  line("gqa::cp_async_wait<kAhead - 1>();");
  line("__syncthreads();");
  if (plan_.stages > 1) {
    line("if (step + kAhead < kSteps) load_step(step + kAhead);");
    line("gqa::cp_async_commit();");
  }
  declare_extents(true);
  for (const int at : plan_.ring) {
    const std::string own = buffer_name(value(at).buffer);
    line("const auto " + own + " = " + own + "_ring.copy(step % kStages);");
  }
  write_passes(Phase::kLoop);
  close("}");
}

void TileWriter::write_passes(Phase phase) {
  for (const TilePass& pass : plan_.passes) {
    if (pass.phase != phase) continue;
    if (pass.wait >= 0) line("gqa::cp_async_wait<" + std::to_string(pass.wait) + ">();");
    if (pass.barrier) line("__syncthreads();");
    if (pass.node >= 0 && pass.kind != TilePass::Kind::kStore) line("// " + described(plan_.block, node(pass.node)));
    write(pass);
  }
}

std::string TileWriter::body() {
  const Dims& grid = plan_.block.grid;
  for (std::size_t at = 0; at < grid.size(); ++at) {
    const std::int64_t after =
        elements(Dims(grid.begin() + static_cast<std::ptrdiff_t>(at) + 1, grid.end())) * plan_.stream.splits;
    line("[[maybe_unused]] const int g" + std::to_string(at) + " = static_cast<int>(blockIdx.x) / " +
         std::to_string(after) + " % " + std::to_string(grid[at]) + ";");
  }
  const bool streams = plan_.stream.on();
  if (streams)
    line("[[maybe_unused]] const int split = static_cast<int>(blockIdx.x) % " + std::to_string(plan_.stream.splits) +
         ";");
  declare_extents(false);
  declare_buffers();
  if (streams) write_prefetches();
  line("gqa::wait_for_grids_before();");
  begin_loads();
  if (!plan_.loops || streams) line("gqa::let_next_grid_begin();");
  write_passes(Phase::kBefore);
  if (streams) {
    write_passes(Phase::kLoop);
    write_passes(Phase::kAfter);
  } else if (plan_.loops) {
    begin_accumulators();
    write_loop();
    line("gqa::let_next_grid_begin();");
    write_passes(Phase::kAfter);
  }
  return out_.str();
}

}  // namespace gqa
