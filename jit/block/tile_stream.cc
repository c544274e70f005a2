// tile_stream.cc: see tile_writer.h: the text of a streamed loop (search/graph/tile/tile_stream.h), and of the meeting
// of thread blocks that share one.
#include "search/graph/tile/tile_stream.h"

#include <algorithm>

#include "jit/block/tile_writer.h"
#include "jit/type_text.h"

namespace gqa {
namespace {

// Leading dimensions, as places of a flat row.
Dims rows_of(const BlockNode& node) {
  Dims dims = tile_dims(node);
  dims.back() = 1;
  return dims;
}

}  // namespace

// The rows that stand for a value's: one where all are the same.
std::string TileWriter::rows_type(int at) const {
  return "gqa::StreamedRows<" + std::to_string(tile_rows(node(at))) + ">";
}

std::string TileWriter::right_type(int product) const {
  const BlockNode& own = node(product);
  return std::string(own.attributes.transpose_b ? "gqa::StreamedRight<" : "gqa::StreamedColumns<") +
         std::to_string(streamed_width(own)) + ">";
}

std::string TileWriter::sums_type(int at) const {
  const std::vector<int> products = streamed_products(plan_.block, at);
  const std::string rows = std::to_string(tile_rows(node(at)));
  return products.empty() ? "gqa::StreamedFold<" + rows + ">"
                          : "gqa::StreamedSums<" + rows + ", " + std::to_string(streamed_width(node(at))) + ", " +
                                right_type(products[0]) + ">";
}

// What the lanes hold of a value that moves with the loop, at a place of their own.
std::string TileWriter::streamed(int at) const {
  const std::string half = tile_rows(node(at)) == 1 ? "0" : "half";
  return name_of(at) + "[slot].get<" + type_text(operand(node(at)).type) + ">(" + half + ", at)";
}

// An element of rows of the loop, in terms of `half` and `at`, with the row's place before it.
std::string TileWriter::streamed_element(int at) {
  TileIndex index;
  line("[[maybe_unused]] const int row = gqa::stream_row<" + std::to_string(tile_rows(node(at))) + ">(half);");
  split("row", rows_of(node(at)), &index);
  index.back() = "at";
  return element(at, index);
}

void TileWriter::stream_extents() {
  for (const Axis& axis : extents_) {
    if (!axis.loop) continue;
    const std::string share =
        axis.grid < 0 ? "" : "g" + std::to_string(axis.grid) + " * " + std::to_string(axis.share) + " + ";
    line("[[maybe_unused]] const gqa::Extent " + extent_name(axis) + " = {" + share + "piece * " +
         std::to_string(kStreamDepth) + ", " + std::to_string(kStreamDepth) + "};");
  }
}

void TileWriter::stream_rows(int at) {
  const BlockNode& own = node(at);
  TileIndex index;
  open(name_of(at) + "[slot].load(" + argument(own) + ", [&]([[maybe_unused]] int half, long long& offset) {");
  line("[[maybe_unused]] const int row = gqa::stream_row<" + std::to_string(tile_rows(own)) + ">(half);");
  split("row", rows_of(own), &index);
  index.back() = "gqa::stream_depth()";
  line("offset = " + offset(own.axes, index, strides_of(operand(own))) + ";");
  const std::string there = inside(Axes(own.axes.begin(), own.axes.end() - 1), index);
  line("return " + (there.empty() ? "true" : there) + ";");
  close("});");
}

void TileWriter::stream_right(int product, std::int64_t first) {
  const int at = node(product).inputs[1];
  const BlockNode& own = node(at);
  const std::size_t last = own.axes.size() - 1;
  const Dims strides = strides_of(operand(own));
  TileIndex index(own.axes.size(), "0");
  const std::string begin = first == 0 ? "" : std::to_string(first) + " + ";
  if (node(product).attributes.transpose_b) {
    open(name_of(at) + "[slot].load(" + argument(own) + ", [&](int column, long long& offset) {");
    index[last - 1] = begin + "column";
    index[last] = "gqa::stream_depth()";
    line("offset = " + offset(own.axes, index, strides) + ";");
    line("return " +
         (may_be_short(plan_.block, own.axes[last - 1])
              ? begin + "column < " + extent_name(own.axes[last - 1]) + ".size"
              : "true") +
         ";");
    return close("});");
  }
  const std::string column = begin + "gqa::stream_lane() / 4 * " + std::to_string(streamed_width(node(product)));
  index[last - 1] = "gqa::stream_depth()";
  index[last] = column;
  line(name_of(at) + "[slot].load(" + argument(own) + ", " + offset(own.axes, index, strides) + ", " +
       std::to_string(strides[last - 1]) + ", " +
       (may_be_short(plan_.block, own.axes[last]) ? column + " < " + extent_name(own.axes[last]) + ".size" : "true") +
       ");");
}

void TileWriter::stream_use(int at, std::vector<int>* computed) {
  const std::vector<int> products = streamed_products(plan_.block, at);
  if (products.empty()) {
    const StreamedFold fold = streamed_fold(plan_.block, at);
    open(name_of(at) + ".add(" + number_text(fold.factor) + ", [&]([[maybe_unused]] int half, int at) {");
    const std::string text = streamed_element(fold.folded);
    line("return " + text + ";");
    return close("});");
  }
  for (const int product : products) {
    const int left = node(product).inputs[0], right = node(product).inputs[1];
    const std::string type = type_text(operand(node(right)).type);
    std::string rows = name_of(left);
    if (node(left).op == Op::kLoad) {
      rows += "[slot]";
    } else if (std::count(computed->begin(), computed->end(), left) == 0) {
      computed->push_back(left);
      line(rows_type(left) + " " + rows + ";");
      open(rows + ".set<" + type + ">([&]([[maybe_unused]] int half, int at) {");
      const std::string text = streamed_element(left);
      line("return " + text + ";");
      close("});");
    }
    line(name_of(at) + ".multiply<" + type + ">(" + rows + ", " + name_of(right) + "[slot]);");
  }
}

// Into this warp's part of shared memory.
void TileWriter::stream_flush(const StreamedSum& sum) {
  const std::string to =
      buffer_name(value(sum.accumulator).parts) + ".copy(warp % " + std::to_string(plan_.copies()) + ")";
  const bool products = !streamed_products(plan_.block, sum.accumulator).empty();
  line(name_of(sum.accumulator) + ".put(" + to + (products ? ", " + std::to_string(sum.column) : "") + ");");
}

// Products, one for each right operand, and their first columns.
std::vector<std::pair<int, std::int64_t>> TileWriter::rights(const std::vector<StreamedSum>& group) const {
  std::vector<std::pair<int, std::int64_t>> found;
  for (const auto& [at, column] : group) {
    for (const int product : streamed_products(plan_.block, at)) {
      const bool known = std::any_of(found.begin(), found.end(), [&](const auto& other) {
        return node(other.first).inputs[1] == node(product).inputs[1];
      });
      if (!known) found.emplace_back(product, column);
    }
  }
  return found;
}

void TileWriter::stream_group(const std::vector<StreamedSum>& group) {
  const std::vector<int> loads = streamed_rows(plan_.block, group);
  const std::string ahead = "[" + std::to_string(plan_.stream.ahead) + "];";
  for (const auto& [at, column] : group) {
    line(sums_type(at) + " " + name_of(at) + ";");
    line(name_of(at) + ".clear();");
  }
  for (const int load : loads) line(rows_type(load) + " " + name_of(load) + ahead);
  for (const auto& [product, column] : rights(group))
    line(right_type(product) + " " + name_of(node(product).inputs[1]) + ahead);
  open("const auto load = [&](int slot, int piece) {");
  stream_extents();
  for (const int load : loads) stream_rows(load);
  for (const auto& [product, column] : rights(group)) stream_right(product, column);
  close("};");
  open("const auto use = [&](int slot) {");
  std::vector<int> computed;
  for (const auto& [at, column] : group) stream_use(at, &computed);
  close("};");
  const std::string splits = std::to_string(plan_.stream.splits);
  const std::string end = plan_.stream.splits == 1 ? "kSteps" : "(split + 1) * kSteps / " + splits;
  line("gqa::stream<" + std::to_string(plan_.stream.ahead) + ">(" + first_piece() + ", " +
       std::to_string(plan_.copies()) + ", " + end + ", load, use);");
  for (const StreamedSum& sum : group) stream_flush(sum);
}

std::string TileWriter::first_piece() const {
  const std::string splits = std::to_string(plan_.stream.splits);
  return (plan_.stream.splits == 1 ? "" : "split * kSteps / " + splits + " + ") + "warp % " +
         std::to_string(plan_.copies());
}

// What each group of warps does.
void TileWriter::write_groups(const std::function<void(const std::vector<StreamedSum>&)>& write) {
  const std::size_t groups = plan_.stream.groups.size();
  for (std::size_t at = 0; at < groups; ++at) {
    const std::string is = "if (warp / " + std::to_string(plan_.copies()) + " == " + std::to_string(at) + ") {";
    open(groups == 1 ? "{" : at == 0 ? is : "} else " + is);
    write(plan_.stream.groups[at]);
    --depth_;
  }
  line("}");
}

void TileWriter::write_stream() {
  write_groups([this](const std::vector<StreamedSum>& group) { stream_group(group); });
}

void TileWriter::stream_prefetch(int product, std::int64_t first) {
  const int at = node(product).inputs[1];
  const BlockNode& own = node(at);
  const std::size_t last = own.axes.size() - 1;
  const bool transposed = node(product).attributes.transpose_b;
  const std::size_t columns = transposed ? last - 1 : last;
  const Dims strides = strides_of(operand(own));
  TileIndex index(own.axes.size(), "0");
  index[columns] = std::to_string(first);
  const Axis& axis = own.axes[columns];
  const std::string left = (may_be_short(plan_.block, axis) ? extent_name(axis) + ".size" : std::to_string(axis.tile)) +
                           (first == 0 ? "" : " - " + std::to_string(first));
  const std::string there = may_be_short(plan_.block, axis) ? left + " > 0" : "true";
  line(right_type(product) + "::prefetch(" + argument(own) + ", " + offset(own.axes, index, strides) + ", " +
       std::to_string(strides[last - 1]) + ", " + (transposed ? left : there) + ");");
}

// The first pieces of the right operands come to L2 under the end of the grid before.
void TileWriter::write_prefetches() {
  line("const int warp = static_cast<int>(threadIdx.x) / 32;");
  write_groups([this](const std::vector<StreamedSum>& group) {
    line("const int piece = " + first_piece() + ";");
    stream_extents();
    open("if (piece < kSteps) {");
    for (const auto& [product, column] : rights(group)) stream_prefetch(product, column);
    close("}");
  });
}

// Each thread block hands over its sums; the last one to arrive has them all.
void TileWriter::write_merge() {
  const std::string stride = std::to_string(plan_.partials()), splits = std::to_string(plan_.stream.splits);
  std::int64_t offset = 0;
  line("float* const all = partials + static_cast<long long>(blockIdx.x - split) * " + stride + ";");
  std::vector<std::string> after;
  for (std::size_t at = 0; at < plan_.values.size(); ++at) {
    if (info(plan_.block.nodes[at].op).kind != OpClass::kAccumulator) continue;
    const TileValue& own = plan_.values[at];
    const std::string from = std::to_string(offset);
    line("gqa::hand_over<kThreads, " + std::to_string(buffer(own.parts).copies) + ">(all + split * " + stride + " + " +
         from + ", " + buffer_name(own.parts) + ");");
    after.push_back("gqa::take_over<kThreads, " + splits + ">(" + buffer_name(own.buffer) + ", all + " + from + ", " +
                    stride + ");");
    offset += partial_floats(plan_.block.nodes[at]);
  }
  line("if (!gqa::arrive_last(arrived + blockIdx.x / " + splits + ", " + splits + ", " +
       buffer_name(plan_.stream.last) + ".at(0, 0))) return;");
  for (const std::string& each : after) line(each);
}

}  // namespace gqa
