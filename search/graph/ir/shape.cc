// shape.cc: see shape.h. One function a rule; infer_shape() picks by operator or class.
#include "search/graph/ir/shape.h"

#include <algorithm>
#include <numeric>

namespace gqa {
namespace {

struct Call {
  Op op;
  const std::vector<Axes>& operands;
  Attributes* attributes;
  Axes* result;
};

std::string operands_text(const Call& call) {
  std::string text(name(call.op));
  for (std::size_t at = 0; at < call.operands.size(); ++at)
    text += (at == 0 ? " of " : " and ") + to_text(tile_dims(call.operands[at]));
  return text;
}

Status shape_error(const Call& call, const std::string& what) {
  return Status(Code::kShape, operands_text(call) + ": " + what);
}

std::string cut_text(const Axis& axis) {
  if (axis.whole()) return "whole";
  std::string text = axis.grid < 0 ? "" : "grid dimension " + std::to_string(axis.grid);
  if (axis.loop) text += text.empty() ? "the loop" : " and the loop";
  return text + " of " + std::to_string(axis.full);
}

Status mismatch(const Call& call, const std::string& which, const Axis& a, const Axis& b) {
  if (a.tile != b.tile || (a.whole() && b.whole())) {
    return shape_error(
        call, which + " are " + std::to_string(a.tile) + " and " + std::to_string(b.tile) + ": expected equal sizes");
  }
  return shape_error(call, which + " are cut differently (" + cut_text(a) + "; " + cut_text(b) +
                               "): expected the same part of the same dimension");
}

Status rank_error(const Call& call, const std::string& expected) {
  return Status(Code::kRank, operands_text(call) + ": expected " + expected);
}

// Dimension `back` from the end, size 1 where the rank is too small.
Axis from_end(const Axes& axes, std::size_t back) {
  return back < axes.size() ? axes[axes.size() - 1 - back] : whole_axis(1);
}

Status broadcast_axis(const Call& call, const Axis& a, const Axis& b, Axis* common) {
  if (a == b || b.full == 1) {
    *common = a;
  } else if (a.full == 1) {
    *common = b;
  } else {
    return mismatch(call, "dimensions that meet", a, b);
  }
  return {};
}

Status broadcast_axes(const Call& call, const Axes& a, const Axes& b, Axes* common) {
  Axes axes(std::max(a.size(), b.size()));
  for (std::size_t back = 0; back < axes.size(); ++back) {
    Status status = broadcast_axis(call, from_end(a, back), from_end(b, back), &axes[axes.size() - 1 - back]);
    if (!status.ok()) return status;
  }
  *common = std::move(axes);
  return {};
}

Status elementwise(const Call& call) {
  *call.result = call.operands[0];
  return call.operands.size() == 1 ? Status() : broadcast_axes(call, call.operands[0], call.operands[1], call.result);
}

Status matmul(const Call& call) {
  const Axes &a = call.operands[0], &b = call.operands[1];
  if (a.size() < 2 || b.size() < 2) return rank_error(call, "operands of rank 2 or more");
  const bool ta = call.attributes->transpose_a, tb = call.attributes->transpose_b;
  const Axis &row = from_end(a, ta ? 0 : 1), &a_inner = from_end(a, ta ? 1 : 0);
  const Axis &b_inner = from_end(b, tb ? 0 : 1), &column = from_end(b, tb ? 1 : 0);
  if (a_inner != b_inner) return mismatch(call, "the inner dimensions", a_inner, b_inner);
  const Axes a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  Status status = broadcast_axes(call, a_batch, b_batch, call.result);
  call.result->push_back(row);
  call.result->push_back(column);
  return status;
}

// Counts dim from the start; *axis is the one it names.
Status find_dim(const Call& call, std::size_t rank, std::size_t* at) {
  std::int64_t& dim = call.attributes->dim;
  const auto size = static_cast<std::int64_t>(rank);
  if (dim < -size || dim >= size) {
    return rank_error(call, "a dimension from " + std::to_string(-size) + " to " + std::to_string(size - 1) + ", not " +
                                std::to_string(dim));
  }
  if (dim < 0) dim += size;
  *at = static_cast<std::size_t>(dim);
  return {};
}

Status needs_whole(const Call& call, const Axis& axis, const std::string& instead) {
  if (axis.whole()) return {};
  return shape_error(call,
                     "the block sees only a part (" + cut_text(axis) + "): expected the whole dimension" + instead);
}

Status reduction(const Call& call) {
  std::size_t at = 0;
  if (Status status = find_dim(call, call.operands[0].size(), &at); !status.ok()) return status;
  *call.result = call.operands[0];
  Axis& axis = (*call.result)[at];
  Status status;
  if (call.op == Op::kMean) status = needs_whole(call, axis, ", or sum, accumulate and scale by count");
  axis = whole_axis(1);
  return status;
}

Status softmax(const Call& call) {
  std::size_t at = 0;
  if (Status status = find_dim(call, call.operands[0].size(), &at); !status.ok()) return status;
  *call.result = call.operands[0];
  return needs_whole(call, call.operands[0][at], "");
}

Status rms_norm(const Call& call) {
  const Axes& x = call.operands[0];
  if (x.empty()) return rank_error(call, "rank 1 or more");
  if (Status status = needs_whole(call, x.back(), ""); !status.ok()) return status;
  if (call.operands.size() == 2) {
    if (Status status = broadcast_axes(call, x, call.operands[1], call.result); !status.ok()) return status;
    if (*call.result != x) return shape_error(call, "the weight is larger: expected one that broadcasts to the first");
  }
  *call.result = x;
  return {};
}

Status mask(const Call& call) {
  if (call.operands[0].size() < 2) return rank_error(call, "rank 2 or more");
  *call.result = call.operands[0];
  return {};
}

Status transpose(const Call& call) {
  const Axes& x = call.operands[0];
  Dims sorted = call.attributes->dims, expected(x.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(expected.begin(), expected.end(), 0);
  if (sorted != expected) {
    return shape_error(call, "dims=" + to_text(call.attributes->dims) + ": expected an order of " + to_text(expected));
  }
  for (const std::int64_t from : call.attributes->dims) call.result->push_back(x[static_cast<std::size_t>(from)]);
  return {};
}

Status broadcast(const Call& call) {
  const Axes target = whole_axes(call.attributes->dims);
  if (Status status = broadcast_axes(call, call.operands[0], target, call.result); !status.ok()) return status;
  if (*call.result == target) return {};
  return shape_error(call, "dims=" + to_text(call.attributes->dims) + ": expected sizes that it stretches to");
}

Status squeeze(const Call& call) {
  std::size_t at = 0;
  if (Status status = find_dim(call, call.operands[0].size(), &at); !status.ok()) return status;
  *call.result = call.operands[0];
  if ((*call.result)[at].full != 1 || call.result->size() == 1)
    return shape_error(call, "dimension " + std::to_string(at) + ": expected size 1, and another beside it");
  call.result->erase(call.result->begin() + static_cast<std::ptrdiff_t>(at));
  return {};
}

Status unsqueeze(const Call& call) {
  std::size_t at = 0;
  if (Status status = find_dim(call, call.operands[0].size() + 1, &at); !status.ok()) return status;
  *call.result = call.operands[0];
  call.result->insert(call.result->begin() + static_cast<std::ptrdiff_t>(at), whole_axis(1));
  return call.result->size() <= kMostDims ? Status() : rank_error(call, "a result of rank 8 or less");
}

Status constant(const Call& call) {
  *call.result = whole_axes(call.attributes->dims);
  return {};
}

// Tiles of different steps add up elementwise: the result is a tile like each of them, whole.
Status accumulate(const Call& call) {
  *call.result = call.operands[0];
  for (Axis& axis : *call.result) {
    if (axis.loop) axis = whole_axis(axis.tile);
  }
  return {};
}

Status carried(const Call& call) {
  for (const Axis& axis : call.operands[0]) {
    if (axis.loop) return needs_whole(call, axis, " or its reduction");
  }
  return elementwise(call);
}

Status accumulate_rescaled(const Call& call) {
  if (Status status = carried(call); !status.ok()) return status;
  if (*call.result == call.operands[0]) return {};
  return shape_error(call, "the maximum is larger: expected one that broadcasts to the sum");
}

Status by_class(const Call& call) {
  switch (info(call.op).kind) {
    case OpClass::kElementwise:
      return elementwise(call);
    case OpClass::kReduction:
      return reduction(call);
    default:
      return Status(Code::kInternal, std::string(name(call.op)) + " has no shape rule");
  }
}

Status by_op(const Call& call) {
  switch (call.op) {
    case Op::kMatmul:
      return matmul(call);
    case Op::kConstant:
      return constant(call);
    case Op::kMask:
      return mask(call);
    case Op::kSoftmax:
      return softmax(call);
    case Op::kRmsNorm:
      return rms_norm(call);
    case Op::kTranspose:
      return transpose(call);
    case Op::kBroadcast:
      return broadcast(call);
    case Op::kSqueeze:
      return squeeze(call);
    case Op::kUnsqueeze:
      return unsqueeze(call);
    case Op::kAccumulate:
    case Op::kAccumulateMax:
      return accumulate(call);
    case Op::kRunningMax:
      return carried(call);
    case Op::kAccumulateRescaled:
      return accumulate_rescaled(call);
    default:
      return by_class(call);
  }
}

}  // namespace

Status infer_shape(Op op, const std::vector<Axes>& operands, Attributes* attributes, Axes* result) {
  const OpInfo& row = info(op);
  if (operands.size() < row.least || operands.size() > row.most) {
    return Status(Code::kOption, std::string(row.name) + " of " + std::to_string(operands.size()) +
                                     " operands: expected " + std::to_string(row.least) +
                                     (row.most > row.least ? " to " + std::to_string(row.most) : ""));
  }
  if (Status status = check(op, *attributes); !status.ok()) return status;
  Axes axes;
  Attributes counted = *attributes;
  Status status = by_op({op, operands, &counted, &axes});
  if (!status.ok()) return status;
  *attributes = std::move(counted);
  *result = std::move(axes);
  return {};
}

}  // namespace gqa
