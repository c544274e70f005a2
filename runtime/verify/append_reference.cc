// append_reference.cc: what a call that appends must leave, and how what it left compares; see append_case.h.
#include <algorithm>
#include <cmath>

#include "runtime/verify/append_case.h"
#include "runtime/verify/tensor_bytes.h"

namespace gqa {
namespace {

constexpr double kFloatSlop = 0x1p-22;  // of what a float32 sum of two products adds up

Measured wrong(const char* output, std::string what) {
  Measured measured;
  measured.output = output;
  measured.other_kind = std::move(what);
  return measured;
}

}  // namespace

// ---- what it must leave

int AppendCase::added_to(int sequence) const {
  return std::min(counts_[nth(sequence)], sizes_.most - lengths_[nth(sequence)]);
}
int AppendCase::keys_of(int sequence) const {
  return lengths_[nth(sequence)] - leftpad_[nth(sequence)] + added_to(sequence);
}

// Elements of k, or of v, before such a slot of a sequence.
std::int64_t AppendCase::slot(int sequence, int slot, int dim) const {
  std::int64_t row = rows_[nth(sequence)], in_row = slot;
  if (kind_.page > 0) {
    row = table_[nth(row * table_width() + slot / kind_.page)];
    in_row = slot % kind_.page;
  }
  return (row * rows_between(dim) + in_row) * static_cast<std::int64_t>(row_size(kind_.cache, sizes_.kv_heads, dim));
}

// The same of a key, as attention finds it; -1: nowhere.
std::int64_t AppendCase::attended_slot(int sequence, int key, bool values) const {
  const Call& call = attended_.call;
  const Strides& s = call.strides(values ? Role::kV : Role::kK);
  if (call.problem.paged()) {
    const std::int64_t column = key / call.problem.page;
    if (column >= call.strides(Role::kPageTable).batch) return -1;
    const std::int64_t entry = attended_.table[nth(sequence * call.strides(Role::kPageTable).batch + column)];
    return entry * s.batch + key % call.problem.page * s.row;
  }
  const std::vector<std::int32_t>& starts =
      values && !attended_.value_starts.empty() ? attended_.value_starts : attended_.starts;
  return starts.empty() ? sequence * s.batch + key * s.row : (starts[nth(sequence)] + std::int64_t{key}) * s.row;
}

int AppendCase::position(int sequence, int token) const {
  const std::vector<std::int32_t>& first = kind_.own_rotary ? rotary_starts_ : lengths_;
  return first[nth(sequence)] + token;
}

double AppendCase::number(const Elements& elements, std::size_t index) const {
  return double{load_element(kind_.type, &elements[index * element()])};
}

// The bits are the same: it may be off by less than half a last place.
AppendCase::Rotated AppendCase::copied(double value) const {
  return {value, std::fabs(value) * last_place(kind_.type) / 4 + least(kind_.type) / 2};
}

// In float64; the pair's partner is found from the element.
AppendCase::Rotated AppendCase::rotated(const Elements& rows, std::size_t row, int element, int position) const {
  if (element >= kind_.rotary_dim) return copied(number(rows, row + nth(element)));
  const int half = kind_.rotary_dim / 2;
  const bool second = kind_.interleaved ? element % 2 == 1 : element >= half;
  const int pair = kind_.interleaved ? element / 2 : element % half;
  const int other = kind_.interleaved ? element ^ 1 : (element + half) % kind_.rotary_dim;
  const std::int64_t angle = std::min(position, sizes_.positions - 1);
  const double own = number(rows, row + nth(element)) * number(cos_, nth(angle * call_.strides(Role::kCos).row + pair));
  const double others =
      number(rows, row + nth(other)) * number(sin_, nth(angle * call_.strides(Role::kSin).row + pair));
  const double value = second ? own + others : own - others;
  return {value, 1.01 * std::fabs(value) * last_place(kind_.type) + kFloatSlop * (std::fabs(own) + std::fabs(others)) +
                     least(kind_.type)};
}

void AppendCase::expect_rows(int sequence, Expected* k, Expected* v) const {
  for (int token = 0; token < added_to(sequence); ++token) {
    const int to = lengths_[nth(sequence)] + token;
    const std::size_t from = nth(first_token(sequence) + token);
    const auto give = [&](const Elements& fresh, int dim, bool is_key, Expected* expected) {
      const Strides in_cache = strides(kind_.cache, 0, sizes_.kv_heads, dim);
      for (int head = 0; head < sizes_.kv_heads; ++head) {
        const std::size_t row =
            from * row_size(kind_.given, sizes_.kv_heads, dim) + nth(head * (dim + kind_.given.head));
        for (int d = 0; d < dim; ++d) {
          const std::size_t element = nth(slot(sequence, to, dim) + head * in_cache.head + d);
          const Rotated one =
              is_key ? rotated(fresh, row, d, position(sequence, token)) : copied(number(fresh, row + nth(d)));
          expected->values[element] = one.value;
          expected->bounds[element] = one.bound;
        }
      }
    };
    give(k_new_, sizes_.head_dim, true, k);
    give(v_new_, sizes_.head_dim_v, false, v);
  }
}

// ---- how the two compare

Measured AppendCase::measured_lists() const {
  for (int b = 0; b < sizes_.batch; ++b) {
    const std::string of = " of sequence " + std::to_string(b);
    if (attended_.lengths[nth(b)] != keys_of(b))
      return wrong("lengths", "keys" + of + " are " + std::to_string(attended_.lengths[nth(b)]) + ", expected " +
                                  std::to_string(keys_of(b)));
    for (int key = 0; key < keys_of(b); ++key)
      for (const bool values : {false, true}) {
        const std::int64_t found = attended_slot(b, key, values);
        const std::int64_t expected = slot(b, leftpad_[nth(b)] + key, values ? sizes_.head_dim_v : sizes_.head_dim);
        if (found == expected) continue;
        return wrong(values ? "v" : "k", "attention finds key " + std::to_string(key) + of + " at element " +
                                             std::to_string(found) + ", expected " + std::to_string(expected));
      }
  }
  Measured right;
  right.output = "lengths";
  return right;
}

bool AppendCase::same_bits(const Elements& before, const Elements& after, std::size_t index) const {
  return std::equal(&before[index * element()], &before[index * element()] + element(), &after[index * element()]);
}

Measured AppendCase::measured_tensor(const char* name, const Elements& before, const Elements& after,
                                     const Expected& expected) const {
  Measured measured;
  measured.output = name;
  Share worst = {ErrorKind::kElement, "element 0", 0, 1};
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const std::string element = "element ";
    if (std::isnan(expected.values[i])) {
      if (same_bits(before, after, i) || !measured.stray.empty()) continue;
      measured.stray = element + std::to_string(i) + " was written, where no new key goes";
      continue;
    }
    const double found = number(after, i);
    if (!std::isfinite(found)) {
      if (measured.other_kind.empty())
        measured.other_kind = element + std::to_string(i) + " is " + std::to_string(found) + ", expected " +
                              std::to_string(expected.values[i]);
      continue;
    }
    const double error = std::fabs(found - expected.values[i]);
    if (error == 0 || error / expected.bounds[i] <= worst.error) continue;
    worst.error = error / expected.bounds[i];
    worst.where = element + std::to_string(i);
  }
  measured.errors = {std::move(worst)};
  return measured;
}

