// host_program_trial.cc: see host_program_trial.h.
#include "runtime/host/program/host_program_trial.h"

#include <algorithm>
#include <chrono>

#include "runtime/host/rotation.h"
#include "runtime/parallel.h"

namespace gqa {
namespace {

constexpr std::uint64_t kSeed = 1;

}  // namespace

Status HostProgramTrial::make(const KernelGraph& graph, const DeviceSpec& spec, const Effort& effort,
                              std::unique_ptr<Trial>* trial) {
  std::unique_ptr<HostProgramTrial> made(new HostProgramTrial(graph, spec.sms, effort));
  if (Status status = make_reference(graph, kSeed, effort, spec.sms, &made->reference_); !status.ok()) return status;
  made->rotate_inputs(rotated_sets(graph, std::min(spec.l2_bytes, rotated_bytes(effort) / 2)));
  made->allocate_outputs();
  *trial = std::move(made);
  return {};
}

void HostProgramTrial::rotate_inputs(int sets) {
  for (int set = 1; set < sets && !effort_.cancelled(); ++set) rotated_.push_back(reference_.inputs);
}

void HostProgramTrial::allocate_outputs() {
  for (const int output : graph_.outputs()) {
    guarded_.emplace_back(static_cast<std::size_t>(guarded_bytes(graph_.spec(output))), std::byte{kPoison});
    outputs_.push_back(guarded_.back().data() + kGuardBytes);
  }
}

ProgramCall HostProgramTrial::call(std::size_t set) {
  inputs_.clear();
  for (const TensorBytes& bytes : set == 0 ? reference_.inputs : rotated_[set - 1]) inputs_.push_back(bytes.data());
  return {inputs_.data(), outputs_.data(), nullptr, nullptr};
}

// Fails where it was given up on the way.
Status HostProgramTrial::launch(const LoadedProgram& program, const ProgramCall& with, double* microseconds) const {
  const GivesUp gives_up(effort_);
  const auto begin = std::chrono::steady_clock::now();
  Status status = program.run(with);
  *microseconds = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  return status.ok() ? effort_.check() : status;
}

Verdict HostProgramTrial::verify(const LoadedProgram& program) {
  double first_us = 0;
  const RunTrial run_trial = [&](std::size_t trial, std::vector<OutputBytes>* outputs) -> Status {
    for (TensorBytes& bytes : guarded_) {
      std::fill(bytes.begin(), bytes.end(), std::byte{kPoison});
      outputs->push_back({bytes.data()});
    }
    const ProgramCall run = call(0);
    if (trial > 0)
      for (const auto& [input, bytes] : reference_.trials[trial - 1].inputs) inputs_[input] = bytes.data();
    double us = 0;
    Status status = launch(program, run, &us);
    if (trial == 0) first_us = us;
    return status;
  };
  Verdict verdict = gqa::verify(graph_, reference_, run_trial);
  verdict.run_us = first_us;
  return verdict;
}

Status HostProgramTrial::time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) {
  for (int i = 0; i < samples && (i == 0 || !effort_.spent()); ++i) {
    const ProgramCall run = call(next_set_++ % (rotated_.size() + 1));
    double us = 0;
    if (Status status = launch(program, run, &us); !status.ok()) return status;
    microseconds->push_back(us);
  }
  return {};
}

}  // namespace gqa
