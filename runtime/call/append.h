// append.h: what a call does to its cache before it attends: new keys and values are written into it, queries and new
// keys are rotated, and sequences are found by their rows of the cache and their left padding.
// Owns: Append, the numbers of that beside the call's tensors.
// Never: checks tensors; append_args.h does.
// Threads: a value.
#pragma once

#include <cstdint>

namespace gqa {

struct Append {
  std::int32_t rows = 0, count = 0;  // new keys of all sequences; of each, where they are not packed
  std::int32_t rotary_dim = 0, rotary_len = 0;
  bool interleaved = false;
  bool advances = false;             // query i is rotated by a position i further than the first
  std::int32_t page = 0, pages = 0;  // of the cache as given, or of its rows as pages; 0: none
  std::int32_t cache_batch = 0;      // rows of the cache, or of the page table
  // Rows of keys from one's first to the next's, and of values.
  std::int32_t cache_batch_rows = 0, cache_batch_values = 0;
};

}  // namespace gqa
