// tile_scheduler.h: how the warpgroup family's tiles reach its persistent CTAs.
// Owns: TileScheduler, one of its kinds, each a struct in a header of its name (scheduler_kind.h says what it answers);
// their fields of the text. A kind is named here and in its own files.
// Never: knows a tile's size.
// Threads: a value; pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "search/families/wgmma_flash/dynamic_tiles.h"
#include "search/families/wgmma_flash/static_rounds.h"
#include "search/families/wgmma_flash/stream_k.h"

namespace gqa {

struct TileScheduler {
  using Kind = std::variant<StaticRounds, DynamicTiles, StreamK>;

  Kind kind;

  template <typename Of>
  bool is() const {
    return std::holds_alternative<Of>(kind);
  }

  // The kinds' fields of the text. One at most is not 0: the scheduler is of its kind, else of the first.
  static constexpr std::size_t kNumbers = std::variant_size_v<Kind> - 1;
  using Numbers = std::array<std::int32_t, kNumbers>;
  template <std::size_t kAt>
  using Field = std::variant_alternative_t<kAt + 1, Kind>;  // whose it is

  Numbers numbers() const;

  // What its kind says: scheduler_kind.h.
  SchedulerCode device() const;
  bool has_small_producer() const;
  std::string_view joins() const;
  std::string wrong(int rows) const;
  std::string useless(const Problem& problem, const CandidateShape& shape) const;
  void plan(const Problem& problem, int warpgroups, int floats_beside_out, LaunchPlan* launch) const;
  double clocks(bool masked, const TileTimes& times) const;
};

template <std::size_t... kAt>
constexpr std::array<TextField, sizeof...(kAt)> scheduler_fields(std::index_sequence<kAt...>) {
  return {TileScheduler::Field<kAt>::kField...};
}
template <std::size_t... kAt>
constexpr TileScheduler::Numbers most_of_schedulers(std::index_sequence<kAt...>) {
  return {TileScheduler::Field<kAt>::kMost...};
}
using SchedulerIndices = std::make_index_sequence<TileScheduler::kNumbers>;
inline constexpr auto kSchedulerFields = scheduler_fields(SchedulerIndices());
inline constexpr auto kMostOfSchedulers = most_of_schedulers(SchedulerIndices());

// From the text's numbers; two at once are no scheduler.
std::string read(const TileScheduler::Numbers& numbers, TileScheduler* scheduler);

// Worth trying: a scheduler, on clusters of so many CTAs.
struct TileWalk {
  TileScheduler scheduler;
  int cluster;
};
std::vector<TileWalk> tile_walks(const DeviceSpec& device);

}  // namespace gqa
