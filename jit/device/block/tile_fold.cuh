// tile_fold.cuh: rows in global memory, folded as they come, before a loop that reads them once more in tiles.
// Owns: fold_eights().
// Never: keeps what it reads.
// Threads: lanes that share a row; each has elements of its own.
#pragma once

#include "block/tile_lanes.cuh"
#include "block/tile_stream.cuh"

namespace gqa {

// What fold() gives of a row of `size` 16-bit elements, whole eights, that begins at `row` of the tensor: term(j, x) of
// each, x being element j. Many eights are on their way at once: nothing else hides how far away they are.
template <typename Fold, typename T, typename Term>
__device__ inline float fold_eights(int lane, int size, int width, const void* tensor, long long row, Term term) {
  constexpr int kTogether = 8;
  float folded = Fold::neutral();
  for (int first = 8 * lane; first < size; first += 8 * width * kTogether) {
    u32 words[kTogether][4];
    load_eights<false>(words, tensor, [&](int i, long long& offset) {
      offset = row + first + 8 * width * i;
      return first + 8 * width * i < size;
    });
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int begin = first + 8 * width * i;
      if (begin >= size) break;
#pragma unroll
      for (int k = 0; k < 8; ++k)
        folded = Fold::join(folded, term(begin + k, T::to_float(static_cast<u16>(words[i][k / 2] >> (k % 2 * 16)))));
    }
  }
  return folded;
}

}  // namespace gqa
