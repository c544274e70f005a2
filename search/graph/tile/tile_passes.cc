// tile_passes.cc: see tile_passes.h.
#include "search/graph/tile/tile_passes.h"

#include <algorithm>

namespace gqa {
namespace {

using Kind = TilePass::Kind;

const TileValue& value_of(const TilePlan& plan, int node) { return plan.values[static_cast<std::size_t>(node)]; }
const BlockNode& node_of(const TilePlan& plan, int node) { return plan.block.nodes[static_cast<std::size_t>(node)]; }

// What an accumulator in lanes, a maximum or a reduction folds: the operand of the reduction it took in, or its own.
int folded(const TilePlan& plan, int node) {
  const int input = node_of(plan, node).inputs[0];
  return value_of(plan, input).place == TilePlace::kAbsorbed ? node_of(plan, input).inputs[0] : input;
}

class Passes {
 public:
  explicit Passes(TilePlan* plan) : plan_(*plan) {}

  void run() {
    for (const Phase phase : kPhases) {
      if (phase == Phase::kLoop && plan_.stream.on()) {
        add_stream();
        continue;
      }
      if (phase == Phase::kAfter && !plan_.stream.on()) add_flushes();
      for (std::size_t at = 0; at < plan_.block.nodes.size(); ++at) {
        if (tile_phase(plan_, plan_.block.nodes[at]) == phase) add_node(static_cast<int>(at), phase);
      }
      if (phase == Phase::kBefore) add_beginnings();
      add_stores(phase);
    }
  }

 private:
  TilePass* push(Kind kind, int node, Phase phase) {
    plan_.passes.push_back({kind, node, phase});
    return &plan_.passes.back();
  }

  void add_beginnings() {
    for (std::size_t at = 0; at < plan_.block.nodes.size(); ++at) {
      if (plan_.block.nodes[at].op == Op::kRunningMax)
        push(Kind::kCarry, static_cast<int>(at), Phase::kBefore)->writes = {plan_.values[at].buffer};
    }
  }

  // The loop, and what makes one of what warps and thread blocks have of its sums.
  void add_stream() {
    TilePass stream = {Kind::kStream, -1, Phase::kLoop}, merge = {Kind::kMerge, -1, Phase::kAfter};
    const bool merges = plan_.stream.splits > 1;
    std::vector<int> accumulators;
    for (std::size_t at = 0; at < plan_.values.size(); ++at) {
      if (!is_accumulator(plan_.block.nodes[at].op)) continue;
      const TileValue& value = plan_.values[at];
      read_buffers(plan_, plan_.block.nodes[at].inputs[0], &stream.reads);
      stream.writes.push_back(value.parts);
      merge.reads.push_back(value.parts);
      merge.writes.push_back(value.buffer);
      accumulators.push_back(static_cast<int>(at));
    }
    merge.writes.push_back(plan_.stream.last);
    plan_.passes.push_back(stream);
    if (merges) plan_.passes.push_back(merge);
    for (const int at : merges ? std::vector<int>() : accumulators) add_total(at, Phase::kAfter);
  }

  void add_flushes() {
    for (std::size_t at = 0; at < plan_.block.nodes.size(); ++at) {
      const TileValue& value = plan_.values[at];
      if (value.place != TilePlace::kFragments && value.place != TilePlace::kLanes) continue;
      push(Kind::kFlush, static_cast<int>(at), Phase::kAfter)->writes = {value.parts >= 0 ? value.parts : value.buffer};
      add_total(static_cast<int>(at), Phase::kAfter);
    }
  }

  void add_total(int node, Phase phase) {
    const TileValue& value = value_of(plan_, node);
    if (value.parts < 0 || value.buffer < 0) return;
    TilePass* pass = push(Kind::kTotal, node, phase);
    pass->reads = {value.parts};
    pass->writes = {value.buffer};
  }

