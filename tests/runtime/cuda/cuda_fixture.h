// cuda_fixture.h: what the GPU tests share.
// Owns: CudaGpu, a fixture with the first GPU and its context current, skipped by name where there is none; compiling
// candidates on all cores, each once for all tests, in the cache file that GQA_TEST_KERNELS names (tests/gpu.sh);
// verifying them; an AttentionCase on device memory.
// Never: tunes.
// Threads: a test's own.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "runtime/cuda/driver/driver.h"
#include "runtime/device.h"
#include "runtime/tuner/compile_pool.h"
#include "runtime/verify/operation_case.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/workload.h"
#include "search/families/space.h"
#include "tests/runtime/attention_case.h"

namespace gqa::test {

struct Compiled {
  Candidate candidate;
  Binary binary;
  Status status;
};

inline cache::Store& kernel_store() {
  static const char* const path = std::getenv("GQA_TEST_KERNELS");
  static const auto store = cache::Store::open(
      {path != nullptr ? path : "", path != nullptr ? cache::Mode::kReadWrite : cache::Mode::kOff, 10});
  return *store;
}

// All of them, on all cores.
inline std::vector<Compiled> compile_all(const Device& device, const Problem& problem,
                                         const std::vector<Candidate>& candidates) {
  std::vector<Source> sources;
  for (const Candidate& candidate : candidates)
    sources.push_back(program_of(problem, candidate, DeviceKind::kCuda).sources.front());
  CompilePool compile_pool(device, kernel_store(), /*threads=*/0);
  const auto batch = compile_pool.make(std::move(sources), [] { return true; });
  const Effort unlimited(1e6);
  std::vector<Compiled> compiled(candidates.size());
  while (auto made = batch->next(unlimited))
    compiled[made->index] = {candidates[made->index], std::move(made->binary), std::move(made->status)};
  return compiled;
}

class CudaGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    Status status = open_cuda_device(0, "", &device_);
    if (!status.ok()) GTEST_SKIP() << "no GPU: " << status.message();
    driver_ = Driver::get(&status);
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuCtxPushCurrent(context_));
  }
  void TearDown() override {
    device_.reset();
    if (context_ == nullptr) return;
    CUcontext popped;
    driver_->cuCtxPopCurrent(&popped);
    driver_->cuDevicePrimaryCtxRelease(0);
  }

  // The best `kernels` kernels of each family for the problem.
  std::vector<Candidate> best(const Problem& problem, std::size_t kernels) {
    std::vector<Candidate> chosen;
    std::set<std::string> seen;
    for (const std::string_view family : family_names()) {
      std::size_t taken = 0;
      for (const Ranked& ranked : enumerate(problem, device_->spec()).ranked) {
        if (name(ranked.candidate) != family || taken == kernels) continue;
        if (!seen.insert(kernel_text(ranked.candidate)).second) continue;
        chosen.push_back(ranked.candidate);
        ++taken;
      }
    }
    return chosen;
  }

  // Compiles, loads and verifies each; the first that fails is named.
  ::testing::AssertionResult verified(const Problem& problem, const std::vector<Candidate>& candidates) {
    if (candidates.empty()) return ::testing::AssertionFailure() << to_text(problem) << ": no candidate";
    std::unique_ptr<Trial> trial;
    if (const Status made = compile_and_try(*device_, {problem}, Effort(60), &trial); !made.ok())
      return ::testing::AssertionFailure() << to_text(problem) << ": " << made.message();
    for (const Compiled& one : compile_all(*device_, problem, candidates)) {
      const std::string what = to_text(problem) + " | " + to_text(one.candidate) + ": ";
      if (!one.status.ok()) return ::testing::AssertionFailure() << what << one.status.message();
      std::unique_ptr<LoadedProgram> kernel;
      if (const Status loaded = load(problem, one.candidate, one.binary, &kernel); !loaded.ok())
        return ::testing::AssertionFailure() << what << loaded.message();
      const Verdict verdict = trial->verify(*kernel);
      if (!verdict.passed) return ::testing::AssertionFailure() << what << verdict.reason;
      if (!(verdict.bound > 0)) return ::testing::AssertionFailure() << what << "a bound of " << verdict.bound;
    }
    return ::testing::AssertionSuccess();
  }

  Status load(const Problem& problem, const Candidate& candidate, const Binary& binary,
              std::unique_ptr<LoadedProgram>* kernel) {
    return device_->load(program_of(problem, candidate, DeviceKind::kCuda), {binary}, kernel);
  }

  std::unique_ptr<LoadedProgram> kernel_for(const Problem& compiled_for, const Problem& loaded_for,
                                            const Candidate& compiled, const Candidate& launched) {
    const Compiled made = compile_all(*device_, compiled_for, {compiled})[0];
    std::unique_ptr<LoadedProgram> kernel;
    EXPECT_TRUE(made.status.ok()) << made.status.message();
    EXPECT_TRUE(load(loaded_for, launched, made.binary, &kernel).ok());
    return kernel;
  }

  std::unique_ptr<Device> device_;
  const Driver* driver_ = nullptr;
  CUcontext context_ = nullptr;
};

