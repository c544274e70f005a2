// fake_device.h: a device whose every answer a test decides.
// Owns: FakeDevice (compile, load, verify, time as told, every call counted), and a candidate's made-up speed.
// Never: computes attention. Launches count, and write nothing.
// Threads: as Device asks: compile and launch from many threads; counters are atomic.
#pragma once

#include <dlpack/dlpack.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>

#include "runtime/device.h"
#include "runtime/program.h"
#include "runtime/workload/workload.h"
#include "search/families/resources.h"
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
  std::function<double(const Candidate&)> microseconds = [](const Candidate& c) { return 10.0 + shape_of(c).rows; };
  std::function<std::int64_t(const Problem&)> workspace_bytes = [](const Problem&) { return 0; };
  std::function<Status(const Candidate&)> launchable = [](const Candidate&) { return Status(); };
  // The same for programs of graphs, whose kernels may be a candidate's; they share the counters.
  std::function<Status(const Source&)> compile_program = [](const Source&) { return Status(); };
  std::function<int(const Source&)> program_spill_bytes = [](const Source&) { return 0; };
  std::function<Status(const Program&)> load_program = [](const Program&) { return Status(); };
  std::function<Verdict(const KernelGraph&)> verify_program = [](const KernelGraph&) {
    return Verdict{true, 1e-3, 2e-3, ""};
  };
  std::function<double(const KernelGraph&)> program_microseconds = [](const KernelGraph& program) {
    return 10.0 * static_cast<double>(program.nodes().size());
  };
  Source checker;  // none
  std::function<Status(const Binary&)> load_checker = [](const Binary&) { return Status(); };
  std::function<Verdict(Operation)> verify_operation = [](Operation) { return Verdict{true, 1e-3, 2e-3, ""}; };
  std::function<void(const Candidate&)> launched;  // may be empty
  std::atomic<int> appended = 0;
  bool programs_append = false;                           // in their own launch
  double noise = 0;                                       // relative standard deviation of a timing
  std::atomic<double> compile_seconds = 0;                // really slept
  double sample_seconds = 0;                              // really slept, a sample
  std::function<double()> slowdown = [] { return 1.0; };  // of each sample, by load
  std::function<double()> others = [] { return 0.0; };    // share of the device that they have
  std::function<double(double)> race_seconds = [](double) { return std::numeric_limits<double>::infinity(); };
  std::atomic<bool> unfinished = false;  // a run that was given up goes on
  double close_seconds = 0;              // and who destroys the trial waits so long for it
  Status broken;                         // what a device that no longer works says
  std::function<bool(void*)> capturing = [](void*) { return false; };

  std::atomic<int> compiles = 0, loads = 0, trials = 0, verifies = 0, samples = 0, launches = 0, hopeless = 0;
  std::atomic<int> timing_at_once = 0, most_timing_at_once = 0;
};

