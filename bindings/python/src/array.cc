// array.cc: gqa.Array. See array.h.
// Threads: GIL held, but for the deleter of an export, which needs none.
#include "array.h"

#include <cstdlib>
#include <new>

#include "errors.h"

namespace py = pybind11;

namespace gqa::python {

namespace {

constexpr size_t kAlignment = 64;  // a cache line, and more than any tile wants

struct Export {
  DLManagedTensor managed;
  std::vector<int64_t> shape, strides;
  std::shared_ptr<std::byte> data;
};

void delete_export(DLManagedTensor* managed) { delete static_cast<Export*>(managed->manager_ctx); }

// A capsule that nobody consumed frees its tensor itself.
void drop_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

std::shared_ptr<std::byte> allocate(const std::vector<int64_t>& shape, int bits) {
  size_t bytes = static_cast<size_t>(bits / 8);
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) throw std::bad_alloc();
  bytes = (bytes + kAlignment) / kAlignment * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
  if (data == nullptr) throw std::bad_alloc();
  return {data, [](std::byte* p) { std::free(p); }};
}

}  // namespace

Array::Array(std::vector<int64_t> shape, int code, int bits)
    : shape_(std::move(shape)),
      strides_(shape_.size(), 1),
      dtype_{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1},
      data_(allocate(shape_, bits)) {
  for (size_t i = shape_.size(); i-- > 1;) strides_[i - 1] = strides_[i] * shape_[i];
}

py::capsule Array::dlpack() const {
  auto* made = new Export{{}, shape_, strides_, data_};
  const int rank = static_cast<int>(made->shape.size());
  made->managed = {DLTensor{data_.get(), {kDLCPU, 0}, rank, dtype_, made->shape.data(), made->strides.data(), 0}, made,
                   delete_export};
  PyObject* capsule = PyCapsule_New(&made->managed, "dltensor", drop_unused);
  if (capsule == nullptr) {
    delete made;
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::capsule>(capsule);
}

py::tuple Array::shape() const {
  py::tuple shape(shape_.size());
  for (size_t i = 0; i < shape_.size(); ++i) shape[i] = shape_[i];
  return shape;
}

std::string Array::dtype() const {
  const char* const kind = dtype_.code == kDLBfloat ? "bfloat" : dtype_.code == kDLInt ? "int" : "float";
  return kind + std::to_string(dtype_.bits);
}

void Array::define(py::module_& module) {
  // Every keyword of the array API's __dlpack__ is taken; what they could ask for beyond host memory is refused.
  const auto dlpack = [](const Array& self, py::object stream, py::object, py::object device, py::object copy) {
    if (!stream.is_none()) raise(GQA_ERROR_OPTION, "__dlpack__ of a host array was given a stream; expected None");
    if (!device.is_none() && !device.equal(py::make_tuple(static_cast<int>(kDLCPU), 0)))
      throw py::buffer_error("a gqa.Array lives on the host; copy it with the framework that asks");
    if (!copy.is_none() && py::bool_(copy)) throw py::buffer_error("a gqa.Array is exported without a copy only");
    return self.dlpack();
  };
  py::class_<Array>(module, "Array",
                    "Host memory that speaks DLPack: what a call returns to a framework unknown to it.")
      .def("__dlpack__", dlpack, py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
           py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const Array&) { return py::make_tuple(static_cast<int>(kDLCPU), 0); })
      .def_property_readonly("shape", &Array::shape)
      .def_property_readonly("dtype", &Array::dtype)
      .def("__repr__", [](const Array& self) {
        return "gqa.Array(shape=" + py::str(self.shape()).cast<std::string>() + ", dtype=" + self.dtype() + ")";
      });
  module.def(
      "empty", [](std::vector<int64_t> shape, int code, int bits) { return Array(std::move(shape), code, bits); },
      py::arg("shape"), py::arg("code"), py::arg("bits"));
}

}  // namespace gqa::python
