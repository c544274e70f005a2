// merge_case.h: states to merge, made on the host, and what float64 makes of them.
// Owns: the sizes; parts of any type and layout, among them empty ones, of either mark, whose out is NaN, rows that no
// part has, scores far apart; the memory that they are merged to, poisoned, with gaps after its rows; the reference.
// Never: merges for others: its own sums are the reference.
// Threads: a case belongs to one thread.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/call/merge_states.h"
#include "runtime/verify/operation_case.h"
#include "runtime/verify/tensor_bytes.h"

namespace gqa {

struct MergeSizes {
  ElementType type = ElementType::kBF16;
  int count = 2, batch = 2, q_len = 3, heads = 4, head_dim = 64;
  int pad = 0;            // elements of nobody after each row of a head
  float most = 0;         // of outs, all positive and near it; 0: normal numbers
  bool in_place = false;  // the first part is merged into
};

// Sizes that take every way: types, rows in vectors and not, a warp's lanes shared by rows or walking one, parts of one
// launch and of several, numbers near the type's largest, whose sum is not finite.
std::span<const MergeSizes> merge_sizes();

class MergeCase final : public OperationCase {
 public:
  explicit MergeCase(const MergeSizes& sizes);
  std::string inputs() const override;
  Status place(TrialMemory* memory) override;
  Status launch(const LoadedProgram& program) const override;
  Status run(const LoadedProgram& program, TrialMemory* memory) override;
  std::vector<Measured> measured() const override;

  Status read(TrialMemory* memory);  // what is there once a launch is done
  // Adds to what the scores of one row of all parts add up to, for who places the case again.
  void shift_row(int row, float by);
  const MergeCall& call() const { return call_; }  // addresses only once it is placed
  const TensorBytes& merged() const { return merged_; }
  const std::vector<float>& merged_lse() const { return merged_lse_; }
  const TensorBytes& part(int number) const { return outs_[static_cast<std::size_t>(number)]; }

 private:
  struct Row {
    int batch, position, head;
  };
  struct Element {
    double value, bound;
  };

  int rows() const { return sizes_.batch * sizes_.q_len * sizes_.heads; }
  int row_elements() const { return sizes_.head_dim + sizes_.pad; }
  std::int64_t elements() const { return std::int64_t{rows()} * row_elements(); }
  Row row_of(int number) const;
  Strides out_strides(int part) const;
  Strides lse_strides(int part) const;
  double element(const TensorBytes& from, std::int64_t index) const;
  void fill_part(int part);
  float lse_of(int row, int part);
  float number();
  std::vector<double> weights_of(const Row& row, double* lse) const;
  Element expected(const Row& row, const std::vector<double>& weights, int d) const;
  std::string stray() const;

  const MergeSizes sizes_;
  std::mt19937 random_{7};
  std::normal_distribution<float> normal_;
  std::vector<TensorBytes> outs_;
  std::vector<std::vector<float>> lses_;
  TensorBytes merged_;
  std::vector<float> merged_lse_;
  std::vector<AttentionState> parts_;
  MergeCall call_;
};

}  // namespace gqa
