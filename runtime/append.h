// append.h: what a call does to its cache before it attends: new keys and values are written into it, queries and new
// keys are rotated, and sequences are found by their rows of the cache and their left padding.
// Owns: Append, plain data filled on the hot path beside Call, and what a device makes of it (Appender).
// Never: checks tensors; append_args.h does.
// Threads: Appender::run() from many threads at once.
#pragma once

#include <cstdint>

#include "runtime/program.h"
#include "search/status.h"

namespace gqa {

struct Call;
class LoadedProgram;

// Pointers are null where the call has no such thing. Lists are of a number a sequence, on the device.
struct Append {
  const void *k = nullptr, *v = nullptr;        // new keys and values
  Strides k_strides, v_strides;                 // batch 0 where they are packed
  std::int32_t rows = 0, count = 0;             // of all sequences; of each, where they are not packed
  const std::int32_t* starts = nullptr;         // of packed ones: batch + 1
  const void *cos = nullptr, *sin = nullptr;    // (rotary_len, rotary_dim / 2), of q's type
  std::int64_t cos_stride = 0, sin_stride = 0;  // from row to row
  std::int32_t rotary_dim = 0, rotary_len = 0;
  bool interleaved = false;
  bool advances = false;                        // query i is rotated by a position i further than the first
  const std::int32_t* rotary_starts = nullptr;  // null: a sequence's rotation begins at its cached length
  const std::int32_t *batch_idx = nullptr, *leftpad = nullptr;
  std::int32_t page = 0, pages = 0;  // of the cache, as it is given, or of its rows taken as pages; 0: it has none
  std::int64_t k_batch_stride = 0, v_batch_stride = 0;  // of the cache: Call's are 0 where sequences are found by rows
  std::int32_t cache_batch = 0;                         // rows of the cache, or of the page table
  // Rows of keys from one's first to the next's, and of values.
  std::int32_t cache_batch_rows = 0, cache_batch_values = 0;

  // Whether sequences begin anywhere. A dense cache is then attended to as packed keys, whose starts run() makes, and
  // one in pages by a table that run() makes: of the same pages, or, with padding, of one slot each. So is a dense one
  // whose rows are not a whole number of slots apart: each of its rows is a page.
  bool anywhere() const { return batch_idx != nullptr || leftpad != nullptr; }
  bool makes_starts() const { return anywhere() && page == 0; }
  bool makes_table() const { return anywhere() && page > 0; }
  bool values_apart() const { return makes_starts() && cache_batch_values != cache_batch_rows; }
};

class Appender {
 public:
  virtual ~Appender() = default;
  // Appends as call.append says, and then attends. The hot path: allocates and formats nothing once warm.
  virtual Status run(const Call& call, const LoadedProgram& program) const = 0;
  // Bytes of device memory between the two; 0 on the host.
  virtual std::int64_t workspace_bytes(const Call&) const { return 0; }
};

}  // namespace gqa
