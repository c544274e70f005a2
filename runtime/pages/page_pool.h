// page_pool.h: the pages of a key/value cache, given to sequences, shared among them and taken back.
// Owns: the order of an append: numbers first, then copies of the shared pages that are to be written; all or nothing.
// Never: owns the tensors, reads lengths or tables on a device, or waits for a stream.
// Threads: any number at once; each call is one step.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "runtime/pages/cached_pages.h"
#include "runtime/pages/page_numbers.h"

namespace gqa {

class PagePool {
 public:
  // Views of (pages, page, ...) tensors, at least one, that agree in both. `device` outlives the pool.
  PagePool(const Device& device, const std::vector<View>& tensors)
      : device_(device),
        numbers_(static_cast<std::int32_t>(tensors[0].size[0]), static_cast<std::int32_t>(tensors[0].size[1])),
        memory_(device, tensors) {}

  std::int64_t add();
  Status share(std::int64_t sequence, std::int64_t tokens, std::int64_t* copy);
  Status append(std::span<const std::int64_t> sequences, const std::int32_t* tokens, void* stream,
                std::int64_t most = PageNumbers::kAnyPages);
  Status truncate(std::int64_t sequence, std::int64_t tokens);
  Status free(std::span<const std::int64_t> sequences);
  Status tokens(std::int64_t sequence, std::int64_t* tokens);
  Status table(std::span<const std::int64_t> sequences, std::int64_t columns, std::int32_t* table,
               std::int32_t* tokens);
  std::int32_t free_pages();

 private:
  Status copy_shared(void* stream) const;

  const Device& device_;
  std::mutex mutex_;  // guards what follows
  PageNumbers numbers_;
  const CachedPages memory_;
  std::vector<PageGrowth> growths_;  // of the last append; kept for its memory
};

}  // namespace gqa
