// schedule.h: all the kernels that a section could be.
// Owns: the product of placements and tile sizes, each lowered, judged by the device's limits and the cost model; of
// each structure the best few are kept.
// Never: looks at more than one section.
// Threads: pure but for the space and the report.
#pragma once

#include "search/graph/enumerate/enumerate.h"
#include "search/graph/enumerate/section.h"

namespace gqa {

// Best first, of those looked at until told to stop. inputs: abstract expressions of the section's inputs.
std::vector<Choice> schedules_of(const Section& section, const std::vector<AbstractSpace::Id>& inputs,
                                 const SearchConfig& config, const DeviceSpec& device, AbstractSpace* abstract,
                                 SearchReport* report, const Stop& stop);

}  // namespace gqa
