// shortlist.cc: see shortlist.h.
#include "runtime/tuner/shortlist.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace gqa {
namespace {

// What shares a kernel and is predicted to be that much slower than the best option is not worth a launch.
constexpr double kWorthTrying = 2;

}  // namespace

Shortlist shortlist(const std::vector<Option>& ranked, std::size_t kernels, std::size_t attempts,
                    const std::function<bool(std::size_t)>& usable) {
  Shortlist list;
  std::unordered_set<std::string> known;
  std::vector<std::size_t> others;
  const auto is_known = [&](const std::string& kernel) { return known.contains(kernel); };
  for (std::size_t at = 0; at < ranked.size(); ++at) {
    const std::vector<std::string>& needs = ranked[at].kernels;
    if (std::all_of(needs.begin(), needs.end(), is_known) || list.own.size() == kernels) {
      others.push_back(at);
    } else if (usable(at)) {
      known.insert(needs.begin(), needs.end());
      list.own.push_back(at);
    }
  }
  for (const std::size_t at : others) {
    const std::vector<std::string>& needs = ranked[at].kernels;
    const bool shares = std::all_of(needs.begin(), needs.end(), is_known);
    const bool worth = ranked[at].predicted_us <= kWorthTrying * ranked.front().predicted_us;
    if (!shares || !worth || list.own.size() + list.sharing.size() >= attempts) {
      list.passed_over.push_back(at);
    } else if (usable(at)) {
      list.sharing.push_back(at);
    }
  }
  return list;
}

}  // namespace gqa
