// merge_case.h: states to merge, and what float64 makes of them.
// Owns: MergeCase: parts of any dtype and layout, among them empty ones, of either mark, whose out is NaN, rows that no
// part has, scores far apart; the memory that they are merged to, poisoned, with gaps after its rows; the comparison,
// which names the element. Never: merges for others: its own sums are the reference. Threads: a test's own.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/call/merge_states.h"
#include "runtime/half.h"

namespace gqa::test {

struct MergeSizes {
  ElementType type = ElementType::kBF16;
  int count = 2, batch = 2, q_len = 3, heads = 4, head_dim = 64;
  int pad = 0;     // elements of nobody after each row of a head
  float most = 0;  // of outs, all positive and near it; 0: normal numbers
};

class MergeCase {
 public:
  static constexpr std::uint8_t kPoison = 0xff;  // NaN in all three types
  static constexpr float kEmpty = -std::numeric_limits<float>::infinity();
  static float taken(float lse) { return lse == -kEmpty ? kEmpty : lse; }  // of an empty part, which +inf marks, too

  explicit MergeCase(const MergeSizes& given) : sizes(given), outs(at(given.count)), lses(at(given.count)) {
    out = std::vector<std::uint8_t>(elements() * bytes(), kPoison);
    lse = std::vector<float>(at(rows()), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t part = 0; part < outs.size(); ++part) fill_part(part);
    call.type = given.type;
    call.count = given.count;
    call.batch = given.batch;
    call.q_len = given.q_len;
    call.heads = given.heads;
    call.head_dim = given.head_dim;
    call.vectors = row_elements() % 8 == 0 && given.head_dim % 8 == 0;
    for (int part = 0; part < given.count; ++part)
      parts.push_back({outs[at(part)].data(), lses[at(part)].data(), out_strides(part), lse_strides(part)});
    call.merged = {out.data(), lse.data(), out_strides(0), lse_strides(0)};
    call.parts = parts.data();
  }
  MergeCase(const MergeCase&) = delete;
  MergeCase& operator=(const MergeCase&) = delete;

  // The merged state in `out` and `lse`. `roundings`: how often out was rounded on the way.
  ::testing::AssertionResult right(int roundings = 1) const {
    for (int b = 0; b < sizes.batch; ++b)
      for (int i = 0; i < sizes.q_len; ++i)
        for (int h = 0; h < sizes.heads; ++h)
          if (auto row = row_right(b, i, h, roundings); !row) return row;
    return only_rows_written();
  }

  int rows() const { return sizes.batch * sizes.q_len * sizes.heads; }

  const MergeSizes sizes;
  std::vector<std::vector<std::uint8_t>> outs;
  std::vector<std::vector<float>> lses;
  std::vector<std::uint8_t> out;
  std::vector<float> lse;
  std::vector<AttentionState> parts;
  MergeCall call;

 private:
  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  std::size_t bytes() const { return at(element_bytes(sizes.type)); }
  int row_elements() const { return sizes.head_dim + sizes.pad; }
  std::size_t elements() const { return at(rows() * row_elements()); }

  // Heads lie inside queries in every other part, and queries inside heads in the others.
  Strides out_strides(int part) const {
    const std::int64_t row = row_elements(), inner = part % 2 == 0 ? sizes.heads : sizes.q_len;
    return {sizes.q_len * sizes.heads * row, part % 2 == 0 ? inner * row : row, part % 2 == 0 ? row : inner * row};
  }
  Strides lse_strides(int part) const {
    return {sizes.q_len * sizes.heads, part % 3 == 2 ? sizes.heads : 1, part % 3 == 2 ? 1 : sizes.q_len};
  }
  static std::int64_t place(const Strides& s, int b, int i, int h) { return b * s.batch + i * s.row + h * s.head; }

  double element(const std::vector<std::uint8_t>& from, std::int64_t index) const {
    if (sizes.type == ElementType::kF32) {
      float value = 0;
      std::memcpy(&value, from.data() + index * 4, 4);
      return value;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, from.data() + index * 2, 2);
    return load(sizes.type == ElementType::kBF16 ? DType::kBF16 : DType::kF16, bits);
  }
  void set(std::vector<std::uint8_t>* to, std::int64_t index, float value) const {
    const std::uint16_t bits = store(sizes.type == ElementType::kBF16 ? DType::kBF16 : DType::kF16, value);
    const void* from = sizes.type == ElementType::kF32 ? static_cast<const void*>(&value) : &bits;
    std::memcpy(to->data() + static_cast<std::size_t>(index) * bytes(), from, bytes());
  }

  // Row 0 is empty in all parts, row 1 in all but the last; row 2's parts are far apart, row 3's first is near
  // float32's largest, where no log-sum-exp tells one part from two, all others near its least; of the others one part
  // in four is empty.
  float lse_of(int row, int part) {
    const bool last = part + 1 == sizes.count;
    if (row == 0 || (row == 1 && !last)) return (row + part) % 2 == 0 ? kEmpty : -kEmpty;
    if (row == 2) return part % 2 == 0 ? -900.F : 90.F + static_cast<float>(part);
    if (row == 3) return part == 0 ? 3e38F : -3.4e38F;
    if (row > 3 && !last && random_() % 4 == 0) return random_() % 2 == 0 ? kEmpty : -kEmpty;
    return 2 * normal_(random_);
  }

