// tile_text.cc: see tile_text.h.
#include "jit/block/tile_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gqa {
namespace {

// $0 and $1 stand for the operands.
struct OperationText {
  Op op;
  const char* text;
};

constexpr OperationText kOperations[] = {
    {Op::kAdd, "($0 + $1)"},
    {Op::kSub, "($0 - $1)"},
    {Op::kMul, "($0 * $1)"},
    {Op::kDiv, "($0 / $1)"},
    {Op::kSubMax, "gqa::sub_max($0, $1)"},
    {Op::kNormalize, "gqa::normalize($0, $1)"},
    {Op::kExp, "expf($0)"},
    {Op::kExp2, "exp2f($0)"},
    {Op::kSqrt, "sqrtf($0)"},
    {Op::kRsqrt, "rsqrtf($0)"},
    {Op::kSquare, "gqa::square($0)"},
    {Op::kReciprocal, "(1.f / $0)"},
    {Op::kRelu, "gqa::relu($0)"},
    {Op::kSilu, "gqa::silu($0)"},
    {Op::kGelu, "gqa::gelu($0)"},
    {Op::kTanh, "tanhf($0)"},
};

std::string fill_in(std::string_view text, const std::vector<std::string>& operands) {
  std::string filled;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '$') {
      filled += operands[static_cast<std::size_t>(text[++at] - '0')];
    } else {
      filled += text[at];
    }
  }
  return filled;
}

}  // namespace

std::string number_text(double value) {
  const auto single = static_cast<float>(value);
  if (std::isnan(single)) return "__int_as_float(0x7fffffff)";
  if (std::isinf(single)) return single > 0 ? "gqa::infinity()" : "gqa::negative_infinity()";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(single));
  std::string number = text;
  if (number.find_first_of(".e") == std::string::npos) number += ".";
  return number[0] == '-' ? "(" + number + "f)" : number + "f";
}

std::string operation_text(Op op, const Attributes& attributes, const std::vector<std::string>& operands) {
  switch (op) {
    case Op::kClamp:
      return "gqa::clamp(" + operands[0] + ", " + number_text(attributes.low) + ", " + number_text(attributes.high) +
             ")";
    case Op::kScale:
      return "(" + operands[0] + " * " + number_text(attributes.factor / static_cast<double>(attributes.count)) + ")";
    case Op::kAddConstant:
      return "(" + operands[0] + " + " + number_text(attributes.factor) + ")";
    default:
      break;
  }
  const auto* found = std::find_if(std::begin(kOperations), std::end(kOperations),
                                   [&](const OperationText& one) { return one.op == op; });
  return found == std::end(kOperations) ? "" : fill_in(found->text, operands);
}

std::string mask_text(const Attributes& attributes, const std::string& row, const std::string& column,
                      std::int64_t rows, std::int64_t columns, const std::string& x) {
  const std::string right = "(" + column + ") - (" + row + ") - " + std::to_string(columns - rows) + "LL";
  std::string seen;
  if (attributes.right != kUnbounded) seen = right + " <= " + std::to_string(attributes.right) + "LL";
  if (attributes.left != kUnbounded)
    seen += (seen.empty() ? "" : " && ") + right + " >= -" + std::to_string(attributes.left) + "LL";
  return seen.empty() ? x : "gqa::where(" + seen + ", " + x + ")";
}

std::string split_index(const std::string& from, const Dims& dims, TileIndex* index, bool wide) {
  index->assign(dims.size(), "0");
  std::string text;
  std::int64_t inner = 1;
  const auto outermost = static_cast<std::size_t>(
      std::find_if(dims.begin(), dims.end(), [](std::int64_t size) { return size != 1; }) - dims.begin());
  for (std::size_t at = dims.size(); at-- > 0;) {
    if (dims[at] == 1) continue;
    std::string part = from;
    if (inner > 1) part += " / " + std::to_string(inner);
    if (at != outermost) part += " % " + std::to_string(dims[at]);
    (*index)[at] = "i" + std::to_string(at);
    text = (*index)[at] + " = " + part + (text.empty() ? "" : ", " + text);
    inner *= dims[at];
  }
  return text.empty() ? "" : std::string("const ") + (wide ? "long long " : "int ") + text + ";";
}

std::string join_index(const TileIndex& index, const Dims& strides, bool wide) {
  std::string text;
  for (std::size_t at = 0; at < index.size(); ++at) {
    if (index[at] == "0" || strides[at] == 0) continue;
    const bool simple = index[at].find(' ') == std::string::npos;
    std::string term = simple ? index[at] : "(" + index[at] + ")";
    if (strides[at] != 1) term += " * " + std::to_string(strides[at]) + (wide ? "LL" : "");
    text += (text.empty() ? "" : " + ") + term;
  }
  return text.empty() ? "0" : text;
}

std::string row_text(const TileIndex& index, const Dims& dims) {
  const TileIndex outer(index.begin(), index.end() - 1);
  return join_index(outer, row_major_strides(Dims(dims.begin(), dims.end() - 1)));
}

std::string place_text(const TileIndex& index, const Dims& dims) { return row_text(index, dims) + ", " + index.back(); }

TileIndex operand_index(const TileIndex& index, const Dims& dims) {
  TileIndex own(dims.size(), "0");
  for (std::size_t back = 1; back <= dims.size(); ++back) {
    if (dims[dims.size() - back] != 1) own[dims.size() - back] = index[index.size() - back];
  }
  return own;
}

TileIndex viewed_index(Op op, const Attributes& attributes, const TileIndex& index, const Dims& operand) {
  TileIndex own(operand.size(), "0");
  const auto dim = static_cast<std::size_t>(attributes.dim);
  switch (op) {
    case Op::kTranspose:
      for (std::size_t at = 0; at < index.size(); ++at) own[static_cast<std::size_t>(attributes.dims[at])] = index[at];
      return own;
    case Op::kSqueeze:
      for (std::size_t at = 0; at < index.size(); ++at) own[at < dim ? at : at + 1] = index[at];
      return own;
    case Op::kUnsqueeze:
      for (std::size_t at = 0; at < own.size(); ++at) own[at] = index[at < dim ? at : at + 1];
      return own;
    default:
      return operand_index(index, operand);
  }
}

}  // namespace gqa
