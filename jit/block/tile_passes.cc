#include <algorithm>

#include "jit/block/tile_writer.h"
#include "jit/type_text.h"  // tile_passes.cc: see tile_writer.h: the text of each kind of pass.

namespace gqa {
namespace {

std::string guarded(const std::string& inside, const std::string& value) {
  return inside.empty() ? value : inside + " ? " + value + " : 0.f";
}

std::string fold_of(Op op) {
  const bool largest = op == Op::kMax || op == Op::kRunningMax || op == Op::kAccumulateMax;
  return largest ? "gqa::Largest" : "gqa::Sum";
}

std::string put(const std::string& buffer, const TileIndex& index, const Dims& dims, const std::string& value) {
  return buffer + ".put(" + place_text(index, dims) + ", " + value + ");";
}

}  // namespace

std::string TileWriter::products_type(const TileProduct& product) const {
  return "gqa::Products<" + std::to_string(product.batches) + ", " + std::to_string(product.rows) + ", " +
         std::to_string(product.columns) + ", " + std::to_string(product.warps_rows) + ", " +
         std::to_string(product.warps_columns) + ", " + std::to_string(product.warps_inner) + ">";
}

std::string TileWriter::lanes_type(int at) const {
  return "gqa::Lanes<" + fold_of(node(at).op) + ", kThreads, " + std::to_string(tile_elements(node(at))) + ", " +
         std::to_string(value(at).width) + ">";
}

void TileWriter::write(const TilePass& pass) {
  switch (pass.kind) {
    case Kind::kLoad:
      load(pass.node, buffer_name(value(pass.node).buffer));
      line("gqa::cp_async_commit();");
      return line("gqa::cp_async_wait<0>();");
    case Kind::kProduct:
      return write_product(pass.node);
    case Kind::kMap:
      return write_map(pass.node);
    case Kind::kReduce:
      return write_reduce(pass.node);
    case Kind::kCarry:
      return write_carry(pass.node, pass.phase);
    case Kind::kAccumulate:
      return write_accumulate(pass.node);
    case Kind::kFlush:
      return write_flush(pass.node);
    case Kind::kTotal:
      return write_total(pass.node);
    case Kind::kStream:
      return write_stream();
    case Kind::kMerge:
      return write_merge();
    case Kind::kStore:
      return write_store(pass.node);
  }
}

void TileWriter::write_map(int at) {
  const BlockNode& own = node(at);
  TileIndex index;
  open("gqa::each<kThreads, " + std::to_string(tile_elements(own)) + ">([&](int i) {");
  split("i", tile_dims(own), &index);
  line(
      put(buffer_name(value(at).buffer), index, tile_dims(own), guarded(inside(own.axes, index), computed(at, index))));
  close("});");
}

void TileWriter::write_reduce(int at) {
  const BlockNode& own = node(at);
  const std::string fold = fold_of(own.op);
  TileIndex index;
  open("{");
  line(lanes_type(at) + " lanes;");
  line("lanes.clear();");
  open("lanes.each([&](int i, int lane, float& part) {");
  split("i", tile_dims(own), &index);
  const std::string there = inside(own.axes, index);
  line((there.empty() ? "" : "if (" + there + ") ") + "part = " + folded(at, fold, index, value(at).width) + ";");
  close("});");
  open("lanes.finish([&](int i, float whole) {");
  split("i", tile_dims(own), &index);
  line(put(buffer_name(value(at).buffer), index, tile_dims(own), guarded(there, "whole")));
  close("});");
  close("}");
}

// before -> now, and what it changes.
void TileWriter::carry(int at, const TileIndex& index, const std::string& x) {
  const Dims dims = tile_dims(node(at));
  const std::string now = buffer_name(value(at).buffer);
  line("const float before = " + in_buffer(at, index) + ", now = gqa::larger(before, " + x + ");");
  line(put(now, index, dims, "now"));
  if (value(at).change >= 0) line(put(buffer_name(value(at).change), index, dims, "gqa::change_of(before, now)"));
}

void TileWriter::write_carry(int at, Phase phase) {
  const BlockNode& own = node(at);
  const Dims dims = tile_dims(own);
  const std::string all = "gqa::each<kThreads, " + std::to_string(tile_elements(own)) + ">([&](int i) {";
  TileIndex index;
  if (phase == Phase::kBefore) {
    open(all);
    split("i", dims, &index);
    line(put(buffer_name(value(at).buffer), index, dims, "gqa::negative_infinity()"));
    return close("});");
  }
  if (!value(at).follows) {
    open(all);
    split("i", dims, &index);
    const std::string there = inside(own.axes, index);
    const std::string x = element(own.inputs[0], index);
    carry(at, index, there.empty() ? x : "(" + there + " ? " + x + " : gqa::negative_infinity())");
    return close("});");
  }
  open("{");
  line(lanes_type(at) + " lanes;");
  line("lanes.clear();");
  open("lanes.each([&](int i, int lane, float& part) {");
  split("i", dims, &index);
  const std::string there = inside(own.axes, index);
  line((there.empty() ? "" : "if (" + there + ") ") +
       "part = " + folded(own.inputs[0], "gqa::Largest", index, value(at).width) + ";");
  close("});");
  open("lanes.finish([&](int i, float whole) {");
  split("i", dims, &index);
  carry(at, index, "whole");
  close("});");
  close("}");
}

// Which batch of an operand meets that of the result.
std::string TileWriter::batch_text(int term, std::size_t which, const TileProduct& product) const {
  const Dims result = tile_dims(node(term)), dims = tile_dims(node(node(term).inputs[which]));
  const Dims batch(result.begin(), result.end() - 2), own(dims.begin(), dims.end() - 2);
  if (product.batches == 1 || elements(own) == 1) return "[](int) { return 0; }";
  TileIndex index;
  const std::string split = split_index("batch", batch, &index);
  return "[](int batch) { " + split + " return " + join_index(operand_index(index, own), row_major_strides(own)) +
         "; }";
}

void TileWriter::multiply(const std::string& sums, int term, const TileProduct& product) {
  const BlockNode& own = node(term);
  const int left = own.inputs[0], right = own.inputs[1];
  const Dims a = tile_dims(node(left));
  const std::int64_t inner = a[a.size() - (own.attributes.transpose_a ? 2 : 1)];
  const bool one = product.batches == 1 || tile_elements(node(right)) == inner * product.columns;
  const auto flag = [](bool is) { return is ? "true" : "false"; };
  line(sums + ".multiply<" + type_text(buffer(value(left).buffer).type) + ", " + std::to_string(inner) + ", " +
       flag(own.attributes.transpose_a) + ", " + flag(own.attributes.transpose_b) + ", " + flag(one) + ">(" +
       buffer_name(value(left).buffer) + ", " + buffer_name(value(right).buffer) + ", " + batch_text(term, 0, product) +
       ", " + batch_text(term, 1, product) + ");");
}

void TileWriter::flush_products(const std::string& sums, int at) {
  const TileValue& own = value(at);
  const std::string to =
      own.parts < 0 ? buffer_name(own.buffer) : buffer_name(own.parts) + ".copy(" + sums + ".share())";
  line(sums + ".each([&](int row, int column, float sum) { " + to + ".put(row, column, sum); });");
}

void TileWriter::write_product(int at) {
  open("{");
  line(products_type(value(at).product) + " sums;");
  line("sums.clear();");
  multiply("sums", at, value(at).product);
  flush_products("sums", at);
  close("}");
}

// What was summed under the maximum before, brought under the maximum now.
std::string TileWriter::change_at(int at, const TileIndex& index) const {
  const int maximum = node(at).inputs[1];
  const Dims dims = tile_dims(node(maximum));
  return buffer_name(value(maximum).change) + ".get(" + place_text(operand_index(index, dims), dims) + ")";
}

void TileWriter::accumulate_products(int at) {
  TileIndex index;
  if (node(at).op == Op::kAccumulateRescaled) {
    const Dims dims = tile_dims(node(at));
    open(name_of(at) + ".each([&]([[maybe_unused]] int row, [[maybe_unused]] int column, float& sum) {");
    split("row", Dims(dims.begin(), dims.end() - 1), &index);
    index.push_back(dims.back() == 1 ? "0" : "column");
    line("sum *= " + change_at(at, index) + ";");
    close("});");
  }
  for (const int term : value(at).terms) multiply(name_of(at), term, value(at).product);
}

void TileWriter::write_accumulate(int at) {
  if (value(at).place == TilePlace::kFragments) return accumulate_products(at);
  const BlockNode& own = node(at);
  const int x = own.inputs[0];
  const bool reduces = value(x).place == TilePlace::kAbsorbed;
  const std::string fold = fold_of(own.op);
  TileIndex index;
  open(name_of(at) + ".each([&]([[maybe_unused]] int i, [[maybe_unused]] int lane, float& part) {");
  split("i", tile_dims(own), &index);
  if (own.op == Op::kAccumulateRescaled) line("part *= " + change_at(at, index) + ";");
  const std::string there = inside(node(x).axes, index);
  line((there.empty() ? "" : "if (" + there + ") ") + "part = " + fold + "::join(part, " +
       (reduces ? folded(x, fold, index, value(at).width) : element(x, index)) + ");");
  close("});");
}

void TileWriter::write_flush(int at) {
  if (value(at).place == TilePlace::kFragments) return flush_products(name_of(at), at);
  TileIndex index;
  open(name_of(at) + ".finish([&](int i, float whole) {");
  split("i", tile_dims(node(at)), &index);
  line(put(buffer_name(value(at).buffer), index, tile_dims(node(at)), "whole"));
  close("});");
}

void TileWriter::write_total(int at) {
  const Dims dims = tile_dims(node(at));
  const std::string parts = buffer_name(value(at).parts);
  TileIndex index;
  open("gqa::each<kThreads, " + std::to_string(tile_elements(node(at))) + ">([&](int i) {");
  line("const int row = i / " + std::to_string(dims.back()) + ", column = i % " + std::to_string(dims.back()) + ";");
  line(buffer_name(value(at).buffer) + ".put(row, column, gqa::total<" +
       std::to_string(buffer(value(at).parts).copies) + ">(" + parts + ", row, column));");
  close("});");
}

void TileWriter::write_store(int at) {
  const BlockStore& store = plan_.block.stores[static_cast<std::size_t>(at)];
  const std::vector<int> outputs = graph_.outputs();
  const int tensor = kernel_.outputs[static_cast<std::size_t>(at)];
  const auto argument = std::find(outputs.begin(), outputs.end(), tensor) - outputs.begin();
  if (argument == static_cast<std::ptrdiff_t>(outputs.size())) return;
  const BlockNode& own = node(store.value);
  Axes target;
  Status status = cut_axes(store.result.dims, store.map, plan_.block.grid.size(), &target);
  (void)status;  // check() has been there
  TileIndex index;
  line("// store " + own.name);
  open("gqa::each<kThreads, " + std::to_string(tile_elements(own)) + ">([&](int i) {");
  split("i", tile_dims(own), &index);
  const std::string there = inside(own.axes, index);
  line((there.empty() ? "" : "if (" + there + ") ") + "gqa::write<" + type_text(store.result.type) + ">(out" +
       std::to_string(argument) + ", " + offset(target, index, strides_of(graph_.spec(tensor))) + ", " +
       element(store.value, index) + ");");
  close("});");
}

}  // namespace gqa
