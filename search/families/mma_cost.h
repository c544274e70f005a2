// mma_cost.h: how long the steps of mma.sync kernels take, mma_flash's and split_kv's: a model that orders candidates,
// not a clock. Its constants were fitted to timed candidates on an H200 (docs/performance.md).
// Owns: a step on the units of an SM, how many blocks hide each other's waits, what memory allows.
// Never: knows how a family shares the keys or merges.
// Threads: pure functions.
#pragma once

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/families/walk_cost.h"
#include "search/problem/problem.h"

namespace gqa {

inline constexpr double kMmaClock = 1.8e9;         // Hz
inline constexpr double kSharedBytesAClock = 128;  // of an SM's shared memory
inline constexpr double kL2BytesAnSm = 45e9;       // bytes/s an SM gets from L2 with all of them reading
inline constexpr double kMostBytesAnSm = 45e9;     // bytes/s it can take alone
inline constexpr double kMmaLaunch = 2.2e-6;       // s
inline constexpr double kMmaProlog = 3.4e-6;       // s: queries and the first keys arrive, the last rows leave

// What the model is told of a family's kernel.
struct MmaKernel {
  int warps, stages;
  int walks;            // of keys, side by side: 1 where all warps share them
  double shared_reads;  // of a key or value that was loaded, with its writing
  double wait;          // clocks of a step that a block alone cannot hide
  int registers;        // a thread
};

struct MmaModel {
  const Problem& problem;
  const CandidateShape shape;
  const LaunchPlan launch;
  const MmaKernel kernel;
  const DeviceSpec& device;
  KeySteps steps;
  int resident = 1;         // blocks an SM holds
  double busy_clocks = 0;   // a step of one block, limited by the busiest unit
  double other_clocks = 0;  // what the other units need, hidden if there are warps to hide it

  double width() const { return key_value_width(problem); }
  double step_bytes() const { return gqa::step_bytes(problem, shape.keys); }
  double blocks() const { return static_cast<double>(launch.blocks); }
  double sms() const { return device.sms; }
  // How often a full SM's worth of blocks begins.
  double waves() const;
};

MmaModel mma_model(const Problem& problem, const CandidateShape& shape, const LaunchPlan& launch,
                   const MmaKernel& kernel, const DeviceSpec& device);

// Seconds for a step of each of `together` blocks that share an SM.
double step_seconds(const MmaModel& model, int together);

// Seconds for a step of all blocks, equal ones, which run in waves.
double seconds_of_waves(const MmaModel& model);

double memory_seconds(const MmaModel& model, double total_bytes);

}  // namespace gqa