Measured AppendCase::measured_queries() const {
  if (attended_.call.appends()) return wrong("q", "attention is handed new keys, expected none");
  const bool copied = attended_.call.at(Role::kQ) != call_.at(Role::kQ);
  if (copied != (kind_.rotary_dim > 0))
    return wrong("q", copied ? "queries are copied, expected them as they were given" : "queries are not rotated");
  const Elements& before = copied ? attended_.q : q_;  // what a copy holds elsewhere is nobody's
  Expected expected(before.size() / element());
  const Strides& s = attended_.call.strides(Role::kQ);
  for (int b = 0; copied && b < sizes_.batch; ++b)
    for (int i = 0; i < (kind_.packed ? counts_[nth(b)] : sizes_.queries); ++i)
      for (int head = 0; head < sizes_.q_heads; ++head)
        for (int d = 0; d < sizes_.head_dim; ++d) {
          const std::size_t from = nth(first_token(b) + i) * row_size(kind_.given, sizes_.q_heads, sizes_.head_dim) +
                                   nth(head * (sizes_.head_dim + kind_.given.head));
          const std::int64_t row = kind_.packed ? (first_token(b) + i) * s.row : b * s.batch + i * s.row;
          const Rotated one = rotated(q_, from, d, position(b, kind_.advances ? i : 0));
          expected.values[nth(row + head * s.head + d)] = one.value;
          expected.bounds[nth(row + head * s.head + d)] = one.bound;
        }
  return measured_tensor("q", before, attended_.q, expected);
}

std::vector<Measured> AppendCase::measured() const {
  Expected k(k_.size() / element()), v(v_.size() / element());
  for (int b = 0; b < sizes_.batch; ++b) expect_rows(b, &k, &v);
  return {measured_lists(), measured_tensor("k", k_, attended_.k, k), measured_tensor("v", v_, attended_.v, v),
          measured_queries()};
}

}  // namespace gqa
