// candidates.h: the options that a miss tries, on their way.
// Owns: TrialCandidate, and Candidates: which kernels they need, each once, and what has become of those.
// Never: compiles, verifies or times; tuner.cc does.
// Threads: the tuning thread's.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/tuner/attempt.h"
#include "runtime/tuner/compile_pool.h"

namespace gqa {

struct TrialCandidate {
  Attempt attempt;
  Program program;
  double moved_bytes = 0;
  bool exact_first = false;
  std::vector<Part> parts;                // of what may pass by them
  std::vector<std::size_t> kernels;       // of the round, in the order of program.sources
  bool shares = false;                    // none of its kernels is its own
  bool judged = false, spilled = false;   // settled: verified, failed or set aside
  std::unique_ptr<LoadedProgram> loaded;  // and verified
  std::size_t round = 0;
  double run_us = 0;  // in verification; 0: not timed
};

class Candidates {
 public:
  void begin_round() { rounds_.emplace_back(); }
  void add(const Option& option, Program program, bool shares);

  // The round's: best rank first, those that share kernels last; and the kernels to make.
  std::deque<TrialCandidate>& in_round() { return rounds_.back().candidates; }
  std::vector<Source> sources() const;

  void finish(Made made);  // one of sources()
  // True once all kernels of a candidate are there and none is to be set aside: it may be verified. A failure or a
  // heavy spill judges it.
  bool settle(TrialCandidate* candidate) const;
  static void fail(TrialCandidate* candidate, const char* outcome, const Status& status);

  std::vector<Binary> binaries(const TrialCandidate& candidate) const;
  std::string keys(const TrialCandidate& candidate) const;  // of its kernels, a space between
  Status make_stored_anew(const TrialCandidate& candidate, const CompilePool& compile_pool, bool* anew);

  std::vector<TrialCandidate*> verified();
  std::vector<Attempt> attempts() const;

 private:
  struct Kernel {
    Source source;
    std::optional<Made> made;
  };
  struct Round {
    std::deque<TrialCandidate> candidates;
    std::vector<Kernel> kernels;
  };
  std::size_t kernel_of(const Source& source);
  const Round& round_of(const TrialCandidate& candidate) const { return rounds_[candidate.round]; }

  std::deque<Round> rounds_;
};

// Where each stands among those that take equally long: what moves least first, then what launches fewest kernels, then
// by rank.
std::vector<Runner> runners_of(const std::vector<TrialCandidate*>& candidates);

}  // namespace gqa