// Where a trial's case lies on the device. Needs the context to be current.
class CudaMemory final : public TrialMemory {
 public:
  explicit CudaMemory(const Driver& driver, CUstream stream = nullptr) : driver_(driver), stream_(stream) {}
  ~CudaMemory() override {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  // The next tensors go where the first went.
  void rewind() { next_ = 0; }
  Status put(const char*, const void* from, std::size_t bytes, void** at) override {
    if (next_ == memory_.size()) {
      const CUresult result = driver_.cuMemAlloc(&memory_.emplace_back(), bytes);
      if (result != CUDA_SUCCESS) return driver_.error("cuMemAlloc", result);
    }
    const CUdeviceptr address = memory_[next_++];
    *at = reinterpret_cast<void*>(address);
    return driver_.error("cuMemcpyHtoDAsync", driver_.cuMemcpyHtoDAsync(address, from, bytes, stream_));
  }
  Status get(const void* at, std::size_t bytes, void* to) override {
    const CUresult result = driver_.cuMemcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(at), bytes, stream_);
    return driver_.error("reading back", result != CUDA_SUCCESS ? result : driver_.cuStreamSynchronize(stream_));
  }
  void* stream() const override { return stream_; }

 private:
  const Driver& driver_;
  const CUstream stream_;
  std::vector<CUdeviceptr> memory_;
  std::size_t next_ = 0;
};

// An AttentionCase's buffers on the device. Needs the context to be current.
class GpuCopy {
 public:
  GpuCopy(const Driver& driver, AttentionCase* attention) : driver_(driver), case_(attention), call_(attention->call) {
    call_.place(Role::kQ, moved(case_->q, call_.at(Role::kQ)));
    call_.place(Role::kK, moved(case_->k, call_.at(Role::kK)));
    call_.place(Role::kV, moved(case_->v, call_.at(Role::kV)));
    call_.place(Role::kOut, moved(case_->out, call_.to(Role::kOut)));
    float* const lse = reinterpret_cast<float*>(moved(case_->lse, case_->lse.data()));
    if (call_.has(Role::kLse)) call_.place(Role::kLse, lse);
    if (call_.has(Role::kKvLengths))
      call_.place(Role::kKvLengths, reinterpret_cast<std::int32_t*>(moved(case_->lengths, case_->lengths.data())));
    if (call_.has(Role::kSink))
      call_.place(Role::kSink, reinterpret_cast<const float*>(moved(case_->sink, case_->sink.data())));
    if (call_.has(Role::kPageTable))
      call_.place(Role::kPageTable,
                  reinterpret_cast<std::int32_t*>(moved(case_->page_table, case_->page_table.data())));
    move_arrays();
  }
  ~GpuCopy() {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  GpuCopy(const GpuCopy&) = delete;
  GpuCopy& operator=(const GpuCopy&) = delete;

  // On the legacy stream.
  const Call& call() const { return call_; }
  // Once the call is queued: its outputs, where the case has its own.
  void fetch() {
    driver_.cuMemcpyDtoHAsync(case_->out.data(), memory_[3], case_->out.size() * 2, nullptr);
    driver_.cuMemcpyDtoHAsync(case_->lse.data(), memory_[4], case_->lse.size() * 4, nullptr);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
  }

 private:
  void move_arrays() {
    const ChainArraysCase& arrays = case_->arrays;
    const auto place = [&](const auto& host) { return host.empty() ? nullptr : moved(host, host.data()); };
    char* const scores = arrays.scores16.empty() ? place(arrays.scores32) : place(arrays.scores16);
    arrays.give(reinterpret_cast<const float*>(place(arrays.heads)), reinterpret_cast<const float*>(place(arrays.rows)),
                scores, &call_);
  }
  // The place on the device of what `start` is in `host`.
  template <typename Element>
  char* moved(const std::vector<Element>& host, const void* start) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&address, host.size() * sizeof(Element)));
    memory_.push_back(address);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(address, host.data(), host.size() * sizeof(Element), nullptr));
    return reinterpret_cast<char*>(address) +
           (static_cast<const char*>(start) - reinterpret_cast<const char*>(host.data()));
  }

  const Driver& driver_;
  AttentionCase* case_;
  Call call_;
  std::vector<CUdeviceptr> memory_;
};

}  // namespace gqa::test
