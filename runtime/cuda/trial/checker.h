// checker.h: the verification kernels of a device, loaded.
// Owns: the module made of device/check.cuh and its launches.
// Never: judges; cuda_trial.cc does.
// Threads: constant after load; launches from one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "jit/device/check/check_params.h"
#include "jit/device/check/trial_inputs.h"
#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/device.h"
#include "runtime/verify/judgement.h"

namespace gqa {

// A share as the verification kernels place it.
float share_of(unsigned long long placed);
// Rows' errors as the verification kernels leave them. with_unit: rows that are not zero, as gqa_reference counts them.
RowErrors row_errors(const CheckResult& result, std::int64_t with_unit);

class Checker {
 public:
  // `binary`: of jit's check_source().
  static Status load(const Context& context, const Binary& binary, const DeviceSpec& spec,
                     std::unique_ptr<Checker>* checker);

  Status fill(CUstream stream, CUdeviceptr data, long long count, unsigned long long seed, long long first,
              const TrialRows& rows) const;
  Status reference(CUstream stream, const AttentionParams& params, const CheckParams& check, const CacheParams& cache,
                   int rows) const;
  Status compare(CUstream stream, const AttentionParams& params, const CheckParams& check, int rows) const;
  Status scan(CUstream stream, const ScanParams& scan) const;
  Status clock(CUstream stream, CUdeviceptr cycles_and_nanoseconds) const;
  // span: two 64-bit words of 0.
  Status probe(CUstream stream, CUdeviceptr span, unsigned long long nanoseconds) const;

 private:
  Checker(const Driver& driver, const DeviceSpec& spec)
      : driver_(driver), sms_(spec.sms), smem_per_block_(spec.smem_per_block) {}
  Status launch(const char* name, CUfunction function, long long blocks, int threads, CUstream stream, void** arguments,
                int dynamic_smem = 0) const;

  const Driver& driver_;
  const int sms_, smem_per_block_;
  Module module_;
  CUfunction fill_ = nullptr, reference_ = nullptr, reference_wide_ = nullptr, compare_ = nullptr, scan_ = nullptr,
             clock_ = nullptr, probe_ = nullptr;
};

}  // namespace gqa
