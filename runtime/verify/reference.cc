// reference.cc: see reference.h. Rows of one head of keys go through its keys together, a block of keys at a time.
// Arithmetic is more exact than the type that it judges: float32 for 16 bits, float64 for float32.
#include "runtime/verify/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "runtime/element.h"
#include "search/graph/ir/op.h"

namespace gqa {
namespace {

constexpr int kKeysABlock = 64;         // of a block: sums over more are made in float64
constexpr std::size_t kRowsAGroup = 8;  // that share a block's conversion to float32
constexpr int kLanes = 16;              // divides every head_dim
constexpr int kMostDim = 256;

using Floats = std::vector<float>;

// One row on its way.
template <typename Real>
struct ReferenceRow {
  std::size_t index;  // into the rows asked for
  RowPlace place;
  int first, last;  // keys that it sees: [first, last)
  float sink = -std::numeric_limits<float>::infinity();
  Floats query = {};
  std::vector<Real> exact = {};  // of a product or what a chain makes of a score, then a weight a key
  Floats naive = {};             // likewise, of float32 one operator after the other; of 16 bits it is exact's, rounded
  double farthest = 0;           // from zero, scaled: the largest score or the sink
  double sum = 0;                // of weights, the largest of which, or the sink's, is 1
  std::array<double, kMostDim> exact_out = {}, stand_in_out = {};
  std::array<float, kMostDim> naive_out = {};
};

const std::byte* address(const Call& call, Role role, int batch, std::int64_t row, int head) {
  const Strides& s = call.strides(role);
  return call.at<std::byte>(role) +
         (batch * s.batch + row * s.row + head * s.head) * element_bytes(call.problem.q_type);
}

template <typename Real>
Real dot(const float* a, const float* b, int size) {
  Real lanes[kLanes] = {};
  for (int d = 0; d < size; d += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<Real>(a[d + lane]) * static_cast<Real>(b[d + lane]);
  }
  Real sum = 0;
  for (const Real lane : lanes) sum += lane;
  return sum;
}

// One term after the other, as the naive computation has it.
float naive_dot(const float* a, const float* b, int size) {
  float sum = 0;
  for (int d = 0; d < size; ++d) sum += a[d] * b[d];
  return sum;
}

// One step of a chain, and all of it.
double stepped(const ChainStep& step, double x, double number, double high) {
  switch (step.op) {
    case Op::kAdd:
      return x + number;
    case Op::kSub:
      return x - number;
    case Op::kMul:
      return x * number;
    case Op::kDiv:
      return x / number;
    case Op::kExp:
      return std::exp(x);
    case Op::kExp2:
      return std::exp2(x);
    case Op::kSqrt:
      return std::sqrt(x);
    case Op::kRsqrt:
      return 1 / std::sqrt(x);
    case Op::kSquare:
      return x * x;
    case Op::kReciprocal:
      return 1 / x;
    case Op::kRelu:
      return std::max(x, 0.0);
    case Op::kSilu:
      return x / (1 + std::exp(-x));
    case Op::kGelu:
      return x / 2 * std::erfc(-x * std::numbers::sqrt2 / 2);
    case Op::kTanh:
      return std::tanh(x);
    case Op::kClamp:
      return x < number ? number : std::min(x, high);
    default:
      return std::numeric_limits<double>::quiet_NaN();  // check_chain() lets no other pass
  }
}

double operand(const Call& call, const ChainStep& step, const RowPlace& row, int key) {
  const auto at = [&](Role role) {
    const Strides& s = call.strides(role);
    return row.batch * s.batch + row.position * s.row + row.head * s.head;
  };
  switch (step.operand) {
    case ChainOperand::kNone:
      return 0;
    case ChainOperand::kSlot:
      return call.slots[step.slot];
    case ChainOperand::kHead:
      return call.at<float>(Role::kScoreScale)[row.head];
    case ChainOperand::kRow:
      return call.at<float>(Role::kScoreScale)[at(Role::kScoreScale)];
    case ChainOperand::kTensor:
      return load_element(call.problem.q_type, call.at<std::byte>(Role::kBias) +
                                                   (at(Role::kBias) + key) * element_bytes(call.problem.q_type));
    case ChainOperand::kTensor32:
      return call.at<float>(Role::kBias)[at(Role::kBias) + key];
  }
  return 0;
}

double through_chain(const Call& call, const RowPlace& row, int key, double score) {
  double x = score;
  for (const ChainStep& step : call.problem.chain) {
    const double high = step.op == Op::kClamp ? double{call.slots[step.slot + 1U]} : 0;
    x = stepped(step, x, operand(call, step, row, key), high);
  }
  return x;
}

// Rows of one batch and one head of keys. Real: what the reference is made in; long sums are float64.
template <typename Real>
class RowGroup {
  static constexpr bool kOwnNaive = sizeof(Real) > sizeof(float);
  using Row = ReferenceRow<Real>;