  void add_node(int at, Phase phase) {
    const BlockNode& node = node_of(plan_, at);
    const TileValue& value = value_of(plan_, at);
    if (node.op == Op::kLoad) {
      if (value.place == TilePlace::kShared && phase == Phase::kAfter)
        push(Kind::kLoad, at, phase)->writes = {value.buffer};
      return;
    }
    if (is_accumulator(node.op)) return add_accumulator(at, phase);
    if (value.place != TilePlace::kShared || aliases(at)) return;
    if (node.op == Op::kMatmul && value.tensor_cores) return add_product(at, phase);
    const bool reduces = info(node.op).kind == OpClass::kReduction;
    TilePass* pass = push(reduces ? Kind::kReduce : Kind::kMap, at, phase);
    for (const int input : node.inputs) read_buffers(plan_, input, &pass->reads);
    pass->writes = {value.buffer};
  }

  // A view that is its operand's buffer under other dimensions.
  bool aliases(int at) const {
    const BlockNode& node = node_of(plan_, at);
    return info(node.op).kind == OpClass::kView && value_of(plan_, node.inputs[0]).buffer == value_of(plan_, at).buffer;
  }

  void add_product(int at, Phase phase) {
    const TileValue& value = value_of(plan_, at);
    TilePass* pass = push(Kind::kProduct, at, phase);
    for (const int input : node_of(plan_, at).inputs) read_buffers(plan_, input, &pass->reads);
    pass->writes = {value.parts >= 0 ? value.parts : value.buffer};
    add_total(at, phase);
  }

  void add_accumulator(int at, Phase phase) {
    const BlockNode& node = node_of(plan_, at);
    const TileValue& value = value_of(plan_, at);
    TilePass* pass = push(node.op == Op::kRunningMax ? Kind::kCarry : Kind::kAccumulate, at, phase);
    if (value.place == TilePlace::kFragments) {
      for (const int term : value.terms) {
        for (const int input : node_of(plan_, term).inputs) read_buffers(plan_, input, &pass->reads);
      }
    } else {
      read_buffers(plan_, folded(plan_, at), &pass->reads);
    }
    if (node.op == Op::kAccumulateRescaled) pass->reads.push_back(value_of(plan_, node.inputs[1]).change);
    if (node.op != Op::kRunningMax) return;
    pass->reads.push_back(value.buffer);
    pass->writes = {value.buffer};
    if (value.change >= 0) pass->writes.push_back(value.change);
  }

  void add_stores(Phase phase) {
    for (std::size_t at = 0; at < plan_.block.stores.size(); ++at) {
      const BlockStore& store = plan_.block.stores[at];
      const Phase own = store.map.loop.dim >= 0 ? Phase::kLoop : plan_.loops ? Phase::kAfter : Phase::kBefore;
      if (own == phase) read_buffers(plan_, store.value, &push(Kind::kStore, static_cast<int>(at), phase)->reads);
    }
  }

  TilePlan& plan_;
};

// The loop's passes: first, and one past the last.
std::pair<int, int> loop_range(const TilePlan& plan) {
  int first = 0, last = 0;
  for (const TilePass& pass : plan.passes) {
    first += pass.phase == Phase::kBefore;
    last += pass.phase != Phase::kAfter;
  }
  return {first, last};
}

// Buffers live from their first write to their last read; what the loop did not write itself, to its end.
void find_lifetimes(TilePlan* plan) {
  const std::pair<int, int> range = loop_range(*plan);
  const int loop = range.first, after = range.second;
  std::vector<bool> seen(plan->buffers.size(), false);
  const auto begin = [&](int buffer, int at) {
    TileBuffer& one = plan->buffers[static_cast<std::size_t>(buffer)];
    if (!seen[static_cast<std::size_t>(buffer)]) one.first = one.last = at;
    seen[static_cast<std::size_t>(buffer)] = true;
    one.last = std::max(one.last, at);
    if (one.first < loop && at >= loop) one.last = std::max(one.last, after - 1);
  };
  for (const int load : plan->early) begin(value_of(*plan, load).buffer, -1);
  for (const int load : plan->ring) {
    begin(value_of(*plan, load).buffer, -1);
    begin(value_of(*plan, load).buffer, after - 1);
  }
  for (int at = 0; at < static_cast<int>(plan->passes.size()); ++at) {
    const TilePass& pass = plan->passes[static_cast<std::size_t>(at)];
    for (const int buffer : pass.reads) begin(buffer, at);
    for (const int buffer : pass.writes) begin(buffer, at);
  }
}

// The lowest place free of all that live at the same time; large ones first.
void place_buffers(TilePlan* plan) {
  std::vector<std::size_t> order(plan->buffers.size());
  for (std::size_t at = 0; at < order.size(); ++at) order[at] = at;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return plan->buffers[a].bytes() > plan->buffers[b].bytes(); });
  std::vector<std::size_t> placed;
  for (const std::size_t at : order) {
    TileBuffer& buffer = plan->buffers[at];
    buffer.offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::size_t before : placed) {
        const TileBuffer& other = plan->buffers[before];
        if (buffer.last < other.first || other.last < buffer.first || !buffer.overlaps(other)) continue;
        buffer.offset = other.offset + other.bytes();
        moved = true;
      }
    }
    placed.push_back(at);
    plan->shared_memory = std::max(plan->shared_memory, buffer.offset + buffer.bytes());
  }
}

