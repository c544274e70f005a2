// mma_tile.cc: see mma_tile.h.
#include "search/families/mma_tile.h"

#include <algorithm>

#include "search/families/limits.h"
#include "search/rounding.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr int kMostRegisters = 255;

// jit/device/attention/common/keys.cuh, KeyTile::kBytes: a padded row a key, or where keys are transposed a row an
// element of head_dim.
std::int64_t key_tile(const Problem& p, int keys) {
  return p.keys_transposed() ? static_cast<std::int64_t>(p.head_dim) * row_pitch(p.kv_type, keys)
                             : static_cast<std::int64_t>(keys) * row_pitch(p.kv_type, p.head_dim);
}

}  // namespace

std::int64_t mma_stage_bytes(const Problem& p, int keys) {
  return key_tile(p, keys) + static_cast<std::int64_t>(keys) * row_pitch(p.kv_type, p.head_dim_v);
}

int mma_registers(const Problem& p, int warp_rows, int keys) {
  const int fragments = warp_rows / 16;
  const int out = fragments * p.head_dim_v / 2;  // float32 accumulators, 16 x head_dim_v over 32 lanes
  const int scores = fragments * keys / 2;
  // Terms of both operands, and sums that have not left the tensor core.
  const int operands = p.kv_type == ElementType::kF32 ? 28 * fragments + 8 : 4 * fragments + 4;
  return out + scores + operands + 4 * fragments + 36;  // and running state, addresses, loop counters
}

std::int32_t terms_of(const Problem& p, const DeviceSpec& device) {
  return p.q_type == ElementType::kF32 && device.kind == DeviceKind::kCuda ? kTf32Terms : 0;
}

std::string wrong_terms(const Problem& p, std::int32_t terms) {
  if (terms < 0 || terms > kTf32Terms) return "terms=" + grouped(terms) + ": expected 0 to " + grouped(kTf32Terms);
  if (p.q_type == ElementType::kF32)
    return terms == 0 ? "terms=0 for float32: tensor cores multiply terms of it, expected " + grouped(kTf32Terms) : "";
  return terms == 0 ? ""
                    : "terms=" + grouped(terms) + " for " + std::string(name(p.q_type)) + ": only float32 has terms";
}

std::string terms_words(std::int32_t terms) { return terms == 0 ? "" : " tf32x" + std::to_string(terms); }

std::string over_mma_limits(const LaunchPlan& launch, int registers, const DeviceSpec& device) {
  if (std::string reason = over_shared_memory(launch, device); !reason.empty()) return reason;
  if (registers > kMostRegisters)
    return "needs about " + grouped(registers) + " registers a thread, a thread has " + grouped(kMostRegisters);
  const std::int64_t block_registers = round_up(registers, 8) * launch.threads;
  if (block_registers > device.registers_per_sm)
    return "needs about " + grouped(block_registers) + " registers a block, the device has " +
           grouped(device.registers_per_sm);
  const int most_threads = std::min(1024, device.threads_per_sm);
  if (launch.threads <= most_threads) return "";
  return "needs " + grouped(launch.threads) + " threads a block, the device has " + grouped(most_threads);
}

}  // namespace gqa
