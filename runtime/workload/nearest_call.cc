// nearest_call.cc: see nearest_call.h.
#include "runtime/workload/nearest_call.h"

#include <limits>
#include <utility>

#include "search/families/space.h"
#include "search/problem/signature.h"

namespace gqa {
namespace {

constexpr double kClearlyFaster = 0.9;  // of the estimate: the model's own error is about as much

// The one change of a kind that a caller can make to a problem without asking for another result.
struct Change {
  const char* what;
  bool (*applies)(const Problem&);
  void (*apply)(Problem*);
};

constexpr Change kChanges[] = {
    {"tensors whose addresses and strides are multiples of 16 bytes, as contiguous ones are",
     [](const Problem& p) { return p.align < 16 || !p.tma; },
     [](Problem* p) {
       p->align = 16;
       p->tma = true;
     }},
    {"keys whose head dimension is contiguous", [](const Problem& p) { return p.keys == KeyLayout::kTransposed; },
     [](Problem* p) { p->keys = KeyLayout::kDense; }},
    {"pages of 16 keys", [](const Problem& p) { return p.paged() && p.page < 16 && p.kv_len >= 16; },
     [](Problem* p) { p->page = 16; }},
    {"a bias of q's dtype", [](const Problem& p) { return p.chain.reads(ChainOperand::kTensor32); },
     [](Problem* p) {
       for (int at = 0; at < p->chain.count; ++at) {
         ChainOperand& operand = p->chain.steps[static_cast<std::size_t>(at)].operand;
         if (operand == ChainOperand::kTensor32) operand = ChainOperand::kTensor;
       }
     }},
    {"a log-sum-exp that is not asked for", [](const Problem& p) { return p.lse; }, [](Problem* p) { p->lse = false; }},
};

// The fastest by the model of those that take less than so long.
std::optional<NearestCall> fastest(const Problem& problem, const DeviceSpec& device, double most_us) {
  std::optional<NearestCall> best;
  for (const Change& change : kChanges) {
    if (!change.applies(problem)) continue;
    Problem changed = problem;
    change.apply(&changed);
    if (!check(changed).ok()) continue;
    std::optional<NearestCall> made = predicted(changed, device, change.what);
    if (made && made->predicted_us < (best ? best->predicted_us : most_us)) best = std::move(made);
  }
  return best;
}

}  // namespace

std::optional<NearestCall> predicted(const Problem& problem, const DeviceSpec& device, std::string change) {
  const Space space = enumerate(Signature(problem).problem(), device);
  if (space.ranked.empty()) return std::nullopt;
  return NearestCall{std::move(change), to_text(problem), space.ranked.front().predicted_us};
}

std::optional<NearestCall> served_call(const Problem& problem, const DeviceSpec& device) {
  return fastest(problem, device, std::numeric_limits<double>::infinity());
}

std::optional<NearestCall> faster_call(const Problem& problem, const DeviceSpec& device, double than_us) {
  return fastest(problem, device, kClearlyFaster * than_us);
}

}  // namespace gqa
