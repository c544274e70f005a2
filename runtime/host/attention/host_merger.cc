// host_merger.cc: see host_merger.h.
#include "runtime/host/attention/host_merger.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/call/merge_states.h"
#include "runtime/element.h"
#include "runtime/parallel.h"

namespace gqa {
namespace {

constexpr float kEmpty = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kTaskElements = 1 << 14;  // of all parts together: enough to be worth a thread's while
constexpr int kPiece = 64;                       // elements of a row whose sums are kept at a time

struct Half {
  using Bits = std::uint16_t;
  static float load(Bits bits) { return half_to_float(bits); }
  static Bits store(float value) { return float_to_half(value); }
};
struct Bfloat {
  using Bits = std::uint16_t;
  static float load(Bits bits) { return bfloat16_to_float(bits); }
  static Bits store(float value) { return float_to_bfloat16(value); }
};
struct Float {
  using Bits = float;
  static float load(float value) { return value; }
  static float store(float value) { return value; }
};

// One of MergeCall::rows(), heads innermost.
struct Row {
  std::int64_t batch, position, head;
  Row(const MergeCall& call, std::int64_t row)
      : batch(row / call.heads / call.q_len), position(row / call.heads % call.q_len), head(row % call.heads) {}
  std::int64_t offset(const Strides& s) const { return batch * s.batch + position * s.row + head * s.head; }
  float& lse_at(const AttentionState& state) const { return state.lse[offset(state.lse_strides)]; }
  // An empty part has kEmpty; others mark one with +inf.
  float lse(const AttentionState& state) const {
    const float lse = lse_at(state);
    return lse == -kEmpty ? kEmpty : lse;
  }
};

template <typename Element>
void merge_row(const MergeCall& call, const Row& row) {
  using Bits = typename Element::Bits;
  float maximum = kEmpty, sum = 0;
  const auto weight = [&](const AttentionState& part) {
    const float lse = row.lse(part);
    return lse == kEmpty ? 0.0F : std::exp(lse - maximum);
  };
  for (int i = 0; i < call.count; ++i) maximum = std::fmax(maximum, row.lse(call.parts[i]));
  for (int i = 0; i < call.count; ++i) sum += weight(call.parts[i]);
  const float share = 1 / sum;  // of no part, where that is 0
  Bits* merged = static_cast<Bits*>(call.merged.out) + row.offset(call.merged.out_strides);
  for (int first = 0; first < call.head_dim; first += kPiece) {
    const int count = std::min(kPiece, call.head_dim - first);
    float sums[kPiece] = {};
    for (int i = 0; i < call.count; ++i) {
      const AttentionState& part = call.parts[i];
      if (row.lse(part) == kEmpty) continue;
      const float of_part = weight(part) * share;  // their sum is 1, so that no sum is larger than its parts
      const Bits* out = static_cast<const Bits*>(part.out) + row.offset(part.out_strides) + first;
      for (int d = 0; d < count; ++d) sums[d] += of_part * Element::load(out[d]);
    }
    for (int d = 0; d < count; ++d) merged[first + d] = Element::store(sums[d]);
  }
  row.lse_at(call.merged) = sum == 0 ? kEmpty : maximum + std::log(sum);
}

template <typename Element>
void merge_rows(const MergeCall& call, int threads) {
  const std::int64_t rows = call.rows();
  const std::int64_t of_task = std::max<std::int64_t>(1, kTaskElements / call.count / call.head_dim);
  parallel_for((rows + of_task - 1) / of_task, threads, [&](std::int64_t task) {
    const std::int64_t end = std::min(rows, (task + 1) * of_task);
    for (std::int64_t row = task * of_task; row < end; ++row) merge_row<Element>(call, Row(call, row));
  });
}

}  // namespace

Status HostMerger::run(const ProgramCall& given) const {
  const MergeCall& call = *given.merge;
  switch (call.type) {
    case ElementType::kF16:
      merge_rows<Half>(call, threads_);
      break;
    case ElementType::kBF16:
      merge_rows<Bfloat>(call, threads_);
      break;
    case ElementType::kF32:
      merge_rows<Float>(call, threads_);
      break;
  }
  return {};
}

}  // namespace gqa