  void fill_part(std::size_t part) {
    outs[part].assign(elements() * bytes(), kPoison);
    lses[part].assign(at(rows()), 0);
    const Strides o = out_strides(static_cast<int>(part)), l = lse_strides(static_cast<int>(part));
    int row = 0;
    for (int b = 0; b < sizes.batch; ++b)
      for (int i = 0; i < sizes.q_len; ++i)
        for (int h = 0; h < sizes.heads; ++h) {
          const float lse_here = lse_of(row++, static_cast<int>(part));
          lses[part][static_cast<std::size_t>(place(l, b, i, h))] = lse_here;
          for (int d = 0; d < sizes.head_dim && std::isfinite(lse_here); ++d)
            set(&outs[part], place(o, b, i, h) + d, number());
        }
  }

  float number() {
    const float normal = normal_(random_);
    return sizes.most == 0 ? normal : sizes.most * std::fmax(0.5F, 1 - std::abs(normal));
  }

  ::testing::AssertionResult row_right(int b, int i, int h, int roundings) const {
    std::vector<double> weights;
    double most = kEmpty, sum = 0;
    for (int part = 0; part < sizes.count; ++part)
      most = std::fmax(most, taken(lses[at(part)][at(static_cast<int>(place(lse_strides(part), b, i, h)))]));
    for (int part = 0; part < sizes.count; ++part) {
      const double own = taken(lses[at(part)][at(static_cast<int>(place(lse_strides(part), b, i, h)))]);
      weights.push_back(own == kEmpty ? 0 : std::exp(own - most));
      sum += weights.back();
    }
    const std::string where = "row (" + std::to_string(b) + ", " + std::to_string(i) + ", " + std::to_string(h) + ")";
    const double lse_is = lse[at(static_cast<int>(place(lse_strides(0), b, i, h)))];
    const double lse_should = sum == 0 ? kEmpty : most + std::log(sum);
    if (lse_is != lse_should && !(std::abs(lse_is - lse_should) <= 2e-6 * (1 + std::abs(lse_should))))
      return ::testing::AssertionFailure() << where << ": lse is " << lse_is << ", should be " << lse_should;
    const double rounding = sizes.type == ElementType::kF32 ? 0 : sizes.type == ElementType::kBF16 ? 0x1p-8 : 0x1p-11;
    for (int d = 0; d < sizes.head_dim; ++d) {
      double should = 0, size = 0;
      for (int part = 0; part < sizes.count && sum > 0; ++part) {
        if (weights[at(part)] == 0) continue;
        const double x = element(outs[at(part)], place(out_strides(part), b, i, h) + d) * weights[at(part)] / sum;
        should += x;
        size += std::abs(x);
      }
      const double is = element(out, place(out_strides(0), b, i, h) + d);
      // A float16 below 2^-14 has a last place of 2^-24.
      const double most_off = roundings * rounding * 1.01 * std::fmax(std::abs(should), roundings > 1 ? size : 0) +
                              size * 2e-6 + (sizes.type == ElementType::kF16 ? 0x1p-25 : 0);
      if (!(std::abs(is - should) <= most_off))
        return ::testing::AssertionFailure() << where << "[" << d << "] is " << is << ", should be " << should;
    }
    return ::testing::AssertionSuccess();
  }

  ::testing::AssertionResult only_rows_written() const {
    const std::vector<std::uint8_t> poison(bytes(), kPoison);
    for (int row = 0; row < rows(); ++row)
      for (int d = sizes.head_dim; d < row_elements(); ++d)
        if (std::memcmp(out.data() + at(row * row_elements() + d) * bytes(), poison.data(), bytes()) != 0)
          return ::testing::AssertionFailure() << "element " << d << " after row " << row << " is written";
    return ::testing::AssertionSuccess();
  }

  std::mt19937 random_{7};
  std::normal_distribution<float> normal_;
};

// Sizes that take every way: dtypes, rows in vectors and not, a warp's lanes shared by rows or walking one, parts of
// one launch and of several, numbers near the type's largest, whose sum is not finite.
inline std::vector<MergeSizes> merge_sizes() {
  std::vector<MergeSizes> all;
  for (const ElementType type : kElementTypes) {
    for (const int head_dim : {64, 128, 80, 7, 600}) all.push_back({type, 2, 2, 3, 4, head_dim, 0});
    all.push_back({type, 3, 1, 5, 3, 96, 5});
    all.push_back({type, 1, 1, 9, 2, 32, 8});
    all.push_back({type, 33, 1, 2, 3, 64, 0});
    all.push_back({type, 70, 1, 2, 3, 40, 1});
    all.push_back({type, 40, 1, 2, 3, 64, 0, type == ElementType::kF16 ? 65504.F : 3.38e38F});
  }
  return all;
}

inline std::string text_of(const MergeSizes& s) {
  return std::string(name(s.type)) + ", " + std::to_string(s.count) + " parts, head_dim " + std::to_string(s.head_dim) +
         ", pad " + std::to_string(s.pad);
}

}  // namespace gqa::test
