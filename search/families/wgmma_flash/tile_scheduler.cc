// tile_scheduler.cc: see tile_scheduler.h.
#include "search/families/wgmma_flash/tile_scheduler.h"

#include "search/text.h"

namespace gqa {
namespace {

template <std::size_t... kAt>
void choose(const TileScheduler::Numbers& numbers, std::index_sequence<kAt...>, TileScheduler::Kind* kind) {
  *kind = {};
  const auto choose_one = [&]<typename Of>(std::int32_t number) {
    if (number != 0) *kind = Of::of(number);
  };
  (choose_one.template operator()<TileScheduler::Field<kAt>>(numbers[kAt]), ...);
}

template <std::size_t... kAt>
void add_walks(const DeviceSpec& device, int cluster, std::index_sequence<kAt...>, std::vector<TileWalk>* walks) {
  (walks->push_back({{std::variant_alternative_t<kAt, TileScheduler::Kind>::on(device, cluster)}, cluster}), ...);
}

}  // namespace

TileScheduler::Numbers TileScheduler::numbers() const {
  Numbers numbers = {};
  if (kind.index() > 0) numbers[kind.index() - 1] = std::visit([](const auto& of) { return of.number(); }, kind);
  return numbers;
}

SchedulerCode TileScheduler::device() const {
  return std::visit([](const auto& of) { return of.kDevice; }, kind);
}

bool TileScheduler::has_small_producer() const {
  return std::visit([](const auto& of) { return of.kSmallProducer; }, kind);
}

std::string_view TileScheduler::joins() const {
  return std::visit([](const auto& of) { return of.kJoins; }, kind);
}

std::string TileScheduler::wrong(int rows) const {
  return std::visit([&](const auto& of) { return of.wrong(rows); }, kind);
}

std::string TileScheduler::useless(const Problem& p, const CandidateShape& shape) const {
  return std::visit([&](const auto& of) { return of.useless(p, shape); }, kind);
}

void TileScheduler::plan(const Problem& p, int warpgroups, int floats_beside_out, LaunchPlan* launch) const {
  std::visit([&](const auto& of) { of.plan(p, warpgroups, floats_beside_out, launch); }, kind);
}

double TileScheduler::clocks(bool masked, const TileTimes& times) const {
  return std::visit([&](const auto& of) { return of.clocks(masked, times); }, kind);
}

std::string read(const TileScheduler::Numbers& numbers, TileScheduler* scheduler) {
  std::string given;
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    if (numbers[at] == 0) continue;
    const std::string one = std::string(kSchedulerFields[at].key) + "=" + grouped(numbers[at]);
    if (!given.empty()) return given + " beside " + one + ": expected one tile scheduler";
    given = one;
  }
  choose(numbers, SchedulerIndices(), &scheduler->kind);
  return "";
}

std::vector<TileWalk> tile_walks(const DeviceSpec& device) {
  std::vector<TileWalk> walks;
  using Kinds = std::make_index_sequence<std::variant_size_v<TileScheduler::Kind>>;
  for (const int cluster : {1, 2}) add_walks(device, cluster, Kinds(), &walks);
  return walks;
}

}  // namespace gqa
