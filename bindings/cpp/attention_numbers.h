// attention_numbers.h: bfloat16 tensors for the tests of gqa.hpp, and attention of one query written out.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gqa.hpp"

namespace gqa::test {

using Row = std::vector<float>;

// Numbers that bfloat16 holds exactly, in -1 to 1, each call others.
class Numbers {
 public:
  float next() {
    seed_ = seed_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int>(seed_ >> 26) - 32) / 32;
  }

 private:
  std::uint32_t seed_ = 7;
};

// A compact bfloat16 tensor and its memory.
class Bf16 {
 public:
  explicit Bf16(Dims dims, Numbers* numbers = nullptr) : dims_(std::move(dims)) {
    std::size_t count = 1;
    for (const std::int64_t size : dims_) count *= static_cast<std::size_t>(size);
    data_.resize(count, 0x7fc0);  // NaN
    if (numbers == nullptr) return;
    for (std::uint16_t& one : data_) {
      const float number = numbers->next();
      std::uint32_t bits;
      std::memcpy(&bits, &number, sizeof(bits));
      one = static_cast<std::uint16_t>(bits >> 16);
    }
  }

  Tensor tensor() { return {data_.data(), dims_, bfloat16}; }
  // Row `at` of as many as there are along all dimensions but the last.
  Row row(std::size_t at) const {
    const auto width = static_cast<std::size_t>(dims_.back());
    Row made(width);
    for (std::size_t i = 0; i < width; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(data_[at * width + i]) << 16;
      std::memcpy(&made[i], &bits, sizeof(bits));
    }
    return made;
  }

 private:
  Dims dims_;
  std::vector<std::uint16_t> data_;
};

// softmax(q k^T / sqrt(d)) v of one query and the first `seen` keys.
inline Row attend(const Row& q, const std::vector<Row>& keys, const std::vector<Row>& values, std::size_t seen) {
  double sum = 0;
  std::vector<double> out(values[0].size());
  for (std::size_t j = 0; j < seen; ++j) {
    double score = 0;
    for (std::size_t i = 0; i < q.size(); ++i) score += double(q[i]) * keys[j][i];
    const double weight = std::exp(score / std::sqrt(double(q.size())));
    sum += weight;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * values[j][i];
  }
  Row made(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) made[i] = static_cast<float>(out[i] / sum);
  return made;
}

// NaN where the two are no pair of numbers.
inline float largest_difference(const Row& a, const Row& b) {
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

}  // namespace gqa::test
