// host_trial.h: one problem on the CPU: inputs, reference, verification and clocks.
// Owns: rotated random inputs, hard queries (trial_inputs.h), of the first set what no sequence uses poisoned; lengths
// and page tables; a poisoned and guarded output; the reference of the rows checked. Never: touches the users' tensors.
// Threads: belongs to one thread; it fills inputs and computes references on several.
#pragma once

#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/host/run_delay.h"
#include "runtime/verify/attention_check.h"
#include "runtime/verify/reference.h"
#include "runtime/verify/trial_arrays.h"
#include "runtime/verify/trial_layout.h"
#include "runtime/verify/trial_lists.h"

namespace gqa {

class HostTrial final : public Trial {
 public:
  static Status make(const Problem& problem, const DeviceSpec& spec, const Effort& effort,
                     std::unique_ptr<Trial>* trial);
  Verdict verify(const LoadedProgram& program) override;
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override;
  double taken_by_others() override { return run_delay_.share(threads_); }

 private:
  // The problem at its own lengths, on the queries that are timed, and on hard ones a few shorter, so that tile edges
  // are exercised: same keys and strides.
  struct Variant {
    Problem problem;
    std::byte* q = nullptr;
    std::vector<std::int64_t> rows;
    ReferenceRows reference;
  };

  // Memory that nobody has written yet: whoever writes it first does so on several threads.
  using Elements = std::unique_ptr<std::byte[]>;

  HostTrial(const Problem& problem, const DeviceSpec& spec, const Effort& effort);
  Elements fill(std::int64_t count, int sets, std::uint64_t seed) const;
  void set_elements(const TrialRows& rows, std::int64_t count, int last, std::byte* slab) const;
  void poison_unused(std::byte* elements, const Strides& strides) const;
  Call call(const Problem& problem, const TrialLists& lists, std::byte* q, int set);
  void prepare(const Problem& problem, std::byte* q, Variant* variant);
  Status launch(const LoadedProgram& program, const Call& with, double* microseconds) const;
  void poison();
  bool row_exists(const Problem& problem, std::int64_t row) const;
  void scan(const Problem& problem, Comparison* comparison) const;
  void scan_lse(const Problem& problem, Comparison* comparison) const;
  void compare(const Variant& variant, Comparison* comparison) const;
  void compare_lse(const Variant& variant, Comparison* comparison) const;

  const TrialLayout layout_;
  const TrialLists verified_, timed_;
  const TrialArrays arrays_;
  const int threads_;
  const Effort effort_;
  int sets_ = 1, next_set_ = 0;
  Elements q_, hard_q_, k_, v_;
  std::vector<std::byte> out_;
  std::vector<float> lse_;
  Variant variants_[2];
  RunDelay run_delay_;
};

}  // namespace gqa
