// cached_pages.cc: see cached_pages.h.
#include "runtime/pages/cached_pages.h"

#include <algorithm>
#include <cstdlib>

namespace gqa {

CachedPages::CachedPages(const Device& device, const std::vector<View>& tensors) : device_(device) {
  for (const View& view : tensors) layouts_.push_back(layout_of(view));
}

CachedPages::Layout CachedPages::layout_of(const View& view) {
  Layout layout = {view.data, view.stride[0] * view.element, static_cast<std::size_t>(view.element), {}};
  for (int i = 1; i < view.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    layout.walks[at - 1] = {view.size[at], std::llabs(view.stride[at]) * view.element};
    if (view.stride[at] < 0)
      layout.first -= static_cast<std::uintptr_t>((view.size[at] - 1) * layout.walks[at - 1].stride);
  }
  // What lies next to each other is one piece.
  std::sort(layout.walks.begin(), layout.walks.end(),
            [](const Layout::Walk& a, const Layout::Walk& b) { return a.stride < b.stride; });
  for (Layout::Walk& walk : layout.walks) {
    if (walk.size > 1 && walk.stride != static_cast<std::int64_t>(layout.piece)) break;
    layout.piece *= static_cast<std::size_t>(walk.size);
    walk = {};
  }
  return layout;
}

Status CachedPages::copy(std::int32_t from, std::int32_t to, void* stream) const {
  for (const Layout& layout : layouts_) {
    const std::uintptr_t source = layout.first + static_cast<std::uintptr_t>(from * layout.page_stride);
    const std::uintptr_t target = layout.first + static_cast<std::uintptr_t>(to * layout.page_stride);
    const auto& [inner, middle, outer] = layout.walks;
    for (std::int64_t i = 0; i < outer.size; ++i)
      for (std::int64_t j = 0; j < middle.size; ++j)
        for (std::int64_t k = 0; k < inner.size; ++k) {
          const auto step = static_cast<std::uintptr_t>(i * outer.stride + j * middle.stride + k * inner.stride);
          const Status status = device_.copy(reinterpret_cast<void*>(target + step),
                                             reinterpret_cast<const void*>(source + step), layout.piece, stream);
          if (!status.ok()) return status;
        }
  }
  return {};
}

}  // namespace gqa
