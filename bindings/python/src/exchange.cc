// exchange.cc: see exchange.h.
#include "exchange.h"

#include <cstdint>

namespace py = pybind11;

namespace gqa::python {

namespace {

constexpr char kAttribute[] = "__dlpack_c_exchange_api__";
constexpr char kTableCapsule[] = "dlpack_exchange_api";
constexpr uint32_t kTableMajor = 1;

struct ExchangeApi {
  uint32_t major, minor;
  const ExchangeApi* previous;
  void *allocate, *managed_of, *object_of;
  int (*describe)(void* object, DLTensor* tensor);  // may be null
  void* current_stream;
};

// Null: none, or one of a version that this library does not read.
const ExchangeApi* api_of(PyTypeObject* type) {
  PyObject* capsule = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), kAttribute);
  if (capsule == nullptr) PyErr_Clear();
  const ExchangeApi* api = nullptr;
  if (capsule != nullptr && PyCapsule_IsValid(capsule, kTableCapsule) != 0)
    api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule, kTableCapsule));
  Py_XDECREF(capsule);
  while (api != nullptr && api->major != kTableMajor) api = api->previous;
  return api != nullptr && api->describe != nullptr ? api : nullptr;
}

}  // namespace

bool describe_by_exchange(PyObject* object, DLTensor* tensor, bool* failed) {
  static PyTypeObject* last = nullptr;  // held, so that no other type gets its address
  static const ExchangeApi* last_api = nullptr;
  PyTypeObject* const type = Py_TYPE(object);
  if (type != last) {
    const ExchangeApi* const api = api_of(type);
    if (api == nullptr) return false;
    Py_INCREF(type);
    Py_XDECREF(last);
    last = type;
    last_api = api;
  }
  *failed = last_api->describe(object, tensor) != 0;
  return true;
}

}  // namespace gqa::python
