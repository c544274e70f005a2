// chain_arrays_case.h: arrays that a chain on scores reads, in host memory: NaN wherever no score may read them.
// Owns: factors of either sign, biases of which some are -inf, all of a first row among them where that only hides
// keys; gaps between rows; each array ends with its last number. Never: knows a device or computes. Threads: a value.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/device.h"
#include "runtime/element.h"
#include "search/graph/ir/op.h"

namespace gqa::test {

struct ChainArraysCase {
  std::vector<float> heads, rows, scores32;
  std::vector<std::uint16_t> scores16;
  Strides row_strides, score_strides;

  // sees(batch, row, key): whether a row of any head sees the key.
  template <typename Sees>
  void make(const Problem& p, const Sees& sees) {
    std::mt19937 random(23);
    std::normal_distribution<float> normal(0, 1);
    for (int head = 0; p.chain.reads(ChainOperand::kHead) && head < p.q_heads; ++head)
      heads.push_back((head % 2 == 0 ? 1.F : -1.F) * (0.7F + 0.4F * static_cast<float>(head % 3)));
    if (p.chain.reads(ChainOperand::kRow)) {
      row_strides = {std::int64_t{p.q_heads} * p.q_len * 2, 2, std::int64_t{p.q_len} * 2};
      rows.assign(static_cast<std::size_t>(p.batch * row_strides.batch) - 1, NAN);
      for (std::size_t at = 0; at < rows.size(); at += 2) rows[at] = at % 10 == 0 ? -0.6F : 1 + 0.4F * normal(random);
    }
    if (!p.chain.reads_tensor()) return;
    const std::int64_t row = p.kv_len + 3, head = row * p.q_len + 5;
    score_strides = {head * p.q_heads, row, head};
    std::vector<float> scores(static_cast<std::size_t>(p.batch * score_strides.batch - 5 - 3), NAN);
    for (int b = 0; b < p.batch; ++b)
      for (int h = 0; h < p.q_heads; ++h)
        for (int i = 0; i < p.q_len; ++i)
          for (int j = 0; j < p.kv_len; ++j) {
            const bool hidden = adds_last(p.chain) && ((b == 0 && h == 0 && i == 0) || random() % 8 == 0);
            float& score = scores[static_cast<std::size_t>(b * score_strides.batch + h * head + i * row + j)];
            if (sees(b, i, j)) score = hidden ? -INFINITY : normal(random);
          }
    if (p.chain.reads(ChainOperand::kTensor32) || p.q_type == ElementType::kF32) {
      scores32 = scores;
    } else {
      for (const float score : scores) scores16.push_back(store(p.q_type, score));
    }
  }

  // Hands them to a call, where they lie.
  void give(const float* first_head, const float* first_row, const void* first_score, Call* call) const {
    call->set(Role::kScoreScale, !heads.empty() ? first_head : !rows.empty() ? first_row : nullptr, row_strides);
    call->set(Role::kBias, scores32.empty() && scores16.empty() ? nullptr : first_score, score_strides);
  }
  void give(Call* call) const {
    give(heads.data(), rows.data(), scores16.empty() ? static_cast<const void*>(scores32.data()) : scores16.data(),
         call);
  }
  // NaN equals nothing: arrays with gaps are never the same.
  friend bool operator==(const ChainArraysCase& a, const ChainArraysCase& b) {
    return a.heads == b.heads && a.rows == b.rows && a.scores32 == b.scores32 && a.scores16 == b.scores16;
  }

 private:
  static bool adds_last(const ScoreChain& chain) {
    const ChainStep& last = chain.steps[chain.count - 1U];
    return last.op == Op::kAdd && (last.operand == ChainOperand::kTensor || last.operand == ChainOperand::kTensor32);
  }
};

}  // namespace gqa::test
