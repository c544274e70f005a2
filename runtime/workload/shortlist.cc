// shortlist.cc: see shortlist.h.
#include "runtime/workload/shortlist.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace gqa {
namespace {

// A variant predicted to be that much slower than the best candidate is not worth a launch.
constexpr double kWorthTrying = 2;

}  // namespace

Shortlist shortlist(const std::vector<Ranked>& ranked, int kernels, int attempts) {
  Shortlist list;
  std::unordered_map<std::string, std::size_t> index;
  std::vector<const Ranked*> riders;
  for (const Ranked& candidate : ranked) {
    const std::string text = kernel_text(candidate.candidate);
    if (index.contains(text)) {
      riders.push_back(&candidate);
    } else if (static_cast<int>(list.kernels.size()) < kernels) {
      index.emplace(text, list.kernels.size());
      list.kernels.push_back({{candidate}});
    } else {
      list.passed_over.push_back(candidate);
    }
  }
  int left = attempts - static_cast<int>(list.kernels.size());
  for (const Ranked* rider : riders) {
    const bool worth = rider->predicted_us <= kWorthTrying * ranked.front().predicted_us;
    if (worth && left-- > 0) {
      list.kernels[index[kernel_text(rider->candidate)]].candidates.push_back(*rider);
    } else {
      list.passed_over.push_back(*rider);
    }
  }
  return list;
}

}  // namespace gqa
