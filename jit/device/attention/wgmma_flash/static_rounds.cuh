// static_rounds.cuh: the static tile scheduler: rounds over the grid.
// Owns: StaticRounds, which tile is whose.
// Never: needs memory.
// Threads: one producer thread of each CTA.
#pragma once

#include "attention/wgmma_flash/schedule.cuh"

namespace gqa {

// Round by round over the SMs, every other round backwards, so that who began with a long tile ends with a short one.
// The kResident CTAs of an SM, which start one grid's share apart, take its rounds by turns. A cluster is as one CTA.
template <typename Config>
__device__ inline int round_tile(int index) {
  const int cluster = blockIdx.x / cluster_size<Config>();
  const int sms = gridDim.x / (Config::kResident * cluster_size<Config>());
  int first = cluster;
  int round = index * Config::kResident;
#pragma unroll
  for (int i = 1; Config::kResident > 1 && i <= Config::kResident; ++i) {  // a division would take longer
    if (first < sms) break;
    first -= sms;
    ++round;
  }
  return round * sms + (round % 2 == 0 ? first : sms - 1 - first);
}

struct StaticRounds : WholeTiles {
  template <typename Config>
  struct Tiles : TicketWriter<Config> {
    using TicketWriter<Config>::p;

    int number = round_tile<Config>(0);
    int index = 0;
    int reserved = 0;

    using TicketWriter<Config>::TicketWriter;

    __device__ bool more() { return this->has(p, number); }
    __device__ void reserve() { reserved = round_tile<Config>(++index); }
    __device__ void next() { number = reserved; }
  };
};

}  // namespace gqa
