// limits.cc: why a candidate of the family cannot run a problem, or would be foolish to compile; see wgmma_flash.h.
#include "search/families/limits.h"

#include <algorithm>
#include <string_view>

#include "search/families/served.h"
#include "search/families/wgmma_flash/wgmma_flash.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr int kLeastRows = 16, kLeastKeys = 32;  // of tiles worth listing
constexpr int kWgmmaOperands = 30;               // registers beside a wgmma's accumulators
constexpr std::string_view kWgmmaArch = "sm_90a";

constexpr Served kServed = {{ElementType::kF16, ElementType::kBF16},
                            {Mask::kNone, Mask::kCausal},
                            {KeyLayout::kDense, KeyLayout::kTransposed, KeyLayout::kPaged},
                            {Lengths::kOne, Lengths::kPacked},
                            {Lengths::kOne, Lengths::kEach, Lengths::kPacked},
                            true};

std::string wrong_for_keys(const Problem& p, const WgmmaFlash& c) {
  if (p.keys_transposed() && c.tile_n % kPanelColumns != 0)
    return "step of " + grouped(c.tile_n) + " keys: transposed keys come in panels of " + grouped(kPanelColumns);
  if (c.copies_pages() && !p.paged()) return "cp_async=1 for keys that lie in no pages: TMA brings them";
  if (p.paged() && !c.copies_pages() && !boxes_fit(p, c.tile_n))
    return "pages of " + grouped(p.page) + " keys for steps of " + grouped(c.tile_n) + ": TMA brings " +
           grouped(kSwizzledRows) + " rows of a page, or a multiple, at once; cp_async=1 copies any";
  return not_served(p, kServed, WgmmaFlash::kText.name);
}

// The ones stand beside one panel of values; a half of the keys is rows of a block.
std::string wrong_for_softmax(const Problem& p, const WgmmaFlash& c) {
  if (!c.has_ones()) return "";
  if (p.lse) return "ones_column=1 sums rounded weights: too coarse for the log-sum-exp that is asked for";
  if (p.head_dim_v != kPanelColumns)
    return "ones_column=1 beside values of head_dim_v " + grouped(p.head_dim_v) + ": expected 64";
  return p.keys_transposed() ? "ones_column=1 with halves of transposed keys: halves are rows" : "";
}

std::string wrong_for_q_regs(const Problem& p, const WgmmaFlash& c) {
  if (c.q_regs * 16 <= p.head_dim) return "";
  return "q_regs=" + grouped(c.q_regs) + " times 16 columns of Q: head_dim is " + grouped(p.head_dim);
}

// TMA reads and writes whole 16-byte pieces, through maps of the tensors.
std::string not_for_tma(const Problem& p, const DeviceSpec& device) {
  if (device.arch != kWgmmaArch)
    return "warpgroup needs wgmma, which only " + std::string(kWgmmaArch) + " has; the device is " + device.arch;
  if (p.align != 16) return "rows aligned to " + grouped(p.align) + " bytes: TMA needs 16";
  if (!p.tma) return "strides that no tensor map can express: TMA needs them at least 0 and below 2^40 bytes";
  return "";
}

// Rows for one CTA only.
std::string useless_cluster(const Problem& p, const WgmmaFlash& c, const DeviceSpec& device) {
  if (c.cluster == 1) return "";
  if (p.has_lists())
    return "cluster of " + grouped(c.cluster) +
           " where sequences have lengths or pages of their own: its CTAs share keys";
  if (device.sms < c.cluster) return "cluster of " + grouped(c.cluster) + " on " + grouped(device.sms) + " SMs";
  const std::int64_t rows = std::int64_t{p.q_len} * c.pack;
  return rows > c.tile_m ? "" : "cluster of " + grouped(c.cluster) + " tiles for " + grouped(rows) + " query rows";
}

std::string unfit(const Problem& p, const WgmmaFlash& c, const DeviceSpec& device) {
  const CandidateShape shape = shape_of(c);
  if (std::string reason = wrong_pack(p, shape); !reason.empty()) return reason;
  if (std::string reason = useless_pack(p, shape); !reason.empty()) return reason;
  if (std::string reason = oversized(p, shape, kLeastRows, kLeastKeys); !reason.empty()) return reason;
  if (std::string reason = useless_cluster(p, c, device); !reason.empty()) return reason;
  return c.scheduler.useless(p, shape);
}

std::string over_registers(const Problem& p, const WgmmaFlash& c, const LaunchPlan& launch, const DeviceSpec& device) {
  const int needed = registers(p, c), most = role_registers(p, c).consumer;
  if (needed > most)
    return "needs about " + grouped(needed) + " registers a consumer thread, " + grouped(c.warpgroups()) +
           " consumer warpgroups leave it " + grouped(most);
  // The accumulators of one wgmma must fit what a thread is launched with.
  const int launched = device.registers_per_sm / (launch.threads * launch.resident);
  const int least = std::max(p.head_dim_v, c.tile_n) / 2 + kWgmmaOperands;
  if (least <= launched) return "";
  return "a wgmma needs about " + grouped(least) + " registers, a thread is launched with " + grouped(launched);
}

std::string over_resources(const Problem& p, const WgmmaFlash& c, const DeviceSpec& device) {
  const LaunchPlan launch = plan(p, c);
  if (std::string reason = over_grid(launch); !reason.empty()) return reason;
  if (std::string reason = over_shared_memory(launch, device); !reason.empty()) return reason;
  const std::int64_t together = launch.resident * (launch.shared_memory + kReservedSmemPerCta);
  if (together > device.smem_per_sm)
    return grouped(launch.resident) + " blocks an SM need " + grouped(together) + " bytes of shared memory, it has " +
           grouped(device.smem_per_sm);
  return over_registers(p, c, launch, device);
}

}  // namespace

std::string reject_reason(const Problem& problem, const WgmmaFlash& c, const DeviceSpec& device) {
  if (std::string reason = wrong_fields(c); !reason.empty()) return reason;
  if (device.kind == DeviceKind::kHost) return "warpgroup: the host has no wgmma";
  if (std::string reason = wrong_for_keys(problem, c); !reason.empty()) return reason;
  if (std::string reason = wrong_for_softmax(problem, c); !reason.empty()) return reason;
  if (std::string reason = wrong_for_q_regs(problem, c); !reason.empty()) return reason;
  if (std::string reason = not_for_tma(problem, device); !reason.empty()) return reason;
  if (std::string reason = unfit(problem, c, device); !reason.empty()) return reason;
  return over_resources(problem, c, device);
}

}  // namespace gqa
