// tile_launch.h: one launch of a tile kernel under the emulator.
// Owns: its arguments: the tensors, and where thread blocks share a loop the memory in which they meet, which is given
// poisoned, with counters that have to be zero again afterwards.
// Never: compiles or compares.
// Threads: one.
#pragma once

#include <algorithm>

#include "jit/block/tile_codegen.h"
#include "tests/simt/emulator/buffer.h"
#include "tests/simt/emulator/kernel.h"

namespace gqa::simt {

inline Status launch_tile(const KernelGraph& graph, const Kernel& kernel, std::vector<void*> pointers,
                          const Schedule& schedule) {
  const TileLaunch launch = tile_launch(graph);
  const auto counters = static_cast<std::size_t>(launch.counters);
  Buffer partials("partials", std::max<std::size_t>(4, static_cast<std::size_t>(launch.partial_floats) * 4));
  Buffer arrived("arrived", std::max<std::size_t>(4, counters * 4));
  partials.poison();
  std::fill_n(arrived.as<unsigned int>(), std::max<std::size_t>(1, counters), 0U);
  if (counters > 0) pointers.insert(pointers.end(), {partials.data(), arrived.data()});
  std::vector<void*> arguments;
  for (void*& pointer : pointers) arguments.push_back(&pointer);
  Launch wanted = {{static_cast<unsigned>(launch.blocks), 1, 1},
                   {static_cast<unsigned>(launch.threads), 1, 1},
                   static_cast<std::size_t>(launch.shared_memory),
                   arguments.data()};
  wanted.workspace = &partials;
  const Status status = kernel.launch(wanted, schedule);
  const auto* left = arrived.as<unsigned int>();
  if (status.ok() && std::any_of(left, left + counters, [](unsigned int count) { return count != 0; }))
    return {Code::kDeviceFailed, "a counter of arrivals is not zero after the launch"};
  return status;
}

}  // namespace gqa::simt
