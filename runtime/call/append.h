// append.h: what a call does to its cache before it attends: new keys and values are written into it, queries and new
// keys are rotated, and sequences are found by their rows of the cache and their left padding.
// Owns: Append, the numbers of that beside the call's tensors, and what a device makes of it (Appender).
// Never: checks tensors; append_args.h does.
// Threads: Appender::run() from many threads at once.
#pragma once

#include <cstdint>

#include "search/status.h"

namespace gqa {

struct Call;
class LoadedProgram;

struct Append {
  std::int32_t rows = 0, count = 0;  // new keys of all sequences; of each, where they are not packed
  std::int32_t rotary_dim = 0, rotary_len = 0;
  bool interleaved = false;
  bool advances = false;                                // query i is rotated by a position i further than the first
  std::int32_t page = 0, pages = 0;                     // of the cache as given, or of its rows as pages; 0: none
  std::int64_t k_batch_stride = 0, v_batch_stride = 0;  // of the cache: Call's are 0 where sequences are found by rows
  std::int32_t cache_batch = 0;                         // rows of the cache, or of the page table
  // Rows of keys from one's first to the next's, and of values.
  std::int32_t cache_batch_rows = 0, cache_batch_values = 0;
};

class Appender {
 public:
  virtual ~Appender() = default;
  // Appends as the call says, and then attends. The hot path: allocates and formats nothing once warm.
  virtual Status run(const Call& call, const LoadedProgram& program) const = 0;
  // Bytes of device memory between the two; 0 on the host.
  virtual std::int64_t workspace_bytes(const Call&) const { return 0; }
};

}  // namespace gqa
