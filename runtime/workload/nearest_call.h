// nearest_call.h: the attention call nearest to a problem that is served, or served faster.
// Owns: NearestCall; the changes that a caller can make without asking for another result.
// Never: compiles or runs; it asks the families and their cost model.
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>

#include "search/device_spec.h"
#include "search/problem/problem.h"

namespace gqa {

// A call that is served, or served faster, and differs in one or a few things.
struct NearestCall {
  std::string change;   // "contiguous tensors at multiples of 16 bytes"
  std::string problem;  // as gqa-cache writes it
  double predicted_us = 0;
};

// What the cost model says of a problem's first choice on the device; none: no candidate.
std::optional<NearestCall> predicted(const Problem& problem, const DeviceSpec& device, std::string change);

// For a problem that no family serves.
std::optional<NearestCall> served_call(const Problem& problem, const DeviceSpec& device);

// For one that is served in than_us: a call that is clearly faster by the model.
std::optional<NearestCall> faster_call(const Problem& problem, const DeviceSpec& device, double than_us);

}  // namespace gqa
