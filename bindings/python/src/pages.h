// pages.h: gqa_page_pool as a Python object.
// Owns: the pool's life, which keeps its handle's.
// Never: keeps or allocates tensors, or knows a framework (gqa/ does).
// Threads: any number at once.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "handle.h"

namespace gqa::python {

class PagePool {
 public:
  PagePool(const Handle& handle, const std::vector<pybind11::object>& caches);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  int64_t add() const;
  int64_t share(int64_t sequence, int64_t tokens) const;
  void append(const std::vector<int64_t>& sequences, const std::vector<int32_t>& tokens, int64_t columns,
              uintptr_t stream) const;
  void truncate(int64_t sequence, int64_t tokens) const;
  void free(const std::vector<int64_t>& sequences) const;
  void table(const std::vector<int64_t>& sequences, pybind11::object table, pybind11::object lengths) const;
  int64_t length(int64_t sequence) const;
  int32_t free_pages() const;
  static void define(pybind11::module_& module);

 private:
  gqa_page_pool get() const;  // raises where it is of a process that forked

  std::shared_ptr<HandleOwner> owner_;
  gqa_page_pool pool_ = nullptr;
};

}  // namespace gqa::python
