// tensor_maps.h: the descriptors that TMA reads, laid out the same by the host compiler and by NVRTC.
// Owns: TensorMap, 128 opaque bytes that the driver encodes, and TensorMaps, the second argument of a kernel that loads
// by TMA.
// Never: holds anything that shapes code; boxes and swizzles follow from the candidate
// (runtime/cuda/launch/tensor_map.cc). Threads: plain data, read-only on the device.
#pragma once

namespace gqa {

struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// k, v: (column, row, head, batch); q, out: (column, head in group, row, head group, batch), so that the packed heads
// of a group are rows of one box. Boxes: 64 columns of q: tile_m rows, of k and v: tile_n, of out: 64. k where it lies
// transposed: (key, column, head, batch), boxes of 64 keys and all columns.
struct TensorMaps {
  TensorMap q, k, v, out;
};

}  // namespace gqa
