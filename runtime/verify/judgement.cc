// judgement.cc: see judgement.h.
#include "runtime/verify/judgement.h"

#include <algorithm>
#include <sstream>

namespace gqa {
namespace {

// The first of an output's faults in the order in which one explains the next; "": none.
std::string fault(const Measured& output) {
  std::ostringstream out;
  if (output.unwritten > 0) {
    out << output.unwritten << " elements were not written";
    if (!output.first_unwritten.empty()) out << ", the first at " << output.first_unwritten;
    out << ": expected each written";
  } else if (!output.stray.empty()) {
    out << output.stray;
  } else if (!output.other_kind.empty()) {
    out << output.other_kind;
  } else if (const double most = bound(output); !(output.error <= most)) {
    out << output.worst << "; the error " << output.error << " is over the bound " << most;
  }
  return out.str();
}

// How far an error goes towards its bound.
double share(double error, double bound) { return bound > 0 ? error / bound : error; }

}  // namespace

double bound(const Measured& output) { return 2 * std::max(output.naive_error, output.rounding * output.largest); }

Verdict judge(const std::vector<Measured>& outputs) {
  Verdict verdict;
  verdict.passed = true;
  double worst = -1;
  for (const Measured& output : outputs) {
    if (const std::string words = fault(output); verdict.passed && !words.empty()) {
      verdict.passed = false;
      verdict.reason = output.output + ": " + words;
    }
    if (share(output.error, bound(output)) <= worst) continue;
    worst = share(output.error, bound(output));
    verdict.error = output.error;
    verdict.bound = bound(output);
  }
  return verdict;
}

Verdict verify(std::size_t runs, const MeasureRun& measure) {
  Verdict worst;
  for (std::size_t run = 0; run < runs; ++run) {
    std::vector<Measured> outputs;
    if (Status status = measure(run, &outputs); !status.ok())
      return {false, 0, 0, status.message(), status.code() == Code::kOutOfMemory};
    const Verdict verdict = judge(outputs);
    if (!verdict.passed) return verdict;
    if (run == 0 || share(verdict.error, verdict.bound) > share(worst.error, worst.bound)) worst = verdict;
  }
  return worst;
}

}  // namespace gqa
