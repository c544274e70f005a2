// contenders.h: which programs, under which thread plans, are worth a compiler's time.
// Owns: Contender; contenders(), which plans the ranked programs' kernels and orders what comes of it.
// Never: proves, compiles or measures.
// Threads: pure functions.
#pragma once

#include <functional>
#include <vector>

#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/tile/kernel_plan.h"

namespace gqa {

struct Contender {
  KernelPlan plan;
  double predicted_us = 0;
  bool safe = true;     // no score can overflow: FoundProgram::safe
  bool family = false;  // some kernel is a family's
  std::vector<std::string> rules;
};

// Each of the programs that are taken in turn, the best of each kind before the second of any, gives its next best
// thread plan that is not there yet.
// Programs on the families and programs of tile kernels both have their place, every fourth is one of the latter.
using TakesProgram = std::function<bool(const FoundProgram&)>;
std::vector<Contender> contenders(const std::vector<RankedProgram>& programs, const TakesProgram& takes,
                                  const DeviceSpec& device, std::size_t most);

}  // namespace gqa