inline void pause(double seconds) {
  if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// What a program computes: a candidate, where its calls bring their tensors, an operation, or a graph.
struct FakeProgram : LoadedProgram {
  explicit FakeProgram(FakeWorld* given, const Program& program) : world(given) {
    const Step& first = program.steps.front();
    attention = first.attention() != nullptr && !first.attention()->fixed;
    if (first.operation() != nullptr) operation = *first.operation();
    if (attention) candidate = first.attention()->candidate;
    if (!attention && !operation) static_cast<void>(parse(program.text, &graph));
  }
  Status run(const ProgramCall& call) const override {
    if (operation == Operation::kAppend) {
      world->appended.fetch_add(1, std::memory_order_relaxed);
      return call.then->run(*call.attention);
    }
    world->launches.fetch_add(1, std::memory_order_relaxed);
    if (world->launched) world->launched(candidate);
    return {};
  }
  using LoadedProgram::run;
  bool appends(const Call&) const override { return world->programs_append; }
  std::int64_t workspace_bytes(const Call& call) const override {
    return operation ? 0 : world->workspace_bytes(call.problem);
  }

  FakeWorld* world;
  bool attention = false;
  std::optional<Operation> operation;
  Candidate candidate;
  KernelGraph graph;
};

class FakeTrial : public Trial {
 public:
  FakeTrial(FakeWorld* world, const Effort& effort) : world_(world), effort_(effort) { ++world_->trials; }

  Verdict verify(const LoadedProgram& loaded) override {
    ++world_->verifies;
    const auto& program = static_cast<const FakeProgram&>(loaded);
    Verdict verdict = program.operation   ? world_->verify_operation(*program.operation)
                      : program.attention ? world_->verify(program.candidate)
                                          : world_->verify_program(program.graph);
    verdict.hopeless = verdict.run_us > hopeless_us;
    world_->hopeless += verdict.hopeless ? 1 : 0;
    return verdict;
  }

  Status time(const LoadedProgram& loaded, int samples, std::vector<double>* microseconds) override {
    const int now = ++world_->timing_at_once;
    world_->most_timing_at_once = std::max(world_->most_timing_at_once.load(), now);
    const Status status = sample(static_cast<const FakeProgram&>(loaded), samples, microseconds);
    --world_->timing_at_once;
    return status;
  }

  double clock_mhz() override { return 1500; }
  double taken_by_others() override { return world_->others(); }
  ~FakeTrial() override { pause(world_->unfinished ? world_->close_seconds : 0); }
  bool unfinished() override { return world_->unfinished; }
  Status health() override { return world_->broken; }

 private:
  Status sample(const FakeProgram& program, int samples, std::vector<double>* microseconds) {
    if (Status status = world_->launchable(program.candidate); !status.ok()) return status;
    std::normal_distribution<double> noise(1, world_->noise);
    const double exact =
        program.attention ? world_->microseconds(program.candidate) : world_->program_microseconds(program.graph);
    for (int i = 0; i < samples && (i == 0 || !effort_.spent()); ++i) {
      if (Status status = effort_.check(); !status.ok()) return status;
      ++world_->samples;
      pause(world_->sample_seconds);
      microseconds->push_back(exact * world_->slowdown() * (world_->noise > 0 ? std::max(0.5, noise(random_)) : 1));
    }
    return {};
  }

  FakeWorld* world_;
  const Effort effort_;
  std::mt19937 random_{1};
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(FakeWorld* world) : Device({{kDLCUDA}, 0}), world_(world) {}

  const DeviceSpec& spec() const override { return world_->spec; }
  std::string compiler() const override { return world_->compiler; }
  std::string timing_method() const override { return world_->timing_method; }
  double race_seconds(double best_us) const override { return world_->race_seconds(best_us); }
  Status compile(const Source& source, Binary* binary) const override {
    ++world_->compiles;
    pause(world_->compile_seconds);
    Candidate candidate;  // a graph's kernels have none, or one among others
    const bool attention = parse(source.candidate, &candidate).ok();
    if (attention)
      if (Status status = world_->compile(candidate); !status.ok()) return status;
    if (Status status = world_->compile_program(source); !status.ok()) return status;
    binary->source = source.text;
    binary->cubin = "fake code";
    binary->spill_bytes = world_->program_spill_bytes(source) + (attention ? world_->spill_bytes(candidate) : 0);
    return {};
  }
  // Every kernel must be the one that the program wants.
  Status load(const Program& program, const std::vector<Binary>& binaries,
              std::unique_ptr<LoadedProgram>* loaded) override {
    ++world_->loads;
    if (binaries.size() != program.sources.size()) return {Code::kInternal, "as many binaries as kernels are needed"};
    for (std::size_t at = 0; at < binaries.size(); ++at) {
      if (binaries[at].source != program.sources[at].text) return {Code::kInternal, "another kernel's binary"};
    }
    auto made = std::make_unique<FakeProgram>(world_, program);
    Status status = made->attention ? world_->load(made->candidate, binaries[0]) : world_->load_program(program);
    if (status.ok()) *loaded = std::move(made);
    return status;
  }
  Source checker() const override { return world_->checker; }
  Status make_trial(const Reference&, const Binary& checker, const Effort& effort,
                    std::unique_ptr<Trial>* trial) override {
    if (Status status = world_->load_checker(checker); !status.ok()) return status;
    *trial = std::make_unique<FakeTrial>(world_, effort);
    return {};
  }
  Status capturing(std::optional<void*> stream, bool* captured) const override {
    *captured = stream && world_->capturing(*stream);
    return world_->broken;
  }

 private:
  FakeWorld* world_;
};

// A decode and a prefill small enough to think about.
inline Problem small_problem(const char* text = "b=1,hq=8,hk=2,sq=256,sk=256,d=64,causal") {
  Problem problem;
  static_cast<void>(parse(text, &problem));
  return problem;
}

// A call of tensors that nobody reads; without an out it would attend to nothing.
inline Call call_of(const Problem& problem) {
  static std::uint16_t nobodys;
  Call call;
  call.problem = problem;
  call.place(Role::kOut, &nobodys);
  call.scale = 1;
  return call;
}

}  // namespace gqa::test