 public:
  RowGroup(const Call& call, int batch, int kv_head, const Workers& workers)
      : call_(call), p_(call.problem), batch_(batch), kv_head_(kv_head), workers_(workers) {}

  std::size_t size() const { return rows_.size(); }
  bool takes(int batch, int kv_head) const { return batch == batch_ && kv_head == kv_head_; }

  void add(std::size_t index, const RowPlace& place) {
    Row& row = rows_.emplace_back(Row{index, place, 0, 0});
    set_keys(place.position, &row);
    if (const auto* sinks = call_.at<float>(Role::kSink)) row.sink = sinks[place.head];
    const std::int32_t* starts = call_.list(Role::kQStarts);
    const std::int64_t first = starts == nullptr ? 0 : starts[batch_];
    const std::byte* q = address(call_, Role::kQ, batch_, first + place.position, place.head);
    for (int d = 0; d < p_.head_dim; ++d) row.query.push_back(element(q, d));
    first_key_ = std::min(first_key_, row.first);
    last_key_ = std::max(last_key_, row.last);
  }

  void run(ReferenceRows* made) {
    for_each_block([&](int first, int count) { score(first, count); });
    for (Row& row : rows_) weigh(&row, made);
    for_each_block([&](int first, int count) { sum(first, count); });
    for (const Row& row : rows_) finish(row, made);
  }

 private:
  float element(const std::byte* from, std::int64_t at) const {
    return load_element(p_.q_type, from + at * element_bytes(p_.q_type));
  }
  float rounded(float value) const {
    std::byte bits[sizeof value];
    store_element(p_.kv_type, value, bits);
    return load_element(p_.kv_type, bits);
  }

  template <typename Visit>
  void for_each_block(const Visit& visit) {
    for (int first = first_key_; first < last_key_ && !workers_.stopped(); first += kKeysABlock)
      visit(first, std::min(kKeysABlock, last_key_ - first));
  }

  std::int64_t length_of(Role of_starts, Role of_lengths, int most) const {
    const std::int32_t *starts = call_.list(of_starts), *lengths = call_.list(of_lengths);
    std::int64_t length = most;
    if (starts != nullptr) length = std::min(length, std::int64_t{starts[batch_ + 1]} - starts[batch_]);
    if (lengths != nullptr) length = std::min<std::int64_t>(length, lengths[batch_]);
    return std::max<std::int64_t>(0, length);
  }

  // The last query stands beside the sequence's last key; `own` is the key that a row's query stands beside.
  void set_keys(int position, Row* row) const {
    const std::int64_t length = length_of(Role::kKStarts, Role::kKvLengths, p_.kv_len);
    const std::int64_t queries = length_of(Role::kQStarts, Role::kQLengths, p_.q_len);
    if (position >= queries) return;
    const std::int64_t own = position - queries + length;
    std::int64_t first = 0, last = length;
    if (p_.mask == Mask::kCausal) last = own + 1;
    if (p_.mask == Mask::kWindow && p_.window_left != -1) first = own - p_.window_left;
    if (p_.mask == Mask::kWindow && p_.window_right != -1) last = own + p_.window_right + 1;
    first = std::max<std::int64_t>(first, 0);
    last = std::min<std::int64_t>(last, length);
    if (last <= first) return;
    row->first = static_cast<int>(first);
    row->last = static_cast<int>(last);
  }

