// cached_pages.h: the memory of pages.
// Owns: where each page of each of a pool's tensors lies, and copying one page over another in all of them.
// Never: owns that memory, or knows who holds a page.
// Threads: constant after construction; copy() from many threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/call/view.h"
#include "runtime/device.h"

namespace gqa {

class CachedPages {
 public:
  // Each view's first dimension counts pages. `device` outlives it.
  CachedPages(const Device& device, const std::vector<View>& tensors);
  // Queued on the stream, where the device has such.
  Status copy(std::int32_t from, std::int32_t to, void* stream) const;

 private:
  // A page as pieces without gaps: all but the pieces' own dimensions are walked.
  struct Layout {
    std::uintptr_t first;      // the lowest byte of page 0
    std::int64_t page_stride;  // bytes
    std::size_t piece;         // bytes
    struct Walk {
      std::int64_t size = 1, stride = 0;  // bytes
    };
    std::array<Walk, View::kMaxRank - 1> walks;
  };
  static Layout layout_of(const View& view);

  const Device& device_;
  std::vector<Layout> layouts_;
};

}  // namespace gqa
