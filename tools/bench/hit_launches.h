// hit_launches.h: what a hit costs above its launch, for each family of kernels, over many sets of tensors.
// Owns: a session whose one kernel is given, on a GPU or, where there is none, on a driver whose functions do nothing;
// the arguments of its launches, written down as they pass, to be launched again without anything around them.
// Never: judges numbers. Tensors are zeros: no time depends on them here.
// Threads: one.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/device/attention/wgmma_flash/tensor_maps.h"
#include "runtime/api/args/args.h"
#include "runtime/cuda/launch/cuda_program.h"
#include "runtime/session/session.h"
#include "runtime/workload/programs.h"
#include "search/families/resources.h"

namespace gqa::bench {

struct MeasuredFamily {
  const char *name, *problem, *candidate;
};
constexpr MeasuredFamily kFamilies[] = {
    {"flash", "hq=8,hk=2,sq=256,d=64", "flash m=128 n=64 warps=4 stages=2 pack=1"},
    {"split", "hq=32,hk=8,sq=1,sk=512,d=128", "split m=16 n=32 warps=4 stages=3 pack=4 splits=4"},
    {"warpgroup", "hq=8,hk=2,sq=256,d=64", "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1"},
    {"dynamic", "hq=8,hk=2,sq=256,d=64", "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1"},
    {"stream-K", "hq=8,hk=2,sq=256,d=64", "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=5"},
};
constexpr std::size_t kSets = 80;

// ---- the driver, with launches written down on the way

struct ReadyLaunch {
  CUlaunchConfig config{};
  CUlaunchAttribute attribute{};
  CUfunction function = nullptr;
  AttentionParams params{};
  TensorMaps maps{};
};

struct RecordedDriver {
  static inline Driver driver;  // what the session's kernel launches by
  static inline decltype(Driver::cuLaunchKernel) launch = nullptr;
  static inline decltype(Driver::cuLaunchKernelEx) launch_ex = nullptr;
  static inline std::vector<ReadyLaunch> launches;

  static void record(const CUlaunchConfig& config, CUfunction function, void** arguments, bool maps) {
    ReadyLaunch& ready = launches.emplace_back();
    ready.config = config;
    if (config.numAttrs > 0) ready.attribute = *config.attrs;
    ready.function = function;
    std::memcpy(static_cast<void*>(&ready.params), arguments[0], sizeof ready.params);
    if (maps) std::memcpy(static_cast<void*>(&ready.maps), arguments[1], sizeof ready.maps);
  }
  template <bool kMaps>
  static void begin() {
    launches.clear();
    driver.cuLaunchKernelEx = [](const CUlaunchConfig* config, CUfunction function, void** arguments, void**) {
      record(*config, function, arguments, kMaps);
      return CUDA_SUCCESS;
    };
    driver.cuLaunchKernel = [](CUfunction function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                               unsigned tz, unsigned shared, CUstream stream, void** arguments, void**) {
      record({x, y, z, tx, ty, tz, shared, stream, nullptr, 0}, function, arguments, kMaps);
      return CUDA_SUCCESS;
    };
  }
  static void end() {
    driver.cuLaunchKernel = launch;
    driver.cuLaunchKernelEx = launch_ex;
  }
};

// Everything succeeds; nothing happens.
inline Driver empty_driver() {
  Driver d;
  d.cuDevicePrimaryCtxRetain = [](CUcontext*, CUdevice) { return CUDA_SUCCESS; };
  d.cuDevicePrimaryCtxRelease = [](CUdevice) { return CUDA_SUCCESS; };
  d.cuCtxGetCurrent = [](CUcontext* context) {
    *context = nullptr;
    return CUDA_SUCCESS;
  };
  d.cuModuleLoadData = [](CUmodule*, const void*) { return CUDA_SUCCESS; };
  d.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
  d.cuModuleGetFunction = [](CUfunction*, CUmodule, const char*) { return CUDA_SUCCESS; };
  d.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; };
  d.cuMemAlloc = [](CUdeviceptr* address, std::size_t bytes) {
    static CUdeviceptr next = CUdeviceptr{1} << 40;
    *address = next;
    next += (bytes + 511) / 512 * 512;
    return CUDA_SUCCESS;
  };
  d.cuMemFree = [](CUdeviceptr) { return CUDA_SUCCESS; };
  d.cuMemsetD8Async = [](CUdeviceptr, unsigned char, std::size_t, CUstream) { return CUDA_SUCCESS; };
  d.cuMemsetD32Async = [](CUdeviceptr, unsigned, std::size_t, CUstream) { return CUDA_SUCCESS; };
  d.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  d.cuStreamCreate = [](CUstream*, unsigned) { return CUDA_SUCCESS; };
  d.cuStreamDestroy = [](CUstream) { return CUDA_SUCCESS; };
  d.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  d.cuStreamGetId = [](CUstream, unsigned long long* id) {
    *id = 7;
    return CUDA_SUCCESS;
  };
  d.cuStreamGetCaptureInfo = [](CUstream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                std::size_t*) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  d.cuTensorMapEncodeTiled = [](CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) { return CUDA_SUCCESS; };
  d.cuLaunchKernelEx = [](const CUlaunchConfig*, CUfunction, void**, void**) { return CUDA_SUCCESS; };
  d.cuGetErrorName = d.cuGetErrorString = [](CUresult, const char**) { return CUDA_SUCCESS; };
  return d;
}

