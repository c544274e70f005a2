// host_trial.h: one problem on the CPU: inputs, reference, verification and clocks.
// Owns: rotated random inputs, a poisoned and guarded output, the reference of the rows checked.
// Never: touches the users' tensors.
// Threads: belongs to one thread; it computes references on several.
#pragma once

#include <vector>

#include "runtime/device.h"
#include "runtime/verify/trial_layout.h"
#include "runtime/verify/verify.h"

namespace gqa {

class HostTrial final : public Trial {
 public:
  HostTrial(const Problem& problem, const DeviceSpec& spec);
  Verdict verify(const LoadedProgram& program) override;
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override;

 private:
  // The problem at its own lengths, or a few shorter, so that tile edges are exercised: same buffers and strides.
  struct Variant {
    Problem problem;
    std::vector<std::int64_t> rows;
    std::vector<float> reference, reference_lse;
    double naive_error = 0, largest = 0;
  };

  void fill(std::vector<std::uint16_t>* data, std::int64_t count, std::uint64_t seed) const;
  Call call(const Problem& problem, int set);
  void prepare(const Problem& problem, Variant* variant);
  void poison();
  void scan(const Problem& problem, Comparison* comparison) const;
  void scan_lse(const Problem& problem, Comparison* comparison) const;
  void compare(const Variant& variant, Comparison* comparison) const;
  void compare_lse(const Variant& variant, Comparison* comparison) const;

  const TrialLayout layout_;
  const int threads_;
  int sets_ = 1, next_set_ = 0;
  std::vector<std::uint16_t> q_, k_, v_, out_;
  std::vector<float> lse_;
  std::vector<Variant> variants_;
};

}  // namespace gqa
