// host_limits.cc: see host_limits.h.
#include "runtime/host/host_limits.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int64_t kLeastL2 = 64 << 10, kMostL2 = 1 << 30;

struct FromEnvironment {
  HostLimits limits;
  Status status;
};

const FromEnvironment& environment() {
  static const FromEnvironment once = [] {
    FromEnvironment made;
    made.status = parse_host_limits(std::getenv("GQA_HOST_MAX_ISA"), std::getenv("GQA_HOST_L2"), &made.limits);
    return made;
  }();
  return once;
}

Status unknown_isa(std::string_view given) {
  std::string known;
  for (const std::string_view isa : kHostIsas) known += (known.empty() ? "" : ", ") + std::string(isa);
  return text_error("GQA_HOST_MAX_ISA is " + quote(given) + ": expected one of " + known);
}

}  // namespace

bool HostLimits::allow(std::string_view isa) const {
  const auto at = [](std::string_view name) { return std::find(std::begin(kHostIsas), std::end(kHostIsas), name); };
  return at(isa) <= at(max_isa);
}

Status parse_host_limits(const char* max_isa, const char* l2, HostLimits* limits) {
  HostLimits made;
  if (max_isa != nullptr) {
    const auto known = std::find(std::begin(kHostIsas), std::end(kHostIsas), max_isa);
    if (known == std::end(kHostIsas)) return unknown_isa(max_isa);
    made.max_isa = *known;
  }
  if (l2 != nullptr) {
    if (Status status = parse_number("GQA_HOST_L2", l2, kLeastL2, kMostL2, &made.l2_bytes); !status.ok()) return status;
  }
  *limits = made;
  return {};
}

const HostLimits& host_limits() { return environment().limits; }
Status host_limits_status() { return environment().status; }

}  // namespace gqa