// ---- a session with one kernel

// Whatever it is asked to load, it loads the one given.
class OneKernelDevice : public Device {
 public:
  OneKernelDevice(const DeviceSpec& spec, std::shared_ptr<CudaShared> shared, Candidate candidate, Binary binary)
      : Device({{kDLCUDA}, 0}),
        spec_(spec),
        shared_(std::move(shared)),
        candidate_(candidate),
        binary_(std::move(binary)) {}
  const DeviceSpec& spec() const override { return spec_; }
  std::string compiler() const override { return "none"; }
  std::string timing_method() const override { return "none"; }
  Status compile(const Source&, Binary*) const override { return {}; }
  Status load(const Program& program, const std::vector<Binary>&, std::unique_ptr<LoadedProgram>* loaded) override {
    const AttentionStep* attention = program.steps.front().attention();
    if (attention == nullptr) return {Code::kInternal, "this device has one kernel, of attention"};
    return CudaProgram::load(shared_, program_of(attention->problem, candidate_, DeviceKind::kCuda), {binary_}, loaded);
  }
  Status make_trial(const Reference&, const Binary&, const Effort&, std::unique_ptr<Trial>* trial) override {
    *trial = std::make_unique<Untimed>();
    return {};
  }

 private:
  class Untimed : public Trial {
   public:
    Verdict verify(const LoadedProgram&) override { return {true, 0, 1, ""}; }
    Status time(const LoadedProgram&, int samples, std::vector<double>* microseconds) override {
      microseconds->insert(microseconds->end(), static_cast<std::size_t>(samples), 1.0);
      return {};
    }
  };
  const DeviceSpec spec_;
  const std::shared_ptr<CudaShared> shared_;
  const Candidate candidate_;
  const Binary binary_;
};

struct Shaped {
  std::array<std::int64_t, 4> shape{}, strides{};
  DLTensor tensor{};
  void set(void* data, std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t dim) {
    shape = {batch, length, heads, dim};
    strides = {length * heads * dim, heads * dim, dim, 1};
    tensor = {data, {kDLCUDA, 0}, 4, {kDLBfloat, 16, 1}, shape.data(), strides.data(), 0};
  }
};
struct CallTensors {
  Shaped q, k, v, out;
};

// One family's calls, ready in two forms.
class FamilyLaunches {
 public:
  // On the first GPU, or on the empty driver if `compiler` is null.
  Status prepare(const MeasuredFamily& family, const Device* compiler) {
    Problem problem;
    Candidate candidate;
    Binary binary;
    if (Status s = parse(family.problem, &problem); !s.ok()) return s;
    if (Status s = parse(family.candidate, &candidate); !s.ok()) return s;
    binary.cubin = "not looked at";
    if (compiler != nullptr)
      if (Status s = compiler->compile(program_of(problem, candidate, DeviceKind::kCuda).sources.front(), &binary);
          !s.ok())
        return s;
    if (Status s = open(compiler, candidate, std::move(binary)); !s.ok()) return s;
    if (Status s = session_->ready(problem); !s.ok()) return s;
    if (Status s = place(problem); !s.ok()) return s;
    return plan(problem, candidate).brings(LaunchArgument::kMaps) ? write_down<true>() : write_down<false>();
  }
  ~FamilyLaunches() {
    session_.reset();
    if (shared_ == nullptr) return;
    const Current current(shared_->context);
    memory_.clear();
    if (stream_ != nullptr) driver().cuStreamDestroy(stream_);
  }

  // What gqa_run_ex does once its handle is known.
  Status run(std::size_t set) {
    const CallTensors& t = tensors_[set];
    Call call;
    const Status status =
        make_call(session_->device(), &t.q.tensor, &t.k.tensor, &t.v.tensor, &t.out.tensor, &options_, &call);
    return status.ok() ? session_->run(call) : status;
  }
  // The same launch, its arguments ready.
  bool launch(std::size_t set) {
    ReadyLaunch& ready = ready_[set];
    void* arguments[] = {&ready.params, &ready.maps};
    return driver().cuLaunchKernelEx(&ready.config, ready.function, arguments, nullptr) == CUDA_SUCCESS;
  }
  bool wait() { return driver().cuStreamSynchronize(stream_) == CUDA_SUCCESS; }
  const CudaShared& shared() const { return *shared_; }

