// wgmma_flash.h: the family "warpgroup", flash on Hopper's wgmma: a producer feeds consumer warpgroups of 64 rows by
// TMA. Device code: jit/device/attention/wgmma_flash/; docs/kernels.md explains the mechanisms.
// Owns: WgmmaFlash, its fields, and what search/families/family.h asks of every family. candidate.cc has the text,
// tiles.cc what there is, limits.cc what is refused, resources.cc what it needs, cost.cc its time.
// Never: is named outside search/families/ and jit/families/.
// Threads: a value; pure functions.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/families/text_fields.h"
#include "search/families/wgmma_flash/tile_scheduler.h"
#include "search/problem/problem.h"

namespace gqa {

struct WgmmaFlash {
  // kOnline: the rows' sums and maxima run along. kOnesColumn: blocks are walked in halves, the softmax of one half
  // beside the MMAs of the other, and a column of ones beside the values makes PV sum the rounded weights; so there is
  // no exact log-sum-exp.
  enum class Softmax : std::uint8_t { kOnline, kOnesColumn };
  // Who brings keys and values: TMA, of pages a box each; or warps by cp.async, a row at a time, of pages of any size.
  enum class KeyCopy : std::uint8_t { kTma, kCpAsync };

  std::int32_t tile_m = 64;     // query rows a CTA owns (packed heads count): 64 a consumer warpgroup
  std::int32_t tile_n = 64;     // keys a step
  std::int32_t key_shares = 1;  // 2: two warpgroups on the same 64 rows, each takes every other block of keys
  std::int32_t stages = 2;      // KV buffers in flight
  std::int32_t pack = 1;        // query heads of a group in a tile's rows
  TileScheduler scheduler;
  std::int32_t out_parts = 0;  // 0: rows of out are stored straight from registers; 1: by TMA, through a buffer; more:
                               // through a buffer for that part of them, panel by panel
  Softmax softmax = Softmax::kOnline;
  std::int32_t queries = 1;  // 2: the next tile's Q has a buffer of its own
  std::int32_t q_regs = 0;   // times 16 columns of Q are kept as fragments in registers
  std::int32_t cluster = 1;  // 2: pairs of CTAs on neighbouring rows; TMA multicasts each key and value to both
  KeyCopy key_copy = KeyCopy::kTma;
  std::int32_t head_swizzle = 0;  // head groups walked together; more than 1: as many as have their keys in L2

  int warps() const { return tile_m / 16 * key_shares; }  // of consumers
  int warpgroups() const { return warps() / 4; }
  bool has_ones() const { return softmax == Softmax::kOnesColumn; }
  bool copies_pages() const { return key_copy == KeyCopy::kCpAsync; }

  static constexpr std::size_t kNumbers = 13 + TileScheduler::kNumbers;
  using Numbers = std::array<std::int32_t, kNumbers>;
  static const FamilyText kText;
};

WgmmaFlash::Numbers numbers_of(const WgmmaFlash& candidate);
std::string read(const WgmmaFlash::Numbers& numbers, WgmmaFlash* candidate);

// In the order of the text.
std::strong_ordering operator<=>(const WgmmaFlash& a, const WgmmaFlash& b);
inline bool operator==(const WgmmaFlash& a, const WgmmaFlash& b) { return (a <=> b) == 0; }

CandidateShape shape_of(const WgmmaFlash& candidate);
LaunchPlan plan(const Problem& problem, const WgmmaFlash& candidate);
int registers(const Problem& problem, const WgmmaFlash& candidate);  // a consumer's
std::string arithmetic_words(const WgmmaFlash& candidate);

void enumerate(const Problem& problem, const DeviceSpec& device, std::vector<WgmmaFlash>* found);
std::string reject_reason(const Problem& problem, const WgmmaFlash& candidate, const DeviceSpec& device);
double predict_us(const Problem& problem, const WgmmaFlash& candidate, const DeviceSpec& device);
double moved_bytes(const Problem& problem, const WgmmaFlash& candidate, const DeviceSpec& device);

// ---- what its files and its code ask of each other

// Numbers of a candidate that go together in no problem.
std::string wrong_fields(const WgmmaFlash& candidate);

// Keys of a TMA box: of a step's, or of pages those that lie in one page whatever the step; 0 where TMA brings none.
std::int32_t box_keys(const Problem& problem, const WgmmaFlash& candidate);

// Whether TMA's boxes fit the pages of a problem that has such, in steps of so many keys.
bool boxes_fit(const Problem& problem, std::int32_t tile_n);

// Rows of the first tile that do not exist, whole warpgroups', where the last is not full.
int rows_before(const Problem& problem, const WgmmaFlash& candidate);

// Whether a tile's first step may be half a block of keys: under a causal mask, in whole fragments of 16.
bool halves_tiles(const Problem& problem, const WgmmaFlash& candidate);

// What setmaxnreg leaves a producer thread and gives a consumer: they go into the code as they are here.
struct RoleRegisters {
  int producer, consumer;
};
RoleRegisters role_registers(const KernelTraits& problem, const WgmmaFlash& candidate);

// The most of `q_regs` that leaves the rest of a candidate its registers.
int q_regs_that_fit(const Problem& problem, const WgmmaFlash& candidate);

// Columns of a swizzled shared-memory tile: whole panels of 64, so that a row of a panel is 128 bytes.
inline constexpr int kPanelColumns = 64;
constexpr int padded_columns(int columns) { return (columns + kPanelColumns - 1) / kPanelColumns * kPanelColumns; }

inline constexpr int kWarpgroupRows = 64;  // of a wgmma
inline constexpr int kSwizzledRows = 8;    // of a pattern in shared memory

}  // namespace gqa