// A barrier stands where a pass meets, in memory, what another did since the last one, and one of the two wrote it.
class Barriers {
 public:
  explicit Barriers(TilePlan* plan) : plan_(*plan), pending_(static_cast<int>(plan->early.size()) + plan->ahead()) {}

  void run() {
    Phase phase = Phase::kBefore;
    for (TilePass& pass : plan_.passes) {
      // Each step begins with a barrier of its own; the last step's end is what comes before `after`.
      const bool streams = plan_.stream.on();
      if (phase == Phase::kBefore && pass.phase != Phase::kBefore && plan_.loops && !streams) clear();
      phase = pass.phase;
      if (phase == Phase::kBefore || streams) wait_for_loads(&pass);
      pass.barrier = pass.wait >= 0 || meets(pass.reads, false) || meets(pass.writes, true);
      if (pass.barrier) clear();
      reads_.insert(reads_.end(), pass.reads.begin(), pass.reads.end());
      writes_.insert(writes_.end(), pass.writes.begin(), pass.writes.end());
    }
  }

 private:
  void clear() {
    reads_.clear();
    writes_.clear();
  }

  bool meets(const std::vector<int>& buffers, bool write) const {
    return std::any_of(buffers.begin(), buffers.end(),
                       [&](int buffer) { return overlap(buffer, writes_) || (write && overlap(buffer, reads_)); });
  }

  bool overlap(int buffer, const std::vector<int>& others) const {
    const TileBuffer& one = plan_.buffers[static_cast<std::size_t>(buffer)];
    return std::any_of(others.begin(), others.end(),
                       [&](int other) { return one.overlaps(plan_.buffers[static_cast<std::size_t>(other)]); });
  }

  // Groups of copies end in order: one a load of the start, then the ring's.
  void wait_for_loads(TilePass* pass) {
    const int groups = static_cast<int>(plan_.early.size()) + plan_.ahead();
    for (std::size_t at = 0; at < plan_.early.size(); ++at) {
      const int buffer = value_of(plan_, plan_.early[at]).buffer;
      if (std::count(pass->reads.begin(), pass->reads.end(), buffer) == 0) continue;
      const int allowed = groups - 1 - static_cast<int>(at);
      if (allowed < pending_) pass->wait = pending_ = allowed;
    }
  }

  TilePlan& plan_;
  int pending_;
  std::vector<int> reads_, writes_;
};

}  // namespace

Phase tile_phase(const TilePlan& plan, const BlockNode& node) {
  if (!plan.loops) return Phase::kBefore;
  const bool moves = std::any_of(node.axes.begin(), node.axes.end(), [](const Axis& axis) { return axis.loop; });
  return node.op == Op::kLoad && node.phase == Phase::kLoop && !moves ? Phase::kBefore : node.phase;
}

void read_buffers(const TilePlan& plan, int node, std::vector<int>* buffers) {
  const TileValue& value = value_of(plan, node);
  const int own = value.buffer >= 0 ? value.buffer : value.parts;
  if (own >= 0) {
    if (std::count(buffers->begin(), buffers->end(), own) == 0) buffers->push_back(own);
    return;
  }
  for (const int input : node_of(plan, node).inputs) read_buffers(plan, input, buffers);
}

void add_passes(TilePlan* plan) {
  Passes(plan).run();
  find_lifetimes(plan);
  place_buffers(plan);
  Barriers(plan).run();
}

}  // namespace gqa
