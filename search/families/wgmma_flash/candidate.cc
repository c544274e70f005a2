// candidate.cc: the family's text; see wgmma_flash.h. Numbers that its types cannot hold are refused here.
#include <array>

#include "search/families/limits.h"
#include "search/families/wgmma_flash/wgmma_flash.h"
#include "search/text.h"

namespace gqa {
namespace {

// The text, in its order; "splits" is in that of every family, and 1 here.
struct At {
  enum Field : std::uint8_t {
    kM,
    kN,
    kWarps,
    kStages,
    kPack,
    kScheduler,
    kOut,
    kOnesColumn,
    kQueries,
    kQRegs,
    kCluster,
    kCpAsync,
    kMoreSchedulers,
    kSplits = kMoreSchedulers + TileScheduler::kNumbers - 1,
    kHeadSwizzle
  };
};
// A kind of scheduler's, of those that have one: the first stands apart, as texts have it.
constexpr std::size_t at_scheduler(std::size_t kind) {
  return kind == 0 ? std::size_t{At::kScheduler} : At::kMoreSchedulers + kind - 1;
}

constexpr std::array<TextField, WgmmaFlash::kNumbers> all_fields() {
  std::array<TextField, WgmmaFlash::kNumbers> all = {};
  all[At::kM] = {"m", 64, FieldUse::kCode};
  all[At::kN] = {"n", 64, FieldUse::kCode};
  all[At::kWarps] = {"warps", 4, FieldUse::kCode};
  all[At::kStages] = {"stages", 2, FieldUse::kCode};
  all[At::kPack] = {"pack", 1, FieldUse::kCode};
  all[At::kOut] = {"out", 0, FieldUse::kCode};
  all[At::kOnesColumn] = {"ones_column", 0, FieldUse::kMechanism};
  all[At::kQueries] = {"queries", 1, FieldUse::kMechanism};
  all[At::kQRegs] = {"q_regs", 0, FieldUse::kMechanism};
  all[At::kCluster] = {"cluster", 1, FieldUse::kMechanism};
  all[At::kCpAsync] = {"cp_async", 0, FieldUse::kMechanism};
  for (std::size_t kind = 0; kind < TileScheduler::kNumbers; ++kind) all[at_scheduler(kind)] = kSchedulerFields[kind];
  all[At::kSplits] = {"splits", 1, FieldUse::kLaunch};
  all[At::kHeadSwizzle] = {"head_swizzle", 0, FieldUse::kLaunch};
  return all;
}
constexpr auto kFields = all_fields();
static_assert(At::kHeadSwizzle + 1 == WgmmaFlash::kNumbers);

struct Range {
  std::size_t at;
  int least, most;
};
constexpr Range kRanges[] = {{At::kStages, 1, 4}, {At::kOut, 0, 4},     {At::kOnesColumn, 0, 1}, {At::kQueries, 1, 2},
                             {At::kQRegs, 0, 16}, {At::kCluster, 1, 2}, {At::kCpAsync, 0, 1}};

std::string outside(const Range& range, const WgmmaFlash::Numbers& numbers) {
  const std::int32_t given = numbers[range.at];
  if (given >= range.least && given <= range.most) return "";
  return std::string(kFields[range.at].key) + "=" + grouped(given) + ": warpgroup has " + grouped(range.least) +
         " to " + grouped(range.most);
}

std::string out_of_range(const WgmmaFlash::Numbers& numbers) {
  for (const Range& range : kRanges)
    if (std::string reason = outside(range, numbers); !reason.empty()) return reason;
  for (std::size_t kind = 0; kind < TileScheduler::kNumbers; ++kind) {
    const Range range = {at_scheduler(kind), 0, kMostOfSchedulers[kind]};
    if (std::string reason = outside(range, numbers); !reason.empty()) return reason;
  }
  return more_than_one_split(numbers[At::kSplits], WgmmaFlash::kText.name);
}

std::string wrong_cta(const WgmmaFlash::Numbers& numbers) {
  constexpr int kMostColumns = 256;  // of a wgmma
  const int m = numbers[At::kM], n = numbers[At::kN], warps = numbers[At::kWarps];
  CandidateShape shape;
  shape.rows = m;
  shape.keys = n;
  shape.pack = numbers[At::kPack];
  shape.head_swizzle = numbers[At::kHeadSwizzle];
  if (std::string reason = wrong_tile(shape, warps); !reason.empty()) return reason;
  if (m != 64 && m != 128 && m != 192) return "tile of " + grouped(m) + " rows: warpgroup has 64, 128 or 192";
  if (n > kMostColumns) return "step of " + grouped(n) + " keys: wgmma takes at most " + grouped(kMostColumns);
  if (warps == m / 16 || (m == kWarpgroupRows && warps == 2 * m / 16)) return "";
  return grouped(warps) + " warps for " + grouped(m) +
         " rows: warpgroup gives a warp 16, or two warpgroups the same 64";
}

std::string wrong_numbers(const WgmmaFlash::Numbers& numbers) {
  std::string reason = wrong_cta(numbers);
  return reason.empty() ? out_of_range(numbers) : reason;
}

// How fields go together, that the types leave open.
std::string wrong_together(const WgmmaFlash& c) {
  const bool shares_keys = c.key_shares != 1;
  if (shares_keys && c.out_parts != 1) return "two warpgroups on the same rows without out=1: they hand over beside it";
  if (shares_keys && c.stages % 2 != 0)
    return grouped(c.stages) + " stages for two warpgroups on the same rows: expected as many for each";
  if (c.has_ones() && (shares_keys || c.out_parts != 1 || c.tile_n % 32 != 0 || c.stages < 2))
    return "a ones column beside halves of " + grouped(c.tile_n) + " keys, " + grouped(c.stages) +
           " stages: expected a multiple of 32, 2 stages or more, out=1 and no shared rows";
  if (c.cluster != 1 && c.tile_m == kWarpgroupRows)
    return "cluster=" + grouped(c.cluster) + ": expected one CTA an SM, and so 128 rows or more";
  if (std::string reason = c.scheduler.wrong(c.tile_m); !reason.empty()) return reason;
  if (kWarpgroupRows % c.pack == 0) return "";
  return "pack of " + grouped(c.pack) + " does not divide the " + grouped(kWarpgroupRows) + " rows of a warpgroup";
}

}  // namespace

constinit const FamilyText WgmmaFlash::kText = {"warpgroup", kFields};

WgmmaFlash::Numbers numbers_of(const WgmmaFlash& c) {
  WgmmaFlash::Numbers numbers = {};
  numbers[At::kM] = c.tile_m;
  numbers[At::kN] = c.tile_n;
  numbers[At::kWarps] = c.warps();
  numbers[At::kStages] = c.stages;
  numbers[At::kPack] = c.pack;
  numbers[At::kOut] = c.out_parts;
  numbers[At::kOnesColumn] = c.has_ones() ? 1 : 0;
  numbers[At::kQueries] = c.queries;
  numbers[At::kQRegs] = c.q_regs;
  numbers[At::kCluster] = c.cluster;
  numbers[At::kCpAsync] = c.copies_pages() ? 1 : 0;
  const TileScheduler::Numbers scheduler = c.scheduler.numbers();
  for (std::size_t kind = 0; kind < scheduler.size(); ++kind) numbers[at_scheduler(kind)] = scheduler[kind];
  numbers[At::kSplits] = 1;
  numbers[At::kHeadSwizzle] = c.head_swizzle;
  return numbers;
}

std::string read(const WgmmaFlash::Numbers& numbers, WgmmaFlash* c) {
  if (std::string reason = wrong_numbers(numbers); !reason.empty()) return reason;
  TileScheduler::Numbers scheduler = {};
  for (std::size_t kind = 0; kind < scheduler.size(); ++kind) scheduler[kind] = numbers[at_scheduler(kind)];
  if (std::string reason = read(scheduler, &c->scheduler); !reason.empty()) return reason;
  c->tile_m = numbers[At::kM];
  c->tile_n = numbers[At::kN];
  c->key_shares = numbers[At::kWarps] * 16 / numbers[At::kM];
  c->stages = numbers[At::kStages];
  c->pack = numbers[At::kPack];
  c->out_parts = numbers[At::kOut];
  c->softmax = numbers[At::kOnesColumn] != 0 ? WgmmaFlash::Softmax::kOnesColumn : WgmmaFlash::Softmax::kOnline;
  c->queries = numbers[At::kQueries];
  c->q_regs = numbers[At::kQRegs];
  c->cluster = numbers[At::kCluster];
  c->key_copy = numbers[At::kCpAsync] != 0 ? WgmmaFlash::KeyCopy::kCpAsync : WgmmaFlash::KeyCopy::kTma;
  c->head_swizzle = numbers[At::kHeadSwizzle];
  return wrong_together(*c);
}

std::string arithmetic_words(const WgmmaFlash& c) {
  std::string words = c.has_ones() ? " ones_column" : " online";
  if (c.key_shares != 1) words += " shared_rows";
  if (const std::string_view joins = c.scheduler.joins(); !joins.empty()) words += " " + std::string(joins);
  return words;
}

std::strong_ordering operator<=>(const WgmmaFlash& a, const WgmmaFlash& b) { return numbers_of(a) <=> numbers_of(b); }

std::string wrong_fields(const WgmmaFlash& c) {
  std::string reason = wrong_numbers(numbers_of(c));
  return reason.empty() ? wrong_together(c) : reason;
}

}  // namespace gqa
