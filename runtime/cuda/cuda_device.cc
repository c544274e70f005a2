// cuda_device.cc: see cuda_device.h.
#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <cmath>

#include "jit/codegen.h"
#include "runtime/cuda/driver/capture.h"
#include "runtime/cuda/launch/cuda_appender.h"
#include "runtime/cuda/launch/cuda_merger.h"
#include "runtime/cuda/trial/cuda_operation_trial.h"
#include "runtime/cuda/trial/cuda_program_trial.h"
#include "runtime/cuda/trial/cuda_trial.h"
#include "runtime/workload/workload.h"
#include "search/version.h"

namespace gqa {
namespace {

// The first driver (1000 * major + 10 * minor) whose stream capture takes programmatic launches.
constexpr int kEarlyStartInGraphs = 12030;

int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  driver.cuDeviceGetAttribute(&value, which, device);
  return value;
}

// sm_90a and later: the suffix opens the instructions of exactly this architecture.
std::string arch_of(int compute_capability) {
  return "sm_" + std::to_string(compute_capability) + (compute_capability >= 90 ? "a" : "");
}

std::string version_text(int driver) {
  return "CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
}

DeviceSpec read_spec(const Driver& driver, CUdevice device) {
  DeviceSpec spec;
  spec.driver = version_text(driver.version);
  spec.kind = DeviceKind::kCuda;
  spec.compute_capability = 10 * attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                            attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  spec.arch = arch_of(spec.compute_capability);
  spec.sms = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  spec.smem_per_block = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  spec.smem_per_sm = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  spec.registers_per_sm = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  spec.threads_per_sm = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  spec.l2_bytes = attribute(driver, device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  // kHz and bits; two transfers a clock, and about nine tenths of it is reached. A driver that no longer knows one of
  // these attributes, or a virtual GPU that hides it, leaves 0, and the identity does without.
  const double memory_khz = attribute(driver, device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  const double bus_bits = attribute(driver, device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  const double peak = 2 * memory_khz * 1e3 * bus_bits / 8;
  spec.memory_bandwidth = 0.9 * peak;
  spec.memory_gb_per_s = static_cast<int>(std::lround(peak / 1e9));
  spec.clock_mhz = attribute(driver, device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
  const auto typical = DeviceSpec::for_arch(spec.arch);
  const double flops_per_sm = typical ? typical->tensor_flops / typical->sms : 1e12;
  spec.tensor_flops = flops_per_sm * spec.sms;
  if (typical) spec.wgmma_flops = typical->wgmma_flops / typical->sms * spec.sms;
  if (spec.memory_bandwidth <= 0) spec.memory_bandwidth = typical ? typical->memory_bandwidth : 1e12;
  return spec;
}

Status no_gpu(const std::string& arch) {
  return {Code::kNoDevice,
          "this device only compiles for " + arch + "; kernels run on a device opened as cuda or cuda:N"};
}

}  // namespace

Status CudaCompiler::nvrtc(std::shared_ptr<const Nvrtc>* nvrtc) const {
  const std::lock_guard lock(mutex_);
  if (!searched_) {
    nvrtc_status_ = Nvrtc::load(nvrtc_path_, {spec_.arch, driver_version_}, &nvrtc_);
    searched_ = true;
  }
  *nvrtc = nvrtc_;
  return nvrtc_status_;
}

// Without NVRTC nothing new can be compiled, but what another NVRTC made is still found: rows are looked up under
// "none", and those of any compiler serve.
std::string CudaCompiler::compiler() const {
  std::shared_ptr<const Nvrtc> found;
  const bool ok = nvrtc(&found).ok();
  return "nvrtc " + (ok ? found->version_text() : "none") + " " + Nvrtc::options_text();
}

std::string CudaCompiler::timing_method() const { return CudaTrial::kMethod; }

Status CudaCompiler::compile(const Source& source, Binary* binary) const {
  std::shared_ptr<const Nvrtc> found;
  if (Status s = nvrtc(&found); !s.ok()) return s;
  Compiled compiled;
  binary->source = source.text;
  const Status status = found->compile(binary->source, spec_.arch, &compiled);
  binary->ptx = std::move(compiled.ptx);
  binary->cubin = std::move(compiled.cubin);
  binary->log = std::move(compiled.log);
  binary->registers = compiled.registers;
  binary->spill_bytes = compiled.spill_bytes;
  binary->static_smem = compiled.static_smem;
  return status;
}

Status CudaCompiler::load(const Program&, const std::vector<Binary>&, std::unique_ptr<LoadedProgram>*) {
  return no_gpu(spec_.arch);
}

Source CudaCompiler::checker() const {
  return {check_source(), std::string(kCheckFamily), "check", "verification of kernels", ""};
}

Status CudaCompiler::make_trial(const Reference&, const Binary&, const Effort&, std::unique_ptr<Trial>*) {
  return no_gpu(spec_.arch);
}

CudaDevice::~CudaDevice() {
  const BesideCaptures here(shared_->context);
  checker_.reset();
}

Status CudaDevice::load(const Program& program, const std::vector<Binary>& binaries,
                        std::unique_ptr<LoadedProgram>* loaded) {
  const Operation* operation = program.steps.front().operation();
  if (operation == nullptr) return CudaProgram::load(shared_, program, binaries, loaded);
  return *operation == Operation::kAppend ? CudaAppender::load(shared_, binaries.front(), loaded)
                                          : CudaMerger::load(shared_, binaries.front(), loaded);
}

Status CudaDevice::load_checker(const Binary& binary, std::shared_ptr<const Checker>* checker) {
  const std::lock_guard lock(checker_mutex_);
  if (checker_ == nullptr) {
    std::unique_ptr<Checker> fresh;
    if (Status s = Checker::load(shared_->context, binary, spec_, &fresh); !s.ok()) return s;
    checker_ = std::move(fresh);
  }
  *checker = checker_;
  return {};
}

Status CudaDevice::make_trial(const Reference& reference, const Binary& checker, const Effort& effort,
                              std::unique_ptr<Trial>* trial) {
  const Problem* problem = std::get_if<Problem>(&reference.of);
  if (problem != nullptr && problem->keys_transposed())
    return {Code::kOption, "a trial of " + to_text(*problem) +
                               ": keys given as (head_dim, keys) come in programs only, " +
                               "which have trials of their own; expected a shape without ktrans"};
  const BesideCaptures here(shared_->context);
  if (Status s = context_works(shared_->context.driver()); !s.ok()) return s;
  std::shared_ptr<const Checker> check;
  if (Status s = load_checker(checker, &check); !s.ok()) return s;
  if (problem != nullptr) return CudaTrial::make(shared_, check, spec_, *problem, effort, trial);
  if (const KernelGraph* graph = std::get_if<KernelGraph>(&reference.of))
    return CudaProgramTrial::make(shared_, check, spec_, *graph, effort, trial);
  return CudaOperationTrial::make(shared_, check, std::get<Operation>(reference.of), effort, trial);
}

Status CudaDevice::copy(void* to, const void* from, std::size_t bytes, void* stream) const {
  const Current current(shared_->context);
  const Driver& driver = shared_->context.driver();
  return driver.error("cuMemcpyDtoDAsync",
                      driver.cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                               bytes, static_cast<CUstream>(stream)));
}

// While a stream that waits for the legacy stream is being captured, the question for the legacy stream is answered
// with an error, and leaves the capture whole; what is queued there would end it, so the call must not be answered
// then.
Status CudaDevice::capturing(std::optional<void*> stream, bool* captured) const {
  const BesideCaptures here(shared_->context);
  const Driver& driver = shared_->context.driver();
  *captured = false;
  if (Status s = context_works(driver); !s.ok() || !stream) return s;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.cuStreamIsCapturing(static_cast<CUstream>(*stream), &status);
  *captured = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != CU_STREAM_CAPTURE_STATUS_NONE;
  return *captured ? Status() : driver.error("cuStreamIsCapturing", result);
}

Status open_cuda_device(int ordinal, const std::string& nvrtc_path, std::unique_ptr<Device>* device) {
  Status status;
  const Driver* driver = Driver::get(&status);
  if (driver == nullptr) return status;
  int count = 0;
  if (const CUresult r = driver->cuDeviceGetCount(&count); r != CUDA_SUCCESS)
    return driver->error("cuDeviceGetCount", r);
  if (ordinal < 0 || ordinal >= count)
    return {Code::kNoDevice, "cuda:" + std::to_string(ordinal) + " was asked for, but this machine has " +
                                 std::to_string(count) + " CUDA device(s)"};
  CUdevice cu_device = 0;
  if (const CUresult r = driver->cuDeviceGet(&cu_device, ordinal); r != CUDA_SUCCESS)
    return driver->error("cuDeviceGet", r);
  const DeviceSpec spec = read_spec(*driver, cu_device);
  if (spec.compute_capability < 80)
    return {Code::kNoDevice, "cuda:" + std::to_string(ordinal) + " has compute capability " +
                                 std::to_string(spec.compute_capability / 10) + "." +
                                 std::to_string(spec.compute_capability % 10) + "; 8.0 or newer is needed"};
  auto shared = std::make_shared<CudaShared>();
  if (Status s = Context::retain(*driver, cu_device, &shared->context); !s.ok()) return s;
  shared->workspaces = std::make_unique<WorkspacePool>(*driver);
  shared->intermediates = std::make_unique<WorkspacePool>(*driver);
  shared->sms = spec.sms;
  shared->early_start = spec.compute_capability >= 90 && driver->version >= kEarlyStartInGraphs;
  *device = std::make_unique<CudaDevice>(ordinal, spec, std::move(shared), nvrtc_path);
  return {};
}

Status open_compile_only_device(const std::string& arch, const std::string& nvrtc_path,
                                std::unique_ptr<Device>* device) {
  const auto spec = DeviceSpec::for_arch(arch);
  if (!spec) {
    std::string known;
    for (const std::string& name : DeviceSpec::known_archs()) known += (known.empty() ? "" : ", ") + name;
    return {Code::kNoDevice, "unknown architecture '" + arch + "'; known are " + known};
  }
  *device = std::make_unique<CudaCompiler>(*spec, nvrtc_path);
  return {};
}

}  // namespace gqa