 private:
  static const Driver& driver() { return RecordedDriver::driver; }

  Status open(const Device* compiler, const Candidate& candidate, Binary binary) {
    const DeviceSpec spec = compiler != nullptr ? compiler->spec() : *DeviceSpec::for_arch("sm_90a");
    shared_ = std::make_shared<CudaShared>();
    if (Status s = Context::retain(driver(), 0, &shared_->context); !s.ok()) return s;
    shared_->workspaces = std::make_unique<WorkspacePool>(driver());
    shared_->intermediates = std::make_unique<WorkspacePool>(driver());
    shared_->sms = spec.sms;
    shared_->early_start = spec.compute_capability >= 90;
    const Current current(shared_->context);
    driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    options_.stream = stream_;
    cache::Store::Options store;
    store.mode = cache::Mode::kOff;
    SessionOptions options;
    options.tuning = Tuning::kGuess;
    session_ = std::make_unique<Session>(std::make_unique<OneKernelDevice>(spec, shared_, candidate, std::move(binary)),
                                         cache::Store::open(store), options);
    return {};
  }

  Status place(const Problem& p) {
    const Current current(shared_->context);
    tensors_ = std::vector<CallTensors>(kSets);
    for (CallTensors& t : tensors_) {
      if (Status s = place(p.batch, p.q_len, p.q_heads, p.head_dim, &t.q); !s.ok()) return s;
      if (Status s = place(p.batch, p.kv_len, p.kv_heads, p.head_dim, &t.k); !s.ok()) return s;
      if (Status s = place(p.batch, p.kv_len, p.kv_heads, p.head_dim_v, &t.v); !s.ok()) return s;
      if (Status s = place(p.batch, p.q_len, p.q_heads, p.head_dim_v, &t.out); !s.ok()) return s;
    }
    return driver().error("cuStreamSynchronize", driver().cuStreamSynchronize(stream_));
  }
  Status place(std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t dim, Shaped* shaped) {
    const auto bytes = static_cast<std::size_t>(2 * batch * length * heads * dim);
    if (Status s = DeviceMemory::allocate(driver(), bytes, &memory_.emplace_back()); !s.ok()) return s;
    driver().cuMemsetD8Async(memory_.back().address(), 0, bytes, stream_);
    shaped->set(memory_.back().as<void>(), batch, length, heads, dim);
    return {};
  }

  template <bool kMaps>
  Status write_down() {
    RecordedDriver::begin<kMaps>();
    Status status;
    for (std::size_t set = 0; set < kSets && status.ok(); ++set) status = run(set);
    RecordedDriver::end();
    if (!status.ok()) return status;
    ready_ = RecordedDriver::launches;
    if (ready_.size() != kSets) return {Code::kInternal, "a hit did not launch once"};
    for (ReadyLaunch& ready : ready_) ready.config.attrs = &ready.attribute;
    return {};
  }

  std::shared_ptr<CudaShared> shared_;
  std::unique_ptr<Session> session_;
  std::vector<DeviceMemory> memory_;
  std::vector<CallTensors> tensors_;
  std::vector<ReadyLaunch> ready_;
  CUstream stream_ = nullptr;
  gqa_call options_ = [] {
    gqa_call call{};
    call.size = sizeof call;
    return call;
  }();
};

// Median nanoseconds a call: bursts of a call on each set, timed without the wait between them, so that no launch waits
// for the device. Who is timed alternates.
struct CallTimes {
  double ready = 0, hit = 0;
};
inline bool time_calls(FamilyLaunches* family, CallTimes* times) {
  constexpr int kRounds = 301, kUntimed = 20;
  const Current current(family->shared().context);
  std::vector<double> samples[2];
  bool good = true;
  const auto burst = [&](auto call) {
    good = family->wait() && good;
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t set = 0; set < kSets; ++set) good = call(set) && good;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return took.count() / kSets;
  };
  for (int round = -kUntimed; round < kRounds && good; ++round) {
    const double ready = burst([&](std::size_t set) { return family->launch(set); });
    const double hit = burst([&](std::size_t set) { return family->run(set).ok(); });
    if (round < 0) continue;
    samples[0].push_back(ready);
    samples[1].push_back(hit);
  }
  for (std::vector<double>& one : samples)
    if (good) std::nth_element(one.begin(), one.begin() + kRounds / 2, one.end());
  if (good) *times = {samples[0][kRounds / 2], samples[1][kRounds / 2]};
  return family->wait() && good;
}

}  // namespace gqa::bench
