// tile_readers.cc: see tile_readers.h.
#include "search/graph/tile/tile_readers.h"

#include "search/graph/tile/tile_passes.h"

namespace gqa {

TileReaders tile_readers(const TilePlan& plan) {
  const std::vector<BlockNode>& nodes = plan.block.nodes;
  TileReaders readers(nodes.size());
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    for (std::size_t which = 0; which < nodes[at].inputs.size(); ++which)
      readers[static_cast<std::size_t>(nodes[at].inputs[which])].push_back(
          {static_cast<int>(at), which, tile_phase(plan, nodes[at])});
  }
  for (const BlockStore& store : plan.block.stores) {
    const Phase phase = !plan.loops ? Phase::kBefore : store.map.loop.dim >= 0 ? Phase::kLoop : Phase::kAfter;
    readers[static_cast<std::size_t>(store.value)].push_back({-1, 0, phase});
  }
  return readers;
}

std::vector<ElementType> tile_types(const KernelGraph& graph, const KernelNode& kernel, const BlockGraph& block) {
  std::vector<ElementType> types;
  for (const BlockNode& each : block.nodes) {
    ElementType type = ElementType::kF32;
    if (each.op == Op::kLoad) type = graph.spec(kernel.inputs[static_cast<std::size_t>(each.operand)]).type;
    for (std::size_t at = 0; at < each.inputs.size(); ++at) {
      const ElementType other = types[static_cast<std::size_t>(each.inputs[at])];
      type = at == 0 ? other : common(type, other);
    }
    types.push_back(type);
  }
  return types;
}

}  // namespace gqa
