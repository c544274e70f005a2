// reference.cc: see reference.h. Rows of one head of keys go through its keys together, a block of keys at a time.
#include "runtime/verify/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/half.h"

namespace gqa {
namespace {

constexpr int kKeysABlock = 64;         // of a block: sums over more are made in float64
constexpr std::size_t kRowsAGroup = 8;  // that share a block's conversion to float32
constexpr int kLanes = 16;              // divides every head_dim
constexpr int kMostDim = 256;

using Floats = std::vector<float>;

// One row on its way.
struct ReferenceRow {
  std::size_t index;                          // into the rows asked for
  int keys;                                   // it sees
  Floats query = {}, exact = {}, naive = {};  // of a score or a weight a key
  std::array<double, kMostDim> exact_out = {}, naive_out = {};
};

const std::uint16_t* address(const void* base, const Strides& s, int batch, int row, int head) {
  return static_cast<const std::uint16_t*>(base) + batch * s.batch + row * s.row + head * s.head;
}

float dot(const float* a, const float* b, int size) {
  float lanes[kLanes] = {};
  for (int d = 0; d < size; d += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[d + lane] * b[d + lane];
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Scores to weights; gives the log-sum-exp.
template <typename Round>
double normalise(const Round& round, Floats* scores) {
  const float maximum = *std::max_element(scores->begin(), scores->end());
  double sum = 0;
  for (float& score : *scores) sum += score = std::exp(score - maximum);
  const auto divisor = static_cast<float>(sum);
  for (float& score : *scores) score = round(score / divisor);
  return maximum + std::log(sum);
}

// Rows of one batch and one head of keys.
class RowGroup {
 public:
  RowGroup(const Call& call, int batch, int kv_head, const Workers& workers)
      : call_(call), p_(call.problem), batch_(batch), kv_head_(kv_head), workers_(workers) {}

  std::size_t size() const { return rows_.size(); }
  bool takes(int batch, int kv_head) const { return batch == batch_ && kv_head == kv_head_; }

  void add(std::size_t index, const RowPlace& place) {
    const int seen = p_.causal() ? std::clamp(place.position + p_.kv_len - p_.q_len + 1, 0, p_.kv_len) : p_.kv_len;
    ReferenceRow& row = rows_.emplace_back(ReferenceRow{index, seen});
    const std::uint16_t* q = address(call_.q, call_.q_strides, batch_, place.position, place.head);
    for (int d = 0; d < p_.head_dim; ++d) row.query.push_back(load(p_.dtype, q[d]));
    most_keys_ = std::max(most_keys_, seen);
  }

  void run(ReferenceRows* made, std::vector<float>* naive) {
    for_each_block([&](int first, int count) { score(first, count); });
    for (ReferenceRow& row : rows_) weigh(&row, made);
    for_each_block([&](int first, int count) { sum(first, count); });
    for (const ReferenceRow& row : rows_) {
      const std::size_t at = row.index * static_cast<std::size_t>(p_.head_dim_v);
      for (std::size_t d = 0; d < static_cast<std::size_t>(p_.head_dim_v); ++d) {
        made->out[at + d] = static_cast<float>(row.exact_out[d]);
        (*naive)[at + d] = rounded(static_cast<float>(row.naive_out[d]));
      }
    }
  }

 private:
  float rounded(float value) const { return load(p_.dtype, store(p_.dtype, value)); }

  template <typename Visit>
  void for_each_block(const Visit& visit) {
    for (int first = 0; first < most_keys_ && !workers_.stopped(); first += kKeysABlock)
      visit(first, std::min(kKeysABlock, most_keys_ - first));
  }

  // Where keys lie transposed, a key's elements are a row apart and keys side by side.
  void read_keys(int first, int count) {
    const Strides& s = call_.k_strides;
    const std::int64_t key_step = p_.keys_transposed() ? 1 : s.row, step = p_.keys_transposed() ? s.row : 1;
    const std::uint16_t* from = address(call_.k, s, batch_, 0, kv_head_) + first * key_step;
    block_.resize(static_cast<std::size_t>(kKeysABlock * p_.head_dim));
    float* to = block_.data();
    for (int j = 0; j < count; ++j) {
      for (int d = 0; d < p_.head_dim; ++d) *to++ = load(p_.dtype, from[j * key_step + d * step]);
    }
  }

  void score(int first, int count) {
    read_keys(first, count);
    for (ReferenceRow& row : rows_) {
      for (int j = 0; j < count && first + j < row.keys; ++j) {
        const float scaled = dot(row.query.data(), &block_[static_cast<std::size_t>(j * p_.head_dim)], p_.head_dim);
        row.exact.push_back(scaled * call_.scale);
        row.naive.push_back(rounded(row.exact.back()));
      }
    }
  }

  void weigh(ReferenceRow* row, ReferenceRows* made) const {
    float& lse = made->lse[row->index];
    lse = -std::numeric_limits<float>::infinity();
    if (row->exact.empty()) return;
    lse = static_cast<float>(normalise([](float weight) { return weight; }, &row->exact));
    normalise([this](float weight) { return rounded(weight); }, &row->naive);
  }

  void sum(int first, int count) {
    block_.resize(static_cast<std::size_t>(kKeysABlock * p_.head_dim_v));
    float* to = block_.data();
    for (int j = 0; j < count; ++j) {
      const std::uint16_t* v = address(call_.v, call_.v_strides, batch_, first + j, kv_head_);
      for (int d = 0; d < p_.head_dim_v; ++d) *to++ = load(p_.dtype, v[d]);
    }
    for (ReferenceRow& row : rows_) {
      const int seen = std::min(count, row.keys - first);
      if (seen <= 0 || row.exact.empty()) continue;
      add_weighted(&row.exact[static_cast<std::size_t>(first)], seen, &row.exact_out);
      add_weighted(&row.naive[static_cast<std::size_t>(first)], seen, &row.naive_out);
    }
  }

  void add_weighted(const float* weights, int count, std::array<double, kMostDim>* to) const {
    std::array<float, kMostDim> sums = {};
    for (int j = 0; j < count; ++j) {
      const float* v = &block_[static_cast<std::size_t>(j * p_.head_dim_v)];
      for (std::size_t d = 0; d < static_cast<std::size_t>(p_.head_dim_v); ++d) sums[d] += weights[j] * v[d];
    }
    for (std::size_t d = 0; d < sums.size(); ++d) (*to)[d] += static_cast<double>(sums[d]);
  }

  const Call& call_;
  const Problem& p_;
  const int batch_, kv_head_;
  const Workers& workers_;
  int most_keys_ = 0;
  std::vector<ReferenceRow> rows_;
  Floats block_;  // keys or values in float32
};

}  // namespace

std::int64_t reference_work(const Problem& problem) {
  return std::int64_t{problem.kv_len} * (problem.head_dim + 2 * problem.head_dim_v);
}

ReferenceRows reference_rows(const Call& call, const std::vector<RowPlace>& rows, const Workers& workers) {
  ReferenceRows made;
  const auto dim = static_cast<std::size_t>(call.problem.head_dim_v);
  made.out.resize(rows.size() * dim);
  made.lse.resize(rows.size());
  std::vector<float> naive(made.out.size());
  std::vector<RowGroup> groups;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const int kv_head = rows[at].head / call.problem.group();
    if (groups.empty() || !groups.back().takes(rows[at].batch, kv_head) || groups.back().size() == kRowsAGroup)
      groups.emplace_back(call, rows[at].batch, kv_head, workers);
    groups.back().add(at, rows[at]);
  }
  workers.each(static_cast<std::int64_t>(groups.size()),
               [&](std::int64_t at) { groups[static_cast<std::size_t>(at)].run(&made, &naive); });
  for (std::size_t at = 0; at < naive.size(); ++at) {
    made.naive_error =
        std::max(made.naive_error, std::abs(static_cast<double>(naive[at]) - static_cast<double>(made.out[at])));
    made.largest = std::max(made.largest, std::abs(static_cast<double>(made.out[at])));
  }
  return made;
}

}  // namespace gqa
