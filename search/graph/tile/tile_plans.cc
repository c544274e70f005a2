// tile_plans.cc: tile_plans() of tile_plan.h: warps and stages that fit a device and keep its memory busy; where the
// loop can be streamed, warps and thread blocks for it that fill the device evenly.
#include <algorithm>

#include "search/graph/tile/tile_stream.h"

namespace gqa {
namespace {

constexpr std::int64_t kInFlight[] = {32768, 65536, 131072};  // bytes on their way to an SM that keep memory busy
constexpr int kMostStages = 8, kWarps[] = {4, 8, 16}, kFewWarps[] = {2, 1};
constexpr std::size_t kMostPlans = 6, kMostStreams = 4;
constexpr int kStreamedWarps[] = {8, 16};  // of a thread block

ThreadPlan thread_plan(int warps, int stages) {
  return {std::string(kTileFamily), std::nullopt, {{"warps", warps}, {"stages", stages}}};
}

ThreadPlan stream_plan(int warps, int ahead, int splits) {
  ThreadPlan plan = {std::string(kTileFamily), std::nullopt, {{"warps", warps}, {"stream", ahead}}};
  if (splits > 1) plan.parameters.emplace_back("splits", splits);
  return plan;
}

std::int64_t blocks_together(const TilePlan& plan, const DeviceSpec& device) {
  const std::int64_t sms = std::max(1, device.sms);
  const std::int64_t by_memory =
      std::max<std::int64_t>(device.smem_per_sm, device.smem_per_block) / (plan.shared_memory + kReservedSmemPerCta);
  const std::int64_t by_threads = std::max(device.threads_per_sm, plan.threads()) / plan.threads();
  const std::int64_t there = (plan.blocks() + sms - 1) / sms;
  return std::max<std::int64_t>(1, std::min({by_memory, by_threads, there}));
}

// Bytes of the loop's loads that an SM waits for at a time.
std::int64_t bytes_in_flight(const TilePlan& plan, const DeviceSpec& device) {
  std::int64_t bytes = 0;
  for (const int load : plan.ring)
    bytes += plan.buffers[static_cast<std::size_t>(plan.values[static_cast<std::size_t>(load)].buffer)].copy_bytes();
  return bytes * plan.ahead() * blocks_together(plan, device);
}

class Choice {
 public:
  Choice(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device)
      : graph_(graph), node_(node), block_(*node.block), device_(device) {
    node_.block = nullptr;
  }

  // A streamed loop, shared out in the ways that fill the device most evenly; the second of each is tried last.
  void add_streams() {
    std::vector<ThreadPlan> first, second;
    for (const int warps : kStreamedWarps) {
      TilePlan plan;
      if (!try_plan(stream_plan(warps, 1, 1), &plan)) continue;
      const std::vector<int> splits = stream_splits(plan, device_.sms, kStreamWarps / warps);
      for (std::size_t at = 0; at < splits.size() && at < 2; ++at)
        (at == 0 ? first : second).push_back(stream_plan(warps, 1, splits[at]));
      if (try_plan(stream_plan(warps, 2, splits[0]), &plan)) second.push_back(stream_plan(warps, 2, splits[0]));
    }
    for (const std::vector<ThreadPlan>* plans : {&first, &second}) {
      for (const ThreadPlan& plan : *plans) {
        if (found_.size() < kMostStreams) found_.push_back(plan);
      }
    }
  }

  // Stages of a number of warps: the fewest that reach each mark, else the most that fit.
  void add(int warps) {
    std::vector<int> chosen;
    std::size_t mark = 0;
    int most = 0;
    const bool loops = block_.steps > 1;
    for (int stages = loops ? 2 : 1; stages <= (loops ? kMostStages : 1); ++stages) {
      TilePlan plan;
      if (!try_plan(thread_plan(warps, stages), &plan)) break;
      if (loops && stages == 2 && try_plan(thread_plan(warps, 3), &plan)) continue;  // two do not hide a step
      most = stages;
      const std::int64_t bytes = bytes_in_flight(plan, device_);
      if (mark == std::size(kInFlight) || bytes < kInFlight[mark]) continue;
      while (mark < std::size(kInFlight) && bytes >= kInFlight[mark]) ++mark;
      chosen.push_back(stages);
    }
    if (mark < std::size(kInFlight) && most > 0 && (chosen.empty() || chosen.back() != most)) chosen.push_back(most);
    for (const int stages : chosen) {
      if (found_.size() < kMostPlans) found_.push_back(thread_plan(warps, stages));
    }
  }

  bool empty() const { return found_.empty(); }
  std::vector<ThreadPlan> take() { return std::move(found_); }

 private:
  bool try_plan(const ThreadPlan& threads, TilePlan* plan) {
    block_.threads = threads;
    node_.block = std::make_shared<const BlockGraph>(block_);
    return plan_tile(graph_, node_, plan).ok() && plan->shared_memory <= device_.smem_per_block;
  }

  const KernelGraph& graph_;
  KernelNode node_;
  BlockGraph block_;
  const DeviceSpec& device_;
  std::vector<ThreadPlan> found_;
};

}  // namespace

std::vector<ThreadPlan> tile_plans(const KernelGraph& graph, const KernelNode& node, const DeviceSpec& device) {
  if (!node.block) return {thread_plan(8, 1)};
  Choice choice(graph, node, device);
  const bool gpu = device.kind == DeviceKind::kCuda;
  if (gpu) choice.add_streams();
  // Blocks that share an SM bring their warps along; few blocks need more of their own.
  const bool few = blocks(*node.block) <= 2 * std::int64_t{std::max(1, device.sms)};
  if (few) choice.add(8);
  for (const int warps : kWarps) {
    if (!few || warps != 8) choice.add(warps);
  }
  for (const int warps : kFewWarps) {
    if (choice.empty()) choice.add(warps);  // parts of a product for each of many would not fit
  }
  std::vector<ThreadPlan> found = choice.take();
  if (!gpu && found.size() > 1) found.resize(1);  // the host's threads are what they are
  return found;
}

}  // namespace gqa