  // The page and the slot of it, or the sequence and the key.
  const std::byte* key_address(Role role, int key) const {
    const std::int32_t *starts = call_.list(Role::kKStarts), *table = call_.list(Role::kPageTable);
    if (starts != nullptr) return address(call_, role, batch_, std::int64_t{starts[batch_]} + key, kv_head_);
    if (table == nullptr) return address(call_, role, batch_, key, kv_head_);
    const int page = table[batch_ * call_.strides(Role::kPageTable).batch + key / p_.page];
    return address(call_, role, page, key % p_.page, kv_head_);
  }

  // Where keys lie transposed, a key's elements are a row apart and keys side by side.
  void read_keys(int first, int count) {
    const std::int64_t step = p_.keys_transposed() ? call_.strides(Role::kK).row : 1;
    block_.resize(static_cast<std::size_t>(kKeysABlock * p_.head_dim));
    float* to = block_.data();
    for (int j = 0; j < count; ++j) {
      const int key = first + j;
      const std::byte* from = p_.keys_transposed()
                                  ? address(call_, Role::kK, batch_, 0, kv_head_) + key * element_bytes(p_.kv_type)
                                  : key_address(Role::kK, key);
      for (int d = 0; d < p_.head_dim; ++d) *to++ = element(from, d * step);
    }
  }

  void score(int first, int count) {
    read_keys(first, count);
    for (Row& row : rows_) {
      for (int j = std::max(0, row.first - first); j < std::min(count, row.last - first); ++j) {
        const float* key = &block_[static_cast<std::size_t>(j * p_.head_dim)];
        row.exact.push_back(scored(row, first + j, dot<Real>(row.query.data(), key, p_.head_dim)));
        if constexpr (kOwnNaive)
          row.naive.push_back(scored(row, first + j, naive_dot(row.query.data(), key, p_.head_dim)));
      }
    }
  }

  template <typename Score>
  Score scored(const Row& row, int key, Score product) const {
    if (!p_.chain.any()) return product;
    return static_cast<Score>(through_chain(call_, row.place, key, double{product * call_.scale}));
  }

  // Exponents are of differences of products before scaling: exact however far the products are from zero.
  void weigh(Row* row, ReferenceRows* made) const {
    float& lse = made->lse[row->index];
    lse = row->sink;
    if (row->exact.empty()) return;
    const double scale = p_.chain.any() ? 1 : call_.scale, sink = double{row->sink} / scale;
    const double maximum = std::max(sink, double{*std::max_element(row->exact.begin(), row->exact.end())});
    // An operand hides all keys, or the sink outweighs any: the row is zero.
    if (std::isinf(maximum) && (maximum < 0 || sink == maximum)) return row->exact.clear();
    const double largest = double{*std::max_element(row->exact.begin(), row->exact.end())} * scale;
    row->farthest = std::max(std::fabs(largest), std::isinf(row->sink) ? 0 : std::fabs(double{row->sink}));
    row->sum = std::exp((sink - maximum) * scale);
    for (Real& weight : row->exact)
      row->sum += weight = std::exp(static_cast<Real>((double{weight} - maximum) * scale));
    lse = static_cast<float>(maximum * scale + std::log(row->sum));
    if constexpr (kOwnNaive) weigh_naive(row);
  }

  // Scaled, less the maximum, exponentials, their sum, divided by it: each rounded to float32.
  void weigh_naive(Row* row) const {
    const float scale = p_.chain.any() ? 1 : call_.scale;
    for (float& score : row->naive) score *= scale;
    const float maximum = std::max(row->sink, *std::max_element(row->naive.begin(), row->naive.end()));
    float sum = std::exp(row->sink - maximum);
    for (float& weight : row->naive) sum += weight = std::exp(weight - maximum);
    for (float& weight : row->naive) weight /= sum;
  }

  void sum(int first, int count) {
    block_.resize(static_cast<std::size_t>(kKeysABlock * p_.head_dim_v));
    float* to = block_.data();
    for (int j = 0; j < count; ++j) {
      const std::byte* v = key_address(Role::kV, first + j);
      for (int d = 0; d < p_.head_dim_v; ++d) *to++ = element(v, d);
    }
    for (Row& row : rows_) {
      const int begin = std::max(first, row.first), end = std::min(first + count, row.last);
      if (end <= begin || row.exact.empty()) continue;
      const auto weight = static_cast<std::size_t>(begin - row.first);
      add_weighted(&row.exact[weight], begin - first, end - begin, &row.exact_out);
      if constexpr (kOwnNaive) {
        add_naive(&row.naive[weight], begin - first, end - begin, &row.naive_out);
        continue;
      }
      rounded_.clear();
      for (int j = 0; j < end - begin; ++j)
        rounded_.push_back(rounded(static_cast<float>(row.exact[weight + static_cast<std::size_t>(j)])));
      add_weighted(rounded_.data(), begin - first, end - begin, &row.stand_in_out);
    }
  }

