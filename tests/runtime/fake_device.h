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
#include "runtime/program.h"
#include "search/graph/ir/graph_text.h"

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
  // The same for programs of graphs; they share the counters.
  std::function<Status(const PlannedKernel&)> compile_program = [](const PlannedKernel&) { return Status(); };
  std::function<int(const PlannedKernel&)> program_spill_bytes = [](const PlannedKernel&) { return 0; };
  std::function<Status(const KernelPlan&)> load_program = [](const KernelPlan&) { return Status(); };
  std::function<Verdict(const KernelGraph&)> verify_program = [](const KernelGraph&) {
    return Verdict{true, 1e-3, 2e-3, ""};
  };
  std::function<double(const KernelGraph&)> program_microseconds = [](const KernelGraph& program) {
    return 10.0 * static_cast<double>(program.nodes().size());
  };
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
  FakeTrial(FakeWorld* world, const Effort& effort) : world_(world), effort_(effort) { ++world_->trials; }

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
    for (int i = 0; i < samples && (i == 0 || !effort_.spent()); ++i) {
      if (Status status = effort_.check(); !status.ok()) return status;
      ++world_->samples;
      pause(world_->sample_seconds);
      microseconds->push_back(world_->microseconds(candidate) *
                              (world_->noise > 0 ? std::max(0.5, noise(random_)) : 1));
    }
    return {};
  }

  FakeWorld* world_;
  const Effort effort_;
  std::mt19937 random_{1};
};

class FakeProgram : public LoadedProgram {
 public:
  FakeProgram(FakeWorld* world, KernelGraph program) : world_(world), program_(std::move(program)) {}
  Status launch(const ProgramCall&) const override {
    world_->launches.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  const KernelGraph& program() const { return program_; }

 private:
  FakeWorld* world_;
  KernelGraph program_;
};

class FakeProgramTrial : public ProgramTrial {
 public:
  FakeProgramTrial(FakeWorld* world, const Effort& effort) : world_(world), effort_(effort) { ++world_->trials; }
  Verdict verify(const LoadedProgram& program) override {
    ++world_->verifies;
    return world_->verify_program(static_cast<const FakeProgram&>(program).program());
  }
  Status time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) override {
    const int now = ++world_->timing_at_once;
    world_->most_timing_at_once = std::max(world_->most_timing_at_once.load(), now);
    for (int i = 0; i < samples && (i == 0 || !effort_.spent()) && !effort_.cancelled(); ++i) {
      ++world_->samples;
      pause(world_->sample_seconds);
      microseconds->push_back(world_->program_microseconds(static_cast<const FakeProgram&>(program).program()));
    }
    --world_->timing_at_once;
    return effort_.check();
  }

 private:
  FakeWorld* world_;
  const Effort effort_;
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
  Status make_trial(const Problem&, const Effort& effort, std::unique_ptr<Trial>* trial) override {
    *trial = std::make_unique<FakeTrial>(world_, effort);
    return {};
  }
  std::string program_source(const PlannedKernel& kernel) const override {
    return "fake source of " + to_text(kernel.graph);
  }
  Status compile_program(const PlannedKernel& kernel, Binary* binary) const override {
    ++world_->compiles;
    pause(world_->compile_seconds);
    if (Status status = world_->compile_program(kernel); !status.ok()) return status;
    binary->source = program_source(kernel);
    binary->cubin = "fake code";
    binary->spill_bytes = world_->program_spill_bytes(kernel);
    return {};
  }
  // Every kernel must be the one that the plan wants.
  Status load_program(const KernelPlan& plan, const std::vector<Binary>& kernels,
                      std::unique_ptr<LoadedProgram>* program) override {
    ++world_->loads;
    if (kernels.size() != plan.kernels.size()) return {Code::kInternal, "as many binaries as kernels are needed"};
    for (std::size_t at = 0; at < kernels.size(); ++at) {
      if (kernels[at].source != program_source(plan.kernels[at])) return {Code::kInternal, "another kernel's binary"};
    }
    if (Status status = world_->load_program(plan); !status.ok()) return status;
    *program = std::make_unique<FakeProgram>(world_, plan.program);
    return {};
  }
  Status make_program_trial(const KernelGraph&, const Effort& effort, std::unique_ptr<ProgramTrial>* trial) override {
    *trial = std::make_unique<FakeProgramTrial>(world_, effort);
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
