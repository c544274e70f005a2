// run_delay.cc: see run_delay.h.
#include "runtime/host/run_delay.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace gqa {
namespace {

// "ran waited slices", nanoseconds; a thread that ended meanwhile has no file.
double waited_seconds() {
  namespace fs = std::filesystem;
  double nanoseconds = 0;
  std::error_code failed;
  for (fs::directory_iterator at("/proc/self/task", failed), end; !failed && at != end; at.increment(failed)) {
    double ran = 0, waited = 0;
    if (std::ifstream(at->path() / "schedstat") >> ran >> waited) nanoseconds += waited;
  }
  return nanoseconds / 1e9;
}

}  // namespace

double RunDelay::share(int threads) {
  const auto now = std::chrono::steady_clock::now();
  const double waited = waited_seconds();
  const double passed = std::chrono::duration<double>(now - asked_).count() * threads;
  const double share = passed > 0 ? std::clamp((waited - waited_) / passed, 0.0, 1.0) : 0;
  waited_ = waited;
  asked_ = now;
  return share;
}

}  // namespace gqa
