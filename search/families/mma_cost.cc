// mma_cost.cc: see mma_cost.h.
#include "search/families/mma_cost.h"

#include <algorithm>
#include <cmath>

namespace gqa {
namespace {

constexpr double kClocksAScore = 0.10;      // exp, scale, maximum and sum, over an SM's lanes
constexpr double kClocksAnOutput = 0.018;   // rescaling, a row and dimension
constexpr double kSplitProducts = 6;        // of float32: three of tf32, each at half the rate of 16 bits
constexpr double kMemoryLatency = 0.46e-6;  // s
constexpr int kSchedulers = 4;

int resident_blocks(const MmaModel& m) {
  const int registers_a_thread = (m.kernel.registers + 7) / 8 * 8;
  const std::int64_t by_shared = m.device.smem_per_sm / (m.launch.shared_memory + kReservedSmemPerCta);
  const std::int64_t by_registers = m.device.registers_per_sm / (registers_a_thread * m.launch.threads);
  const std::int64_t by_threads = m.device.threads_per_sm / m.launch.threads;
  return static_cast<int>(std::clamp<std::int64_t>(std::min({by_shared, by_registers, by_threads}), 1, 32));
}

// One step of one block on each of the SM's units.
void fill_step_clocks(MmaModel* m) {
  const double rows = double{1} * m->shape.rows * m->kernel.walks, keys = m->shape.keys;
  const int bytes = element_bytes(m->problem.kv_type);
  const double kv_tile = bytes * keys * m->width() * m->kernel.walks;
  const double products = m->problem.kv_type == ElementType::kF32 ? kSplitProducts : 1;
  const double matrix = products * 2 * rows * keys * m->width() / (m->device.tensor_flops / m->sms() / kMmaClock);
  const double shared = (kv_tile * m->kernel.shared_reads + bytes * rows * m->problem.head_dim) / kSharedBytesAClock;
  const double softmax = rows * (keys * kClocksAScore + m->problem.head_dim_v * kClocksAnOutput);
  m->busy_clocks = std::max({matrix, shared, softmax});
  m->other_clocks = matrix + shared + softmax - m->busy_clocks;
}

// Bytes/s that `blocks` running blocks read from memory, each with its buffers in flight.
double memory_rate(const MmaModel& m, double blocks) {
  const double buffers = m.kernel.stages == 1 ? 0.5 : m.kernel.stages - 1;
  const double in_flight = buffers * m.step_bytes() * m.kernel.walks;
  const double busy = std::min(blocks, m.sms());
  const double one = std::min(kMostBytesAnSm, blocks / busy * in_flight / kMemoryLatency);
  return std::min(m.device.memory_bandwidth, busy * one);
}

}  // namespace

double MmaModel::waves() const { return std::ceil(blocks() / (sms() * resident)); }

MmaModel mma_model(const Problem& problem, const CandidateShape& shape, const LaunchPlan& launch,
                   const MmaKernel& kernel, const DeviceSpec& device) {
  MmaModel model{problem, shape, launch, kernel, device, steps_of(problem, shape, shape.keys)};
  model.resident = resident_blocks(model);
  fill_step_clocks(&model);
  return model;
}

double step_seconds(const MmaModel& m, int together) {
  const auto clocks = [&](int blocks) {
    const double warps = std::max(0.25, double{1} * blocks * m.kernel.warps / kSchedulers);  // a scheduler
    const double exposed = m.other_clocks * std::min(1.0, 0.55 / warps);
    // Fewer warps than schedulers leave units idle: a warp uses one scheduler's share of them.
    const double idle = std::max(1.0, 1 / warps);
    return blocks * (m.busy_clocks + exposed) * idle;
  };
  return std::max(clocks(together), clocks(1) + m.kernel.wait) / kMmaClock;
}

double seconds_of_waves(const MmaModel& m) {
  const double count = std::ceil(m.blocks() / m.sms());
  const double full = std::floor(count / m.resident);
  const int rest = static_cast<int>(count - full * m.resident);
  return full * step_seconds(m, m.resident) + (rest > 0 ? step_seconds(m, rest) : 0);
}

double memory_seconds(const MmaModel& m, double total_bytes) {
  const double slots = m.sms() * m.resident, each = total_bytes / m.blocks();
  const double full = std::floor(m.blocks() / slots), rest = m.blocks() - full * slots;
  double seconds = full * slots * each / memory_rate(m, slots);
  if (rest > 0) seconds += rest * each / memory_rate(m, rest);
  return seconds;
}

}  // namespace gqa
