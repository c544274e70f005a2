// schedule.cc: see schedule.h.
#include "search/graph/enumerate/schedule.h"

#include <algorithm>
#include <set>

namespace gqa {
namespace {

constexpr std::size_t kVariants = 3;     // tile sizes kept of a structure
constexpr std::int64_t kFullDevice = 4;  // blocks an SM beyond which splitting gives nothing

using Sizes = std::vector<std::int64_t>;

class Scheduler {
 public:
  Scheduler(const Section& section, const SearchConfig& config, const DeviceSpec& device, SearchReport* report,
            const Stop& stop)
      : section_(section), config_(config), device_(device), report_(*report), stop_(stop) {
    for (const KernelNode& node : section.graph.nodes()) multiplies_ = multiplies_ || node.op == Op::kMatmul;
  }

  void add(const LoopPlacement& placement, const std::string& structure) {
    loop_placement_ = &placement;
    structure_ = structure;
    cuts_ = {};
    choose_tile(0);
  }

  std::vector<Choice> take() {
    std::vector<Choice> choices;
    for (auto& [structure, best] : best_) std::move(best.begin(), best.end(), std::back_inserter(choices));
    std::stable_sort(choices.begin(), choices.end(),
                     [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
    return choices;
  }

 private:
  const Dimension& dimension(std::size_t at) const { return section_.dimensions[at]; }

  // Tiles to try of a dimension; 0: not cut.
  Sizes tiles(const Dimension& dimension) const {
    Sizes sizes;
    const bool batch = dimension.role == DimensionRole::kBatch, rows = dimension.role == DimensionRole::kRow;
    const Sizes& tried = !rows ? config_.columns : multiplies_ ? config_.rows : config_.rows_alone;
    if (!dimension.may_grid()) return {0};
    if (batch) sizes.push_back(1);
    const Sizes none;
    for (const std::int64_t tile : !batch ? tried : dimension.shared ? config_.packs : none) {
      if (batch ? tile <= dimension.size : tile < dimension.size) sizes.push_back(tile);
    }
    if (!batch && dimension.size <= (rows ? tried.back() : config_.most_whole_columns)) sizes.push_back(0);
    return sizes;
  }

  void choose_tile(std::size_t at) {
    if (at == section_.dimensions.size()) return choose_loop();
    for (const std::int64_t tile : tiles(dimension(at))) {
      cuts_.tiles.push_back(tile);
      choose_tile(at + 1);
      cuts_.tiles.pop_back();
    }
  }

  void choose_loop() {
    cuts_.splits = 1;
    if (loop_placement_->loop == kNoDimension) return try_cuts();
    const std::int64_t size = dimension(static_cast<std::size_t>(loop_placement_->loop)).size;
    for (const std::int64_t tile : config_.steps) {
      if (tile >= size) break;
      cuts_.loop_tile = tile;
      for (const std::int64_t splits : config_.splits) {
        if (splits > 1 && (splits * tile > size || blocks() * splits > kFullDevice * device_.sms)) break;
        cuts_.splits = splits;
        try_cuts();
      }
    }
  }

  std::int64_t blocks() const {
    std::int64_t count = 1;
    for (std::size_t at = 0; at < cuts_.tiles.size(); ++at) {
      if (cuts_.tiles[at] > 0) count *= (dimension(at).size + cuts_.tiles[at] - 1) / cuts_.tiles[at];
    }
    return count;
  }

  bool packs() const {
    for (std::size_t at = 0; at < cuts_.tiles.size(); ++at) {
      if (dimension(at).role == DimensionRole::kBatch && cuts_.tiles[at] > 1) return true;
    }
    return false;
  }

  std::string kind() const {
    std::string text = loop_placement_->loop == kNoDimension ? "tiles" : "loop";
    const auto carried = [](const Placement& placement) { return placement.carry == Carry::kRunningMaximum; };
    if (std::any_of(loop_placement_->nodes.begin(), loop_placement_->nodes.end(), carried)) text += "+running_maximum";
    if (cuts_.splits > 1) text += "+splits";
    return text + (packs() ? "+packs" : "");
  }

  // Bytes of the tiles that the section reads: what any way to lower it loads at least, but for tiles that no operator
  // needs.
  std::int64_t shared_bytes() const {
    std::set<std::pair<int, DimensionIds>> loads;
    std::int64_t bytes = 0;
    for (std::size_t at = 0; at < section_.reads.size(); ++at) {
      for (std::size_t which = 0; which < section_.reads[at].size(); ++which) {
        const int tensor = section_.node(at).inputs[which];
        if (section_.is_input(tensor) && loads.emplace(tensor, section_.reads[at][which]).second)
          bytes += tile_bytes(section_.graph.spec(tensor).type, section_.reads[at][which]);
      }
    }
    return bytes;
  }

  std::int64_t tile_bytes(ElementType type, const DimensionIds& ids) const {
    std::int64_t bytes = element_bytes(type);
    for (const int id : ids) {
      if (id == kNoDimension) continue;
      const auto at = static_cast<std::size_t>(id);
      const bool loop = id == loop_placement_->loop;
      bytes *= loop ? cuts_.loop_tile : cuts_.tiles[at] > 0 ? cuts_.tiles[at] : dimension(at).size;
    }
    return bytes;
  }

  void try_cuts() {
    if (stop_ && stop_()) return void(report_.exhausted = false);
    if (cuts_.splits == 1 && shared_bytes() > device_.smem_per_block)
      return report_.kernels.prune(Reason::kSharedMemory);
    Reason reason = Reason::kMalformed;
    std::optional<KernelGraph> graph = lower(section_, *loop_placement_, cuts_, &reason);
    if (graph && misfit(*graph, device_)) reason = *misfit(*graph, device_), graph.reset();
    if (!graph) return report_.kernels.prune(reason);
    report_.kernels.keep();
    keep({std::move(*graph), 0, kind()});
  }

  void keep(Choice choice) {
    choice.seconds = seconds(choice.graph, device_);
    std::vector<Choice>& best = best_[structure_ + choice.kind];
    const auto place = std::upper_bound(best.begin(), best.end(), choice,
                                        [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
    best.insert(place, std::move(choice));
    if (best.size() <= kVariants) return;
    best.pop_back();
    report_.kernels.drop(Reason::kSlower);
  }

  const Section& section_;
  const SearchConfig& config_;
  const DeviceSpec& device_;
  SearchReport& report_;
  const Stop& stop_;
  bool multiplies_ = false;
  const LoopPlacement* loop_placement_ = nullptr;
  std::string structure_;
  Cuts cuts_;
  std::map<std::string, std::vector<Choice>> best_;
};

}  // namespace

std::vector<Choice> schedules_of(const Section& section, const std::vector<AbstractSpace::Id>& inputs,
                                 const SearchConfig& config, const DeviceSpec& device, AbstractSpace* abstract,
                                 SearchReport* report, const Stop& stop) {
  Scheduler scheduler(section, config, device, report, stop);
  for (int loop = kNoDimension; loop < static_cast<int>(section.dimensions.size()); ++loop) {
    if (stop && stop()) break;
    if (loop != kNoDimension) {
      const Dimension& along = section.dimensions[static_cast<std::size_t>(loop)];
      if (!along.may_loop() || along.size <= config.steps.front()) continue;
    }
    const std::vector<LoopPlacement> placements = find_loop_placements(section, loop, inputs, abstract, report);
    for (std::size_t at = 0; at < placements.size(); ++at) {
      // Tensor cores would round a part of a sum, which may be larger than the whole.
      if (placements[at].multiplies_parts && device.kind == DeviceKind::kCuda)
        report->loop_placements.drop(Reason::kRounded);
      else
        scheduler.add(placements[at], std::to_string(loop) + "." + std::to_string(at) + " ");
    }
  }
  if (stop && stop()) report->exhausted = false;
  return scheduler.take();
}

}  // namespace gqa
