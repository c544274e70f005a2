// progress.h: how far `warm` is, as one line that is redrawn.
// Owns: the line (a bar, shapes done, candidates compiled, verified and timed, best so far, time left) and its
// redrawing.
// Never: writes anything where the stream is not a terminal.
// Threads: one.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "runtime/tuner/tuner.h"
#include "tools/cache/terminal.h"

namespace gqa::tools {

// Where `warm` is: shapes done of all, and the tuner's last word on the present one.
struct WarmProgress {
  int done = 0, total = 0;
  double seconds_a_shape = 0;  // of those done, or the budget
  Progress shape;
};

// "[######--------------] 3/17 shapes  compiled 5 verified 4 timed 3 of 12  best 12.3 us  40.0 s left", at most so many
// columns: what stands last goes first.
std::string progress_line(const WarmProgress& progress, int columns);

class ProgressLine {
 public:
  ProgressLine(std::FILE* stream, int total, double budget_seconds);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const Progress& shape);  // redraws at every new phase, else at most some times a second
  void next_shape();                   // one more is done
  void clear();                        // before anything else is written

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  std::FILE* stream_;
  Terminal terminal_;
  WarmProgress progress_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_;
};

}  // namespace gqa::tools
