// borrow.h: a Python object seen as a DLTensor for the time of one call.
// Owns: the DLPack capsule protocol (consume, rename, call the deleter) and the buffer protocol, which NumPy arrays go
// through because it also takes read-only ones and costs less; a type with DLPack's exchange API needs neither.
// Never: copies data, asks a framework anything (gqa/_frameworks.py does), or looks at shapes: gqa_run_ex does.
// Threads: made and destroyed with the GIL held; tensor() may be read without it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "gqa.h"

namespace gqa::python {

// What DLPack 1.x wraps a tensor in ("dltensor_versioned"); Debian's header is older than that struct.
struct VersionedTensor {
  static constexpr uint64_t kReadOnly = 1;
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(VersionedTensor*);
  uint64_t flags;
  DLTensor dl_tensor;
};

class Borrowed {
 public:
  Borrowed() = default;
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  // source: a DLPack capsule, or an object with the buffer protocol or the exchange API, which must outlive this. name
  // is how errors call the tensor.
  void take(pybind11::handle source, const char* name, bool writable);
  const DLTensor* tensor() const { return tensor_; }

 private:
  static constexpr int kMaxRank = 64;  // NumPy's; the library says what rank it wants
  void take_capsule(PyObject* capsule, const char* name, bool writable);
  void take_buffer(PyObject* object, const char* name, bool writable);
  void get_buffer(PyObject* object, const char* name, bool writable);
  void describe_buffer(const char* name);

  const DLTensor* tensor_ = nullptr;
  DLManagedTensor* managed_ = nullptr;
  VersionedTensor* versioned_ = nullptr;
  bool has_view_ = false;
  bool bfloat16_ = false;  // the buffer holds bfloat16 though it says uint16
  Py_buffer view_;
  DLTensor described_;
  int64_t shape_[kMaxRank], strides_[kMaxRank];
};

// Tensors for the time of one call; errors call them `before`, their number, `after`.
class BorrowedAll {
 public:
  BorrowedAll(const std::vector<pybind11::object>& sources, const std::string& before, const char* after,
              bool writable);
  const DLTensor* const* data() const { return addresses_.data(); }
  int size() const { return static_cast<int>(addresses_.size()); }

 private:
  std::unique_ptr<Borrowed[]> tensors_;
  std::vector<const DLTensor*> addresses_;
};

// (shape, dtype code, dtype bits, device type, device id) of a capsule, which stays unconsumed.
pybind11::tuple describe_capsule(pybind11::handle capsule);

}  // namespace gqa::python
