// pages.cc: see pages.h.
// Threads: every function is entered with the GIL held and lets go of it where the library may copy pages or wait.
#include "pages.h"

#include "borrow.h"
#include "errors.h"

namespace py = pybind11;

namespace gqa::python {
namespace {

// Without the GIL, for another thread may be copying pages under the pool's lock.
template <typename Call>
void call_outside(HandleOwner& owner, const Call& call) {
  gqa_status status;
  {
    const Outside outside(&owner.calls);
    status = call();
  }
  if (status != GQA_OK) raise_last(status);
}

int32_t count_of(const std::vector<int64_t>& sequences) { return static_cast<int32_t>(sequences.size()); }

}  // namespace

PagePool::PagePool(const Handle& handle, const std::vector<py::object>& caches) : owner_(handle.open()) {
  const BorrowedAll tensors(caches, "caches[", "]", true);
  call_outside(*owner_, [&] { return gqa_page_pool_create(owner_->handle, tensors.data(), tensors.size(), &pool_); });
}

PagePool::~PagePool() { gqa_page_pool_destroy(pool_); }

gqa_page_pool PagePool::get() const {
  owner_->begin();
  if (owner_->abandoned)
    raise(GQA_ERROR_OPTION, "this gqa.PagePool was made before the process forked; make a new one here");
  return pool_;
}

int64_t PagePool::add() const {
  int64_t sequence = 0;
  const gqa_page_pool pool = get();
  call_outside(*owner_, [&] { return gqa_page_pool_add(pool, &sequence); });
  return sequence;
}

int64_t PagePool::share(int64_t sequence, int64_t tokens) const {
  int64_t copy = 0;
  const gqa_page_pool pool = get();
  call_outside(*owner_, [&] { return gqa_page_pool_share(pool, sequence, tokens, &copy); });
  return copy;
}

void PagePool::append(const std::vector<int64_t>& sequences, const std::vector<int32_t>& tokens, int64_t columns,
                      uintptr_t stream) const {
  if (sequences.size() != tokens.size())
    raise(GQA_ERROR_SHAPE, "there are " + std::to_string(sequences.size()) + " sequences and " +
                               std::to_string(tokens.size()) + " tokens; expected as many of each");
  const gqa_page_pool pool = get();
  call_outside(*owner_, [&] {
    return gqa_page_pool_append_within(pool, sequences.data(), tokens.data(), count_of(sequences), columns,
                                       reinterpret_cast<void*>(stream));
  });
}

void PagePool::truncate(int64_t sequence, int64_t tokens) const {
  const gqa_page_pool pool = get();
  call_outside(*owner_, [&] { return gqa_page_pool_truncate(pool, sequence, tokens); });
}

void PagePool::free(const std::vector<int64_t>& sequences) const {
  const gqa_page_pool pool = get();
  call_outside(*owner_, [&] { return gqa_page_pool_free(pool, sequences.data(), count_of(sequences)); });
}

void PagePool::table(const std::vector<int64_t>& sequences, py::object table, py::object lengths) const {
  Borrowed rows, numbers;
  rows.take(table, "table", true);
  numbers.take(lengths, "lengths", true);
  const gqa_page_pool pool = get();
  // gqa.PagePool made both, contiguous int32 of as many rows.
  call_outside(*owner_, [&] {
    return gqa_page_pool_table(pool, sequences.data(), count_of(sequences), rows.tensor()->shape[1],
                               static_cast<int32_t*>(rows.tensor()->data),
                               static_cast<int32_t*>(numbers.tensor()->data));
  });
}

int64_t PagePool::length(int64_t sequence) const {
  int64_t tokens = 0;
  const gqa_page_pool pool = get();
  call_outside(*owner_, [&] { return gqa_page_pool_length(pool, sequence, &tokens); });
  return tokens;
}

int32_t PagePool::free_pages() const {
  int32_t pages = 0;
  const gqa_page_pool pool = get();
  call_outside(*owner_, [&] { return gqa_page_pool_free_pages(pool, &pages); });
  return pages;
}

void PagePool::define(py::module_& module) {
  py::class_<PagePool>(module, "PagePool", "A gqa_page_pool. Use gqa.PagePool, which wraps it.")
      .def(py::init<const Handle&, const std::vector<py::object>&>(), py::arg("handle"), py::arg("caches"))
      .def("add", &PagePool::add)
      .def("share", &PagePool::share, py::arg("sequence"), py::arg("tokens"))
      .def("append", &PagePool::append, py::arg("sequences"), py::arg("tokens"), py::arg("columns"), py::arg("stream"))
      .def("truncate", &PagePool::truncate, py::arg("sequence"), py::arg("tokens"))
      .def("free", &PagePool::free, py::arg("sequences"))
      .def("table", &PagePool::table, py::arg("sequences"), py::arg("table"), py::arg("lengths"))
      .def("length", &PagePool::length, py::arg("sequence"))
      .def("free_pages", &PagePool::free_pages);
}

}  // namespace gqa::python
