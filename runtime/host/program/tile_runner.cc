// tile_runner.cc: see tile_runner.h. One function a kind of step.
#include "runtime/host/program/tile_runner.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "runtime/host/program/strided_loop.h"

namespace gqa {
namespace {

constexpr std::int64_t kPiece = 256;  // elements converted at once where rows are not contiguous

class BlockRun {
 public:
  BlockRun(const TileProgram& program, const HostOps& ops, const TileTensors& tensors, TileWorker* worker)
      : program_(program), ops_(ops), tensors_(tensors), worker_(*worker) {}

  void run() {
    run_phase(Phase::kBefore);
    for (step_ = 0; step_ < program_.steps; ++step_) run_phase(Phase::kLoop);
    step_ = 0;
    run_phase(Phase::kAfter);
  }

 private:
  using Run = void (BlockRun::*)(const TileStep&);

  void run_phase(Phase phase) {
    static constexpr Run kRuns[] = {&BlockRun::load,      &BlockRun::fill, &BlockRun::unary,    &BlockRun::binary,
                                    &BlockRun::add_into,  &BlockRun::fold, &BlockRun::multiply, &BlockRun::mask,
                                    &BlockRun::transpose, &BlockRun::store};
    for (const TileStep& step : program_.phases[static_cast<std::size_t>(phase)]) {
      if (step.to >= 0) size(step.to);
      (this->*kRuns[static_cast<std::size_t>(step.kind)])(step);
    }
  }

  const ArenaValue& value(int at) const { return program_.values[static_cast<std::size_t>(at)]; }
  float* data(int at) const { return worker_.arena() + value(at).offset; }
  const TileShape& shape(int at) const { return worker_.shapes()[static_cast<std::size_t>(at)]; }
  Extent extent(const Axis& axis) const { return axis.at(worker_.position(), step_); }

  void size(int at) {
    TileShape& shape = worker_.shapes()[static_cast<std::size_t>(at)];
    shape.rank = value(at).axes.size();
    for (std::size_t dim = 0; dim < shape.rank; ++dim) shape.sizes[dim] = extent(value(at).axes[dim]).size;
  }

  static std::array<std::int64_t, kMostDims> compact(const TileShape& shape) {
    std::array<std::int64_t, kMostDims> strides = {};
    std::int64_t product = 1;
    for (std::size_t at = shape.rank; at-- > 0; product *= shape.sizes[at]) strides[at] = product;
    return strides;
  }

  // A tile's strides along a result of rank `rank`: right-aligned, 0 where it stretches.
  static std::array<std::int64_t, kMostDims> along(const TileShape& shape, std::size_t rank) {
    const auto own = compact(shape);
    std::array<std::int64_t, kMostDims> strides = {};
    for (std::size_t back = 1; back <= shape.rank && back <= rank; ++back) {
      if (shape.sizes[shape.rank - back] != 1) strides[rank - back] = own[shape.rank - back];
    }
    return strides;
  }

  // ---- tensors

  // The tile beside the tensor: (of the tile, of the tensor).
  StridedLoop<2> beside(const TileShape& tile, const Dims& strides) const {
    StridedLoop<2> loop;
    const auto own = compact(tile);
    for (std::size_t at = 0; at < tile.rank; ++at) loop.push(tile.sizes[at], {own[at], strides[at]});
    return loop;
  }

  std::int64_t origin(const Axes& axes, const Dims& strides) const {
    std::int64_t offset = 0;
    for (std::size_t at = 0; at < axes.size(); ++at) offset += extent(axes[at]).begin * strides[at];
    return offset;
  }

  void load(const TileStep& step) {
    const std::int64_t bytes = element_bytes(step.type);
    const std::byte* from = tensors_.operands[step.tensor] + origin(value(step.to).axes, step.strides) * bytes;
    float* to = data(step.to);
    StridedLoop<2> loop = beside(shape(step.to), step.strides);
    loop.make_row_of(1);
    const std::int64_t to_step = loop.steps()[0], from_step = loop.steps()[1];
    const std::int64_t count = loop.row();
    loop.for_rows(
        [&](const auto& at) { load_row(step.type, from + at[1] * bytes, from_step, to + at[0], to_step, count); });
  }

  void load_row(ElementType type, const std::byte* from, std::int64_t from_step, float* to, std::int64_t to_step,
                std::int64_t count) const {
    const std::int64_t bytes = element_bytes(type);
    if (count == 1 || (from_step == 1 && to_step == 1)) return ops_.widen(type, from, to, count);
    if (from_step != 1) {
      for (std::int64_t j = 0; j < count; ++j) ops_.widen(type, from + j * from_step * bytes, to + j * to_step, 1);
      return;
    }
    float piece[kPiece];
    for (std::int64_t begin = 0; begin < count; begin += kPiece) {
      const std::int64_t size = std::min(count - begin, kPiece);
      ops_.widen(type, from + begin * bytes, piece, size);
      for (std::int64_t j = 0; j < size; ++j) to[(begin + j) * to_step] = piece[j];
    }
  }

