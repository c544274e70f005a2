// open_trial.h: a trial of a workload, with the kernels that it verifies with; and one program alone, verified.
// Owns: where those kernels come from: the cache, or compiled and kept there; a stored one that the driver refuses is
// made anew; and that nobody waits for a run that was given up. Never: times. Threads: as Device::make_trial.
#pragma once

#include <memory>

#include "runtime/device.h"
#include "runtime/tuner/compile_pool.h"

namespace gqa {

// may_compile: without, what the cache does not hold is kNotCached.
Status open_trial(Device& device, const CompilePool& compile_pool, const Reference& reference, bool may_compile,
                  const Effort& effort, std::unique_ptr<Trial>* trial);

// Verifies one program, in a trial of its own. Ok: *verdict is what came of it. Otherwise it could not be judged: the
// effort was cancelled, or the device fails; the program may be gone then, with a run of it that was given up.
Status verify_alone(Device& device, CompilePool& compile_pool, const Reference& reference, bool may_compile,
                    const Effort& effort, std::unique_ptr<LoadedProgram>* program, Verdict* verdict);

}  // namespace gqa
