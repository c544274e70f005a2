// candidates.cc: kernels named by hand, or the search's first, verified and timed in turns: does a parameter pay?
// Owns: the table it prints.
// Never: touches a cache, or picks a winner; sessions do.
// Threads: all cores compile, a thread a candidate; then one verifies and times.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/tuner/statistics.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/workload.h"
#include "search/families/space.h"

namespace gqa {
namespace {

constexpr int kSamplesATurn = 3;
constexpr double kTrialSeconds = 60;  // for references

struct Arguments {
  std::string shape, device = "auto";
  std::vector<std::string> candidates;
  int first = 0, rounds = 12;
};

struct Entry {
  Candidate candidate;
  Program program;
  Binary binary;
  std::unique_ptr<LoadedProgram> loaded;  // null: see `trouble`
  Verdict verdict;
  std::vector<double> microseconds;
  std::string trouble;
};

bool usable(const Status& status, Entry* entry) {
  if (!status.ok()) entry->trouble = status.message().substr(0, status.message().find('\n'));
  return status.ok();
}

Status entries_of(const Arguments& arguments, const Problem& problem, const DeviceSpec& device,
                  std::vector<Entry>* entries) {
  for (const std::string& text : arguments.candidates) {
    if (const Status status = parse(text, &entries->emplace_back().candidate); !status.ok()) return status;
    entries->back().trouble = reject_reason(problem, entries->back().candidate, device);
  }
  const std::vector<Ranked> ranked = enumerate(problem, device).ranked;
  for (std::size_t i = 0; i < ranked.size() && i < static_cast<std::size_t>(arguments.first); ++i)
    entries->emplace_back().candidate = ranked[i].candidate;
  return {};
}

void compile(const Device& device, const Problem& problem, std::vector<Entry>* entries) {
  std::vector<std::future<void>> compilations;
  for (Entry& entry : *entries) {
    if (!entry.trouble.empty()) continue;
    entry.program = program_of(problem, entry.candidate, device.spec().kind);
    compilations.push_back(std::async(
        std::launch::async, [&] { usable(device.compile(entry.program.sources.front(), &entry.binary), &entry); }));
  }
}

void verify(Device& device, Trial* trial, Entry* entry) {
  if (!entry->trouble.empty()) return;
  if (!usable(device.load(entry->program, {entry->binary}, &entry->loaded), entry)) return;
  entry->verdict = trial->verify(*entry->loaded);
  if (entry->verdict.passed) return;
  entry->trouble = entry->verdict.reason;
  entry->loaded.reset();
}

// By turns, so that drift hits all alike; forth and back, so that each follows both its neighbours.
void time(int rounds, Trial* trial, std::vector<Entry>* entries) {
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "\rround %d of %d", round + 1, rounds);
    for (std::size_t i = 0; i < entries->size(); ++i) {
      Entry& entry = (*entries)[round % 2 == 0 ? i : entries->size() - 1 - i];
      if (entry.loaded == nullptr) continue;
      if (!usable(trial->time(*entry.loaded, kSamplesATurn, &entry.microseconds), &entry)) entry.loaded.reset();
    }
  }
  std::fprintf(stderr, "\n");
}

void print(const Device& device, const Problem& problem, const std::vector<Entry>& entries) {
  std::printf("%s on %s, %s; ratios to the first\n", to_text(problem).c_str(), device.spec().arch.c_str(),
              device.timing_method().c_str());
  std::printf("%12s %7s %7s %10s %5s %6s %9s  candidate\n", "median us", "spread", "ratio", "predicted", "regs",
              "spills", "error");
  double first = 0;
  for (const Entry& entry : entries) {
    const std::string candidate = to_text(entry.candidate);
    if (entry.loaded == nullptr) {
      std::printf("%12s %s: %s\n", "-", candidate.c_str(), entry.trouble.c_str());
      continue;
    }
    const Summary summary = summarize(entry.microseconds);
    if (first == 0) first = summary.median;
    std::printf("%12.2f %6.2f%% %7.4f %10.2f %5d %6d %9.2e  %s\n", summary.median,
                100 * summary.spread / summary.median, summary.median / first,
                predict_us(problem, entry.candidate, device.spec()), entry.binary.registers, entry.binary.spill_bytes,
                entry.verdict.error, candidate.c_str());
  }
}

Status run(const Arguments& arguments, bool* all_timed) {
  Problem problem;
  if (Status status = parse(arguments.shape, &problem); !status.ok()) return status;
  std::unique_ptr<Device> device;
  if (Status status = open_device({arguments.device, 0, ""}, &device); !status.ok()) return status;
  std::vector<Entry> entries;
  if (Status status = entries_of(arguments, problem, device->spec(), &entries); !status.ok()) return status;
  std::unique_ptr<Trial> trial;
  compile(*device, problem, &entries);
  if (Status status = compile_and_try(*device, {problem}, Effort(kTrialSeconds), &trial); !status.ok()) return status;
  for (Entry& entry : entries) verify(*device, trial.get(), &entry);
  time(arguments.rounds, trial.get(), &entries);
  print(*device, problem, entries);
  *all_timed = std::all_of(entries.begin(), entries.end(), [](const Entry& entry) { return entry.loaded != nullptr; });
  return {};
}

}  // namespace
}  // namespace gqa

int main(int argc, char** argv) {
  gqa::Arguments arguments;
  CLI::App app("Verifies and times attention kernels in turns, whether or not the search offers them.",
               "bench_candidates");
  app.add_option("shape", arguments.shape, "e.g. hq=32,sq=16384,d=64,dtype=f16,causal")->required();
  app.add_option("candidates", arguments.candidates,
                 "As gqa-cache shows them, e.g. \"warpgroup m=192 n=128 warps=12 stages=4 pack=1 dynamic=1 out=1\"");
  app.add_option("--first", arguments.first, "So many of the search's first, too; 12 if no candidate is named")
      ->check(CLI::Range(0, 1000));
  app.add_option("--rounds", arguments.rounds, "Turns that each kernel gets, of 3 samples")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--device", arguments.device, "auto, cuda, cuda:N or host")->capture_default_str();
  app.footer(
      "Exit status: 0 if all were timed, 1 if one was not, 2 if nothing could be tried.\n"
      "Example: bench_candidates hq=8,sq=1024,d=64 --first 4 --device host");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (arguments.candidates.empty() && arguments.first == 0) arguments.first = 12;
  bool all_timed = false;
  if (const gqa::Status status = gqa::run(arguments, &all_timed); !status.ok()) {
    std::fprintf(stderr, "bench_candidates: %s\n", status.message().c_str());
    return 2;
  }
  return all_timed ? 0 : 1;
}
