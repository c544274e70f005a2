// open_trial.h: a trial of a workload, with the kernels that it verifies with.
// Owns: where those come from: the cache, or compiled and kept there; a stored one that the driver refuses is made
// anew. Never: verifies. Threads: as Device::make_trial.
#pragma once

#include <memory>

#include "runtime/device.h"
#include "runtime/tuner/compile_pool.h"

namespace gqa {

// may_compile: without, what the cache does not hold is kNotCached.
Status open_trial(Device& device, const CompilePool& compile_pool, const Reference& reference, bool may_compile,
                  const Effort& effort, std::unique_ptr<Trial>* trial);

}  // namespace gqa
