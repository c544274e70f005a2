// new_tokens_run.h: the run of a trial in which a kernel appends: each sequence's last key is taken out of the cache
// and handed over with the call, and so is a rotation by no angle. Owns: the new tokens, the lists of such a call, and
// what becomes of the cache for it: NaN where the keys were, and the keys again after it, whatever the kernel did.
// Never: launches or judges: cuda_trial.cc does; the answer must be that of the whole cache.
// Threads: the trial's.
#pragma once

#include "runtime/call/append.h"
#include "runtime/cuda/driver/memory.h"
#include "runtime/verify/trial_layout.h"
#include "runtime/verify/trial_lists.h"

namespace gqa {

class NewTokensRun {
 public:
  // k, v: of the set that is verified, as the lists say; of the other two, the same memory or its like. Done when this
  // returns; the others are queued.
  Status make(const Driver& driver, CUstream stream, const TrialLayout& layout, const TrialLists& lists, CUdeviceptr k,
              CUdeviceptr v);
  Call call(const Call& plain) const;
  Status take_out(CUdeviceptr k, CUdeviceptr v) const;
  Status put_back(CUdeviceptr k, CUdeviceptr v) const;

 private:
  template <typename Step>
  Status each_own(Step step) const;

  const Driver* driver_ = nullptr;
  CUstream stream_ = nullptr;
  AppendLists lists_;
  Append append_;
  Strides k_strides_, v_strides_;
  std::size_t k_bytes_ = 0, v_bytes_ = 0;  // of a key's row, all heads
  DeviceMemory cached_, table_, k_, v_, cos_, sin_;
};

}  // namespace gqa
