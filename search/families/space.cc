// space.cc: see space.h.
#include "search/families/space.h"

#include <algorithm>
#include <utility>

#include "search/families/family.h"
#include "search/families/host.h"

namespace gqa {
namespace {

template <KernelFamily F>
double family_us(const Problem& problem, const F& candidate, const DeviceSpec& device) {
  if (device.kind == DeviceKind::kHost) return host_us(problem, shape_of(candidate), device);
  return predict_us(problem, candidate, device);
}

template <KernelFamily F>
void add_family(const Problem& problem, const DeviceSpec& device, Space* space) {
  std::vector<F> found;
  enumerate(problem, device, &found);
  for (const F& candidate : found) {
    if (std::string reason = reject_reason(problem, candidate, device); !reason.empty()) {
      space->rejected.push_back({Candidate{candidate}, std::move(reason)});
    } else {
      space->ranked.push_back({Candidate{candidate}, family_us(problem, candidate, device)});
    }
  }
}

bool better(const Ranked& a, const Ranked& b) {
  return a.predicted_us != b.predicted_us ? a.predicted_us < b.predicted_us : a.candidate < b.candidate;
}

}  // namespace

Space enumerate(const Problem& problem, const DeviceSpec& device) {
  Space space;
  add_family<WgmmaFlash>(problem, device, &space);
  add_family<MmaFlash>(problem, device, &space);
  add_family<SplitKv>(problem, device, &space);
  std::sort(space.ranked.begin(), space.ranked.end(), better);
  return space;
}

std::string reject_reason(const Problem& problem, const Candidate& candidate, const DeviceSpec& device) {
  return std::visit([&](const auto& c) { return reject_reason(problem, c, device); }, candidate.of);
}

double predict_us(const Problem& problem, const Candidate& candidate, const DeviceSpec& device) {
  return std::visit([&](const auto& c) { return family_us(problem, c, device); }, candidate.of);
}

double moved_bytes(const Problem& problem, const Candidate& candidate, const DeviceSpec& device) {
  if (device.kind == DeviceKind::kHost) return 0;
  return std::visit([&](const auto& c) { return moved_bytes(problem, c, device); }, candidate.of);
}

}  // namespace gqa
