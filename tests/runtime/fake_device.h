// fake_device.h: a device whose every answer a test decides.
// Owns: FakeDevice (compile, load, verify, time as told, every call counted), and a candidate's made-up speed.
// Never: computes attention. Launches count, and write nothing.
// Threads: as Device asks: compile and launch from many threads; counters are atomic.
#pragma once

#include <dlpack/dlpack.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "runtime/device.h"

namespace gqa::test {

// What a fake device is told, and what it counts. Shared with the test, which keeps it after handing the device over.
struct FakeWorld {
  DeviceSpec spec = *DeviceSpec::for_arch("sm_80");
  std::string compiler = "fake compiler 1";
  std::string timing_method = "fake timing 1";
  std::function<Status(const Candidate&)> compile = [](const Candidate&) { return Status(); };
  std::function<int(const Candidate&)> spill_bytes = [](const Candidate&) { return 0; };
  std::function<Status(const Candidate&, const Binary&)> load = [](const Candidate&, const Binary&) {
    return Status();
  };
  std::function<Verdict(const Candidate&)> verify = [](const Candidate&) { return Verdict{true, 1e-3, 2e-3, ""}; };
  std::function<double(const Candidate&)> microseconds = [](const Candidate& c) { return 10.0 + c.tile_m; };
  std::function<Status(const Candidate&)> launchable = [](const Candidate&) { return Status(); };
  double noise = 0;            // relative standard deviation of a timing
  double compile_seconds = 0;  // really slept
  double sample_seconds = 0;   // really slept, a sample
  std::function<bool(void*)> capturing = [](void*) { return false; };

  std::atomic<int> compiles = 0, loads = 0, trials = 0, verifies = 0, samples = 0, launches = 0;
  std::atomic<int> timing_at_once = 0, most_timing_at_once = 0;
};

class FakeKernel : public Kernel {
 public:
  FakeKernel(FakeWorld* world, const Candidate& candidate) : world_(world), candidate_(candidate) {}
  Status launch(const Call&) const override {
    world_->launches.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  const Candidate& candidate() const { return candidate_; }

 private:
  FakeWorld* world_;
  Candidate candidate_;
};

inline void pause(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class FakeTrial : public Trial {
 public:
  explicit FakeTrial(FakeWorld* world) : world_(world) { ++world_->trials; }

  Verdict verify(const Kernel& kernel) override {
    ++world_->verifies;
    return world_->verify(static_cast<const FakeKernel&>(kernel).candidate());
  }

  Status time(const Kernel& kernel, int samples, std::vector<double>* microseconds) override {
    const int now = ++world_->timing_at_once;
    world_->most_timing_at_once = std::max(world_->most_timing_at_once.load(), now);
    const Status status = sample(static_cast<const FakeKernel&>(kernel).candidate(), samples, microseconds);
    --world_->timing_at_once;
    return status;
  }

  double clock_mhz() override { return 1500; }

 private:
  Status sample(const Candidate& candidate, int samples, std::vector<double>* microseconds) {
    if (Status status = world_->launchable(candidate); !status.ok()) return status;
    std::normal_distribution<double> noise(1, world_->noise);
    for (int i = 0; i < samples; ++i) {
      ++world_->samples;
      pause(world_->sample_seconds);
      microseconds->push_back(world_->microseconds(candidate) *
                              (world_->noise > 0 ? std::max(0.5, noise(random_)) : 1));
    }
    return {};
  }

  FakeWorld* world_;
  std::mt19937 random_{1};
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(FakeWorld* world) : world_(world) {}

  const DeviceSpec& spec() const override { return world_->spec; }
  std::string compiler() const override { return world_->compiler; }
  std::string timing_method() const override { return world_->timing_method; }
  std::string source(const Problem&, const Candidate& candidate) const override {
    return "fake source of " + kernel_text(candidate);
  }
  Status compile(const Problem& problem, const Candidate& candidate, Binary* binary) const override {
    ++world_->compiles;
    pause(world_->compile_seconds);
    if (Status status = world_->compile(candidate); !status.ok()) return status;
    binary->source = source(problem, candidate);
    binary->cubin = "fake code";
    binary->spill_bytes = world_->spill_bytes(candidate);
    return {};
  }
  Status load(const Problem&, const Candidate& candidate, const Binary& binary,
              std::unique_ptr<Kernel>* kernel) override {
    ++world_->loads;
    if (Status status = world_->load(candidate, binary); !status.ok()) return status;
    *kernel = std::make_unique<FakeKernel>(world_, candidate);
    return {};
  }
  Status make_trial(const Problem&, std::unique_ptr<Trial>* trial) override {
    *trial = std::make_unique<FakeTrial>(world_);
    return {};
  }
  bool owns(int type, int id) const override { return type == kDLCUDA && id == 0; }
  bool capturing(void* stream) const override { return world_->capturing(stream); }

 private:
  FakeWorld* world_;
};

// A decode and a prefill small enough to think about.
inline Problem small_problem(const char* text = "b=1,hq=8,hk=2,sq=256,sk=256,d=64,causal") {
  Problem problem;
  static_cast<void>(parse(text, &problem));
  return problem;
}

inline Call call_of(const Problem& problem) {
  Call call;
  call.problem = problem;
  call.scale = 1;
  return call;
}

}  // namespace gqa::test
