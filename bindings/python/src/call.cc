// call.cc: see call.h.
#include "call.h"

#include <array>
#include <chrono>
#include <exception>
#include <new>

#include "borrow.h"
#include "errors.h"
#include "handle.h"

namespace py = pybind11;

namespace gqa::python {
namespace {

enum At : Py_ssize_t {
  kQ,
  kK,
  kV,
  kOut,
  kLse,
  kScale,
  kCausal,
  kStream,
  kSoftcap,
  kSink,
  kCacheSeqlens,
  kPageTable,
  kWindow,
  kCuSeqlensQ,
  kCuSeqlensK,
  kSequsedQ,
  kMaxSeqlenQ,
  kMaxSeqlenK,
  kAppend,
  kArrays,
  kTuning,
  kArguments
};
constexpr Py_ssize_t kLeastArguments = kSoftcap;
constexpr Py_ssize_t kRotaryInterleaved = 6;  // of append

struct Field {
  Py_ssize_t at;
  const char* name;
  const DLTensor* gqa_call::*field;
  bool written = false;
};
constexpr std::array kFields = {Field{kLse, "lse", &gqa_call::lse, true},
                                Field{kSink, "sink", &gqa_call::sink},
                                Field{kCacheSeqlens, "cache_seqlens", &gqa_call::cache_seqlens},
                                Field{kPageTable, "page_table", &gqa_call::page_table},
                                Field{kCuSeqlensQ, "cu_seqlens_q", &gqa_call::cu_seqlens_q},
                                Field{kCuSeqlensK, "cu_seqlens_k", &gqa_call::cu_seqlens_k},
                                Field{kSequsedQ, "seqused_q", &gqa_call::seqused_q}};
// By their names, in a dictionary.
constexpr std::array kNamed = {Field{kArrays, "score_scale", &gqa_call::score_scale},
                               Field{kArrays, "bias", &gqa_call::bias}};
constexpr std::array kAppended = {Field{0, "k_new", &gqa_call::k_new},
                                  Field{1, "v_new", &gqa_call::v_new},
                                  Field{2, "cu_seqlens_k_new", &gqa_call::cu_seqlens_k_new},
                                  Field{3, "rotary_cos", &gqa_call::rotary_cos},
                                  Field{4, "rotary_sin", &gqa_call::rotary_sin},
                                  Field{5, "rotary_seqlens", &gqa_call::rotary_seqlens},
                                  Field{7, "cache_batch_idx", &gqa_call::cache_batch_idx},
                                  Field{8, "cache_leftpad", &gqa_call::cache_leftpad}};

void check(bool ok) {
  if (!ok) throw py::error_already_set();
}

double real(PyObject* given) {
  const double value = PyFloat_AsDouble(given);
  check(value != -1 || PyErr_Occurred() == nullptr);
  return value;
}

long long whole(PyObject* given) {
  const long long value = PyLong_AsLongLong(given);
  check(value != -1 || PyErr_Occurred() == nullptr);
  return value;
}

bool truth(PyObject* given) {
  const int value = PyObject_IsTrue(given);
  check(value >= 0);
  return value == 1;
}

// What one call hands in, for as long as it takes.
class Arguments {
 public:
  Arguments(PyObject* const* given, Py_ssize_t count) : given_(given), count_(count) {
    if (count < kLeastArguments || count > kArguments) {
      PyErr_Format(PyExc_TypeError, "run() takes %zd to %zd arguments (%zd given)", kLeastArguments,
                   static_cast<Py_ssize_t>(kArguments), count);
      throw py::error_already_set();
    }
    PyObject* const append = at(kAppend);
    const bool appends = append != Py_None && PyTuple_GET_ITEM(append, 0) != Py_None;
    q_.take(at(kQ), "q", false);
    k_.take(at(kK), "k", appends);  // into the cache
    v_.take(at(kV), "v", appends);
    if (at(kOut) != Py_None) out_.take(at(kOut), "out", true);
    call_.size = sizeof(call_);
    call_.scale = static_cast<float>(real(at(kScale)));
    call_.causal = truth(at(kCausal)) ? 1 : 0;
    call_.stream = PyLong_AsVoidPtr(at(kStream));
    check(call_.stream != nullptr || PyErr_Occurred() == nullptr);
    for (std::size_t i = 0; i < kFields.size(); ++i) take(kFields[i], at(kFields[i].at), &tensors_[i]);
    read_numbers();
    if (append != Py_None) take_appended(append);
    if (at(kArrays) != Py_None) take_named(at(kArrays));
  }

  gqa_call& call() { return call_; }
  template <typename Function>
  gqa_status hand_to(gqa_handle handle, Function function) const {
    return function(handle, q_.tensor(), k_.tensor(), v_.tensor(), out_.tensor(), &call_);
  }

 private:
  PyObject* at(Py_ssize_t index) const { return index < count_ ? given_[index] : Py_None; }

  void take(const Field& field, PyObject* given, Borrowed* tensor) {
    if (given == Py_None) return;
    tensor->take(given, field.name, field.written);
    call_.*field.field = tensor->tensor();
  }

