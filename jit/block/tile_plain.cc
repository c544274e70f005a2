// tile_plain.cc: see tile_plain.h.
#include "jit/block/tile_plain.h"

#include <algorithm>
#include <sstream>

#include "jit/block/tile_text.h"
#include "jit/type_text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostBlocks = 1 << 16;

class PlainWriter {
 public:
  explicit PlainWriter(const KernelGraph& kernel)
      : kernel_(kernel), node_(kernel.nodes()[0]), result_(kernel.spec(node_.outputs[0])) {}

  // By rows: a warp folds the dimension `dim` of its operand.
  bool by_rows() const {
    const OpClass kind = info(node_.op).kind;
    return kind == OpClass::kReduction || kind == OpClass::kRow;
  }

  std::int64_t threads() const { return by_rows() ? 32 * elements(row_dims()) : elements(result_.dims); }

  std::string body() {
    out_ << "  gqa::wait_for_grids_before();\n"
         << "  gqa::let_next_grid_begin();\n";
    if (by_rows()) {
      rows();
    } else {
      each();
    }
    return out_.str();
  }

 private:
  std::size_t folded_dim() const {
    const Dims& x = kernel_.spec(node_.inputs[0]).dims;
    return node_.op == Op::kRmsNorm ? x.size() - 1 : static_cast<std::size_t>(node_.attributes.dim);
  }
  Dims row_dims() const {
    Dims dims = kernel_.spec(node_.inputs[0]).dims;
    dims[folded_dim()] = 1;
    return dims;
  }

  std::string read(std::size_t which, const TileIndex& index) const {
    const int tensor = node_.inputs[which];
    const TensorSpec& spec = kernel_.spec(tensor);
    const auto at = std::find(kernel_.inputs().begin(), kernel_.inputs().end(), tensor) - kernel_.inputs().begin();
    return "gqa::read<" + type_text(spec.type) + ">(in" + std::to_string(at) + ", " +
           join_index(operand_index(index, spec.dims), strides_of(spec), true) + ")";
  }

  std::string write(const TileIndex& index, const std::string& value) const {
    return "gqa::write<" + type_text(result_.type) + ">(out0, " + join_index(index, strides_of(result_), true) + ", " +
           value + ");\n";
  }

  std::string value(const TileIndex& index) const {
    const OpClass kind = info(node_.op).kind;
    if (kind == OpClass::kSource) return number_text(node_.attributes.factor);
    if (kind == OpClass::kView) {
      const Dims& dims = kernel_.spec(node_.inputs[0]).dims;
      return read(0, viewed_index(node_.op, node_.attributes, index, dims));
    }
    if (kind == OpClass::kMask) {
      const std::size_t rank = result_.dims.size();
      return mask_text(node_.attributes, index[rank - 2], index[rank - 1], result_.dims[rank - 2],
                       result_.dims[rank - 1], read(0, index));
    }
    std::vector<std::string> operands;
    for (std::size_t at = 0; at < node_.inputs.size(); ++at) operands.push_back(read(at, index));
    return operation_text(node_.op, node_.attributes, operands);
  }

  // Indices beyond this are computed in 64 bits, which costs several times as much.
  bool wide() const { return threads() > std::int64_t{1} << 30; }
  std::string index_type() const { return wide() ? "long long" : "int"; }

  void each() {
    TileIndex index;
    const std::string split = split_index("i", result_.dims, &index, wide());
    out_ << "  for (" << index_type() << " i = blockIdx.x * " << kPlainThreads << "LL + threadIdx.x; i < "
         << elements(result_.dims) << "LL; i += gridDim.x * " << kPlainThreads << "LL) {\n"
         << "    " << split << "\n"
         << "    " << write(index, value(index)) << "  }\n";
  }

  std::string fold(const char* kind, std::int64_t size, const std::string& term) const {
    return "gqa::fold_by_warp<gqa::" + std::string(kind) + ">(" + std::to_string(size) +
           ", [&]([[maybe_unused]] int j) { return " + term + "; })";
  }

  void rows() {
    const Dims dims = row_dims();
    const std::int64_t size = kernel_.spec(node_.inputs[0]).dims[folded_dim()];
    TileIndex index;
    const std::string split = split_index("i", dims, &index, wide());
    out_ << "  for (" << index_type() << " i = (blockIdx.x * " << kPlainThreads << "LL + threadIdx.x) / 32; i < "
         << elements(dims) << "LL; i += gridDim.x * " << kPlainThreads / 32 << "LL) {\n"
         << "    " << split << "\n";
    TileIndex place = index;
    if (size > 1) place[folded_dim()] = "j";
    if (info(node_.op).kind == OpClass::kReduction) {
      reduction(index, size, read(0, place));
    } else if (node_.op == Op::kSoftmax) {
      softmax(place, size, read(0, place));
    } else {
      rms_norm(place, size, read(0, place));
    }
    out_ << "  }\n";
  }

  void reduction(const TileIndex& index, std::int64_t size, const std::string& x) {
    const std::string by = node_.op == Op::kMean ? " * " + number_text(1 / static_cast<double>(size)) : "";
    out_ << "    const float folded = " << fold(node_.op == Op::kMax ? "Largest" : "Sum", size, x) << by << ";\n"
         << "    if (threadIdx.x % 32 == 0) " << write(index, "folded");
  }

  void each_of_row(const TileIndex& place, std::int64_t size, const std::string& value) {
    out_ << "    for (int j = threadIdx.x % 32; j < " << size << "; j += 32) " << write(place, value);
  }

  void softmax(const TileIndex& place, std::int64_t size, const std::string& x) {
    const std::string weight = "expf(gqa::sub_max(" + x + ", largest))";
    out_ << "    const float largest = " << fold("Largest", size, x) << ";\n"
         << "    const float sum = " << fold("Sum", size, weight) << ";\n";
    each_of_row(place, size, "gqa::normalize(" + weight + ", sum)");
  }

  void rms_norm(const TileIndex& place, std::int64_t size, const std::string& x) {
    out_ << "    const float sum = " << fold("Sum", size, "gqa::square(" + x + ")") << ";\n"
         << "    const float by = rsqrtf(sum * " << number_text(1 / static_cast<double>(size)) << " + "
         << number_text(node_.attributes.epsilon) << ");\n";
    each_of_row(place, size, x + " * by" + (node_.inputs.size() == 2 ? " * " + read(1, place) : ""));
  }

  const KernelGraph& kernel_;
  const KernelNode& node_;
  const TensorSpec& result_;
  std::ostringstream out_;
};

}  // namespace

std::string plain_body(const KernelGraph& kernel) { return PlainWriter(kernel).body(); }

std::int64_t plain_blocks(const KernelGraph& kernel) {
  const std::int64_t threads = PlainWriter(kernel).threads();
  return std::min(kMostBlocks, (threads + kPlainThreads - 1) / kPlainThreads);
}

}  // namespace gqa