  void store(const TileStep& step) {
    const std::int64_t bytes = element_bytes(step.type);
    std::byte* to = tensors_.results[step.tensor] + origin(step.target, step.strides) * bytes;
    const float* from = data(step.a);
    StridedLoop<2> loop = beside(shape(step.a), step.strides);
    loop.make_row_of(1);
    const std::int64_t from_step = loop.steps()[0], to_step = loop.steps()[1];
    const std::int64_t count = loop.row();
    loop.for_rows(
        [&](const auto& at) { store_row(step.type, from + at[0], from_step, to + at[1] * bytes, to_step, count); });
  }

  void store_row(ElementType type, const float* from, std::int64_t from_step, std::byte* to, std::int64_t to_step,
                 std::int64_t count) const {
    const std::int64_t bytes = element_bytes(type);
    if (count == 1 || (from_step == 1 && to_step == 1)) return ops_.narrow(type, from, to, count);
    if (to_step != 1) {
      for (std::int64_t j = 0; j < count; ++j) ops_.narrow(type, from + j * from_step, to + j * to_step * bytes, 1);
      return;
    }
    float piece[kPiece];
    for (std::int64_t begin = 0; begin < count; begin += kPiece) {
      const std::int64_t size = std::min(count - begin, kPiece);
      for (std::int64_t j = 0; j < size; ++j) piece[j] = from[(begin + j) * from_step];
      ops_.narrow(type, piece, to + begin * bytes, size);
    }
  }

  // ---- tiles

  void fill(const TileStep& step) { std::fill_n(data(step.to), shape(step.to).elements(), step.value); }

  void unary(const TileStep& step) { ops_.unary(step.unary, data(step.a), data(step.to), shape(step.to).elements()); }

  void binary(const TileStep& step) {
    const TileShape& result = shape(step.to);
    const auto own = compact(result), a = along(shape(step.a), result.rank), b = along(shape(step.b), result.rank);
    StridedLoop<3> loop;
    for (std::size_t at = 0; at < result.rank; ++at) loop.push(result.sizes[at], {own[at], a[at], b[at]});
    combine_rows(step.op, loop, data(step.a), data(step.b), data(step.to));
  }

  // The tile may be smaller than what it is added into: a short last step.
  void add_into(const TileStep& step) {
    const auto sums = compact(shape(step.to));
    StridedLoop<3> loop;
    const auto terms = compact(shape(step.a));
    for (std::size_t at = 0; at < shape(step.a).rank; ++at)
      loop.push(shape(step.a).sizes[at], {sums[at], sums[at], terms[at]});
    combine_rows(step.op, loop, data(step.to), data(step.a), data(step.to));
  }

  void combine_rows(Op op, const StridedLoop<3>& loop, const float* a, const float* b, float* to) const {
    const auto steps = loop.steps();
    const std::int64_t count = loop.row();
    loop.for_rows([&](const auto& at) {
      if (steps[0] == 1 || count == 1)
        return ops_.binary(op, a + at[1], steps[1], b + at[2], steps[2], to + at[0], count);
      for (std::int64_t j = 0; j < count; ++j)
        ops_.binary(op, a + at[1] + j * steps[1], 1, b + at[2] + j * steps[2], 1, to + at[0] + j * steps[0], 1);
    });
  }

  void fold(const TileStep& step) {
    const TileShape& x = shape(step.a);
    const auto dim = static_cast<std::size_t>(step.attributes.dim);
    std::int64_t outer = 1, inner = 1;
    for (std::size_t at = 0; at < dim; ++at) outer *= x.sizes[at];
    for (std::size_t at = dim + 1; at < x.rank; ++at) inner *= x.sizes[at];
    const std::int64_t size = x.sizes[dim];
    const float* from = data(step.a);
    float* to = data(step.to);
    for (std::int64_t i = 0; i < outer; ++i) {
      if (inner == 1)
        to[i] = ops_.fold(step.op, from + i * size, size);
      else
        fold_rows(step.op, from + i * size * inner, size, inner, to + i * inner);
    }
  }

  void fold_rows(Op op, const float* from, std::int64_t size, std::int64_t inner, float* to) const {
    const Op pairwise = op == Op::kMax ? Op::kMax : Op::kAdd;
    std::fill_n(to, inner, op == Op::kMax ? -static_cast<float>(kInfinity) : 0.F);
    for (std::int64_t k = 0; k < size; ++k) ops_.binary(pairwise, to, 1, from + k * inner, 1, to, inner);
  }

