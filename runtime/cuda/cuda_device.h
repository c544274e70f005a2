// cuda_device.h: one GPU, or an architecture to compile for.
// Owns: the primary context, NVRTC (found on first use), the verification kernels (loaded on first use), and what the
// cost model knows of the device.
// Never: chooses candidates or remembers kernels.
// Threads: compile() from many threads; the rest as device.h says.
#pragma once

#include <dlpack/dlpack.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "jit/nvrtc.h"
#include "runtime/cuda/cached_lists.h"
#include "runtime/cuda/launch/cuda_kernel.h"
#include "runtime/cuda/trial/checker.h"
#include "runtime/device.h"

namespace gqa {

// Compiles for an architecture; needs no GPU. Loading and trials fail with a Status that says so.
class CudaCompiler : public Device {
 public:
  // The driver's version, as CUDA counts; 0 where there is none.
  CudaCompiler(DeviceSpec spec, std::string nvrtc_path, int driver_version = 0, const Owned& owned = {})
      : Device(owned), spec_(std::move(spec)), nvrtc_path_(std::move(nvrtc_path)), driver_version_(driver_version) {}

  const DeviceSpec& spec() const override { return spec_; }
  std::string compiler() const override;
  std::string timing_method() const override;
  Status compile(const Source& source, Binary* binary) const override;
  Status load(const Program& program, const std::vector<Binary>& binaries,
              std::unique_ptr<LoadedProgram>* loaded) override;
  Source checker() const override;
  Status make_trial(const Reference& reference, const Binary& checker, const Effort& effort,
                    std::unique_ptr<Trial>* trial) override;

 protected:
  Status nvrtc(std::shared_ptr<const Nvrtc>* nvrtc) const;
  DeviceSpec spec_;

 private:
  const std::string nvrtc_path_;
  const int driver_version_;
  mutable std::mutex mutex_;  // guards what follows: found on first use
  mutable bool searched_ = false;
  mutable Status nvrtc_status_;
  mutable std::shared_ptr<const Nvrtc> nvrtc_;
};

class CudaDevice final : public CudaCompiler {
 public:
  CudaDevice(int ordinal, DeviceSpec spec, std::shared_ptr<CudaShared> shared, const std::string& nvrtc_path)
      : CudaCompiler(std::move(spec), nvrtc_path, shared->context.driver().version,
                     {{kDLCUDA, kDLCUDAManaged}, ordinal}),
        shared_(std::move(shared)) {}
  ~CudaDevice() override;

  Status load(const Program& program, const std::vector<Binary>& binaries,
              std::unique_ptr<LoadedProgram>* loaded) override;
  Status make_trial(const Reference& reference, const Binary& checker, const Effort& effort,
                    std::unique_ptr<Trial>* trial) override;
  Status capturing(std::optional<void*> stream, bool* captured) const override;
  Status copy(void* to, const void* from, std::size_t bytes, void* stream) const override;
  Status check_lists(const Call& call, std::string* odd) const override {
    return check_cached_lists(shared_->context, call, odd);
  }

 private:
  Status load_checker(const Binary& binary, std::shared_ptr<const Checker>* checker);

  std::shared_ptr<CudaShared> shared_;
  std::mutex checker_mutex_;
  std::shared_ptr<const Checker> checker_;
};

}  // namespace gqa