  // `from`: the block's first value that has a weight.
  template <typename Weight>
  void add_weighted(const Weight* weights, int from, int count, std::array<double, kMostDim>* to) const {
    std::array<Weight, kMostDim> sums = {};
    for (int j = 0; j < count; ++j) {
      const float* v = &block_[static_cast<std::size_t>((from + j) * p_.head_dim_v)];
      for (std::size_t d = 0; d < static_cast<std::size_t>(p_.head_dim_v); ++d)
        sums[d] += weights[j] * static_cast<Weight>(v[d]);
    }
    for (std::size_t d = 0; d < sums.size(); ++d) (*to)[d] += static_cast<double>(sums[d]);
  }

  void add_naive(const float* weights, int from, int count, std::array<float, kMostDim>* to) const {
    for (int j = 0; j < count; ++j) {
      const float* v = &block_[static_cast<std::size_t>((from + j) * p_.head_dim_v)];
      for (std::size_t d = 0; d < static_cast<std::size_t>(p_.head_dim_v); ++d) (*to)[d] += weights[j] * v[d];
    }
  }

  double size_of(const Row& row) const {
    return score_size(row.farthest,
                      std::sqrt(dot<double>(row.query.data(), row.query.data(), p_.head_dim)) * double{call_.scale});
  }

  void finish(const Row& row, ReferenceRows* made) const {
    const auto dim = static_cast<std::size_t>(p_.head_dim_v);
    RowError naive, values;
    for (std::size_t d = 0; d < dim && row.sum > 0; ++d) {
      const double exact = row.exact_out[d] / row.sum;
      made->out[row.index * dim + d] = exact;
      const float stand_in = kOwnNaive ? row.naive_out[d] : rounded(static_cast<float>(row.stand_in_out[d] / row.sum));
      naive.add(double{stand_in} - exact, 0);
      values.add(exact, 0);
    }
    made->units[row.index] =
        row_unit(naive, values, at_score(attention_roundings(p_.out_type, p_.head_dim), size_of(row)));
  }

  const Call& call_;
  const Problem& p_;
  const int batch_, kv_head_;
  const Workers& workers_;
  int first_key_ = std::numeric_limits<int>::max(), last_key_ = 0;
  std::vector<Row> rows_;
  Floats block_;    // keys or values in float32
  Floats rounded_;  // weights of a block
};

template <typename Real>
void fill(const Call& call, const std::vector<RowPlace>& rows, const Workers& workers, ReferenceRows* made) {
  std::vector<RowGroup<Real>> groups;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const int kv_head = rows[at].head / call.problem.group();
    if (groups.empty() || !groups.back().takes(rows[at].batch, kv_head) || groups.back().size() == kRowsAGroup)
      groups.emplace_back(call, rows[at].batch, kv_head, workers);
    groups.back().add(at, rows[at]);
  }
  workers.each(static_cast<std::int64_t>(groups.size()),
               [&](std::int64_t at) { groups[static_cast<std::size_t>(at)].run(made); });
}

}  // namespace

std::int64_t reference_work(const Problem& problem) {
  return std::int64_t{problem.kv_len} * (problem.head_dim + 2 * problem.head_dim_v);
}

ReferenceRows reference_rows(const Call& call, const std::vector<RowPlace>& rows, const Workers& workers) {
  ReferenceRows made;
  const auto dim = static_cast<std::size_t>(call.problem.head_dim_v);
  made.out.resize(rows.size() * dim);
  made.lse.resize(rows.size());
  made.units.resize(rows.size());
  if (call.problem.q_type == ElementType::kF32)
    fill<double>(call, rows, workers, &made);
  else
    fill<float>(call, rows, workers, &made);
  return made;
}

}  // namespace gqa