  void multiply(const TileStep& step) {
    const TileShape &a = shape(step.a), &b = shape(step.b), &c = shape(step.to);
    const bool swap = step.attributes.transpose_a;
    Product product;
    product.rows = c.sizes[c.rank - 2];
    product.columns = c.sizes[c.rank - 1];
    product.inner = a.sizes[a.rank - (swap ? 2 : 1)];
    product.transpose_a = swap;
    product.transpose_b = step.attributes.transpose_b;
    product.add = step.add;
    const auto own = compact(c), to_a = along(a, c.rank), to_b = along(b, c.rank);
    StridedLoop<3> batches;
    for (std::size_t at = 0; at + 2 < c.rank; ++at) batches.push(c.sizes[at], {own[at], to_a[at], to_b[at]});
    // Batches of a that meet the same b are more rows of one product.
    const auto steps = batches.steps();
    if (batches.rank() > 0 && !swap && steps[2] == 0 && steps[1] == product.rows * product.inner) {
      product.rows *= batches.row();
      batches.drop_row();
    }
    multiply_batches(batches, step, &product);
  }

  void multiply_batches(const StridedLoop<3>& batches, const TileStep& step, Product* product) const {
    const auto steps = batches.steps();
    const std::int64_t count = batches.row();
    batches.for_rows([&](const auto& at) {
      for (std::int64_t j = 0; j < count; ++j) {
        product->c = data(step.to) + at[0] + j * steps[0];
        product->a = data(step.a) + at[1] + j * steps[1];
        product->b = data(step.b) + at[2] + j * steps[2];
        ops_.multiply(*product);
      }
    });
  }

  void mask(const TileStep& step) {
    const TileShape& x = shape(step.to);
    const Axes& axes = value(step.to).axes;
    const Axis &row_axis = axes[axes.size() - 2], &column_axis = axes.back();
    const std::int64_t rows = x.sizes[x.rank - 2], columns = x.sizes[x.rank - 1], count = x.elements();
    const std::int64_t left = step.attributes.left, right = step.attributes.right;
    float* to = data(step.to);
    ops_.unary(UnaryStep{Op::kSqueeze}, data(step.a), to, count);
    if (columns == 0) return;
    for (std::int64_t line = 0; line < count / columns; ++line, to += columns) {
      // The column of this tile that lies on the diagonal of the whole.
      const std::int64_t diagonal =
          extent(row_axis).begin + line % rows + column_axis.full - row_axis.full - extent(column_axis).begin;
      const std::int64_t first = left == kUnbounded ? 0 : std::clamp<std::int64_t>(diagonal - left, 0, columns);
      const std::int64_t end =
          right == kUnbounded ? columns : std::clamp<std::int64_t>(diagonal + right + 1, 0, columns);
      std::fill(to, to + first, -static_cast<float>(kInfinity));
      std::fill(to + std::max(first, end), to + columns, -static_cast<float>(kInfinity));
    }
  }

  void transpose(const TileStep& step) {
    const TileShape& result = shape(step.to);
    const auto own = compact(result), from = compact(shape(step.a));
    StridedLoop<2> loop;
    for (std::size_t at = 0; at < result.rank; ++at)
      loop.push(result.sizes[at], {own[at], from[static_cast<std::size_t>(step.attributes.dims[at])]});
    const auto steps = loop.steps();
    loop.for_rows([&](const auto& at) {
      for (std::int64_t j = 0; j < loop.row(); ++j)
        data(step.to)[at[0] + j * steps[0]] = data(step.a)[at[1] + j * steps[1]];
    });
  }

  const TileProgram& program_;
  const HostOps& ops_;
  const TileTensors& tensors_;
  TileWorker& worker_;
  std::int64_t step_ = 0;
};

}  // namespace

std::int64_t TileShape::elements() const {
  std::int64_t product = 1;
  for (std::size_t at = 0; at < rank; ++at) product *= sizes[at];
  return product;
}

TileWorker* TileWorker::ready(const TileProgram& program) {
  static thread_local TileWorker worker;
  try {
    worker.grow(program);
    return &worker;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void TileWorker::grow(const TileProgram& program) {
  constexpr std::size_t kLine = 64;
  const std::size_t floats = static_cast<std::size_t>(program.arena) + kLine / sizeof(float);
  if (floats_.size() < floats) floats_.resize(floats);
  if (shapes_.size() < program.values.size()) shapes_.resize(program.values.size());
  position_.resize(program.grid.size());
  arena_ = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(floats_.data()) + kLine - 1) / kLine * kLine);
}

void run_block(const TileProgram& program, const HostOps& ops, const TileTensors& tensors, std::int64_t block,
               TileWorker* worker) {
  for (std::size_t at = program.grid.size(); at-- > 0; block /= program.grid[at])
    worker->position()[at] = block % program.grid[at];
  BlockRun(program, ops, tensors, worker).run();
}

}  // namespace gqa
