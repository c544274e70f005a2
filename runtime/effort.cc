// effort.cc: see effort.h.
#include "runtime/effort.h"

#include <algorithm>

namespace gqa {

Effort Effort::restarted() const {
  Effort fresh = *this;
  fresh.start_ = Clock::now();
  return fresh;
}

double Effort::left() const { return std::max(0.0, budget_ - seconds()); }

Status Effort::check() const {
  if (!cancelled()) return {};
  return {Code::kCancelled,
          "the call was cancelled by gqa_cancel before its kernel was ready: call again to tune anew"};
}

std::function<bool()> Effort::stop() const {
  return [self = *this] { return self.cancelled(); };
}

}  // namespace gqa