  void read_numbers() {
    if (at(kSoftcap) != Py_None) call_.softcap = static_cast<float>(real(at(kSoftcap)));
    if (at(kMaxSeqlenQ) != Py_None) call_.max_seqlen_q = whole(at(kMaxSeqlenQ));
    if (at(kMaxSeqlenK) != Py_None) call_.max_seqlen_k = whole(at(kMaxSeqlenK));
    if (at(kTuning) != Py_None) call_.tuning = static_cast<gqa_call_tuning>(whole(at(kTuning)));
    if (PyObject* const window = at(kWindow); window != Py_None) {
      for (Py_ssize_t side = 0; side < 2; ++side)
        window_[static_cast<std::size_t>(side)] = static_cast<std::int32_t>(whole(PyTuple_GET_ITEM(window, side)));
      call_.window_size = window_.data();
    }
  }

  void take_appended(PyObject* append) {
    for (std::size_t i = 0; i < kAppended.size(); ++i)
      take(kAppended[i], PyTuple_GET_ITEM(append, kAppended[i].at), &tensors_[kFields.size() + i]);
    call_.rotary_interleaved = truth(PyTuple_GET_ITEM(append, kRotaryInterleaved)) ? 1 : 0;
  }

  void take_named(PyObject* arrays) {
    Py_ssize_t taken = 0;
    for (std::size_t i = 0; i < kNamed.size(); ++i) {
      PyObject* const given = PyDict_GetItemString(arrays, kNamed[i].name);
      if (given == nullptr) continue;
      take(kNamed[i], given, &tensors_[kFields.size() + kAppended.size() + i]);
      ++taken;
    }
    if (taken == PyDict_Size(arrays)) return;
    PyErr_Format(PyExc_TypeError, "run() takes arrays by the names of gqa_call's fields, found %R", arrays);
    throw py::error_already_set();
  }

  PyObject* const* given_;
  const Py_ssize_t count_;
  gqa_call call_ = {};
  std::array<std::int32_t, 2> window_;
  Borrowed q_, k_, v_, out_;
  std::array<Borrowed, kFields.size() + kAppended.size() + kNamed.size()> tensors_;
};

double run(const Handle& handle, PyObject* const* given, Py_ssize_t count) {
  const std::shared_ptr<HandleOwner> owner = handle.open();
  Arguments arguments(given, count);
  if (arguments.call().tuning == GQA_CALL_TUNE_AS_HANDLE)
    arguments.call().tuning = static_cast<gqa_call_tuning>(owner->tuning.load());
  const auto run_here = [&](auto function) -> Outcome {
    gqa_status status;
    {
      const Outside outside(&owner->calls);
      status = arguments.hand_to(owner->handle, function);
    }
    return {status, status == GQA_OK ? "" : last_message(status)};
  };
  // What is queued is queued by this thread, whose streams and captures they are; what is tuned may be tuned by
  // another.
  Outcome outcome = run_here(gqa_run_ready);
  double seconds = 0;
  if (outcome.status == GQA_ERROR_NOT_CACHED) {
    const auto begin = std::chrono::steady_clock::now();
    outcome = interruptible(*owner, [&] { return arguments.hand_to(owner->handle, gqa_prepare); });
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (outcome.status == GQA_OK) outcome = run_here(gqa_run_ex);
  }
  owner->finish(outcome);
  return seconds;
}

// (text, JSON) of a call that may have no `out`.
py::tuple explain(const Handle& handle, PyObject* const* given, Py_ssize_t count) {
  const std::shared_ptr<HandleOwner> owner = handle.open();
  Arguments arguments(given, count);
  const char *text = "", *json = "";
  const auto function = [&](auto... tensors) { return gqa_explain(tensors..., &text, &json); };
  gqa_status status;
  {
    const Outside outside(&owner->calls);
    status = arguments.hand_to(owner->handle, function);
  }
  owner->finish({status, status == GQA_OK ? "" : last_message(status)});
  return py::make_tuple(text, json);
}

// As Python calls it, with what pybind11 would make of what is thrown.
template <typename Function>
PyObject* guarded(const Function& function) {
  try {
    return function();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject* run_method(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] { return PyFloat_FromDouble(run(py::handle(self).cast<const Handle&>(), given, count)); });
}

PyObject* explain_method(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&] { return explain(py::handle(self).cast<const Handle&>(), given, count).release().ptr(); });
}

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyCFunction as_function(FastCall method) {  // METH_FASTCALL says which it is
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method));
}

PyMethodDef kMethods[] = {
    {"run", as_function(run_method), METH_FASTCALL, "A call of attention; see call.h."},
    {"explain", as_function(explain_method), METH_FASTCALL, "Why it runs as it does; see call.h."}};

}  // namespace

void define_calls(py::handle type) {
  for (PyMethodDef& method : kMethods) {
    PyObject* const made = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method);
    if (made == nullptr) throw py::error_already_set();
    type.attr(method.ml_name) = py::reinterpret_steal<py::object>(made);
  }
}

}  // namespace gqa::python
