// handle.cc: the calls. See handle.h.
// Threads: every function is entered with the GIL held and lets go of it around the library's calls.
#include "handle.h"

#include <unistd.h>

#include "borrow.h"
#include "call.h"
#include "errors.h"
#include "progress.h"

namespace py = pybind11;

namespace gqa::python {

namespace {

const char* text_or_null(const std::optional<std::string>& text) { return text ? text->c_str() : nullptr; }

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Called by the library from any thread. An exception of the callback is reported as unraisable and goes no further.
void log_trampoline(void* user, gqa_log_level level, const char* message) {
  if (Py_IsInitialized() == 0 || is_finalizing() || exiting()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *old_type, *old_value, *old_trace;
  PyErr_Fetch(&old_type, &old_value, &old_trace);
  auto* callback = static_cast<PyObject*>(user);
  PyObject* result = PyObject_CallFunction(callback, "ss", level == GQA_LOG_WARNING ? "warning" : "info", message);
  if (result == nullptr) PyErr_WriteUnraisable(callback);
  Py_XDECREF(result);
  PyErr_Restore(old_type, old_value, old_trace);
  PyGILState_Release(gil);
}

void tell_serving(void* user, const gqa_serving_progress* at) {
  static_cast<Progress*>(user)->tell([&](py::dict& told) {
    told["shapes"] = at->shapes;
    told["tuned"] = at->tuned;
    told["kernels"] = at->kernels;
    told["to_compile"] = at->to_compile;
    told["about_seconds"] = at->about_seconds;
    told["most_seconds"] = at->most_seconds;
    told["done"] = at->done;
    told["failed"] = at->failed;
    told["shape"] = at->shape;
    told["seconds"] = at->seconds;
  });
}

}  // namespace

HandleOwner::HandleOwner() : process(getpid()) { enrol(this); }

bool HandleOwner::usable_here() const { return !abandoned && process == getpid(); }

HandleOwner::~HandleOwner() {
  strike_off(this);
  if (!usable_here()) return;
  const Outside outside;
  gqa_destroy(handle);
}

void HandleOwner::begin() const {
  if (!left()) return;
  if (exiting()) {
    const Outside never_back;
  }
  raise(GQA_ERROR_CANCELLED, "the interpreter exits: no call of the library begins any more");
}

void HandleOwner::finish(const Outcome& outcome) {
  if (outcome.status == GQA_OK && !warnings.any()) return;
  warnings.tell(outcome.message);
  if (outcome.status != GQA_OK) raise(outcome.status, outcome.message);
}

Handle::Handle(HandleOptions options) : owner_(std::make_shared<HandleOwner>()) {
  owner_->log = options.log;
  gqa_options given = {};
  given.size = sizeof(given);
  given.device = text_or_null(options.device);
  given.cache_path = text_or_null(options.cache_path);
  given.nvrtc_path = text_or_null(options.nvrtc_path);
  given.cache_mode = static_cast<gqa_cache_mode>(options.cache_mode);
  given.tuning = static_cast<gqa_tuning>(options.tuning);
  given.tuning_budget = options.tuning_budget;
  given.threads = options.threads;
  given.checked = options.checked ? 1 : 0;
  if (!options.log.is_none()) {
    given.log = log_trampoline;
    given.log_user = owner_->log.ptr();
  } else {
    given.log = Warnings::keep;
    given.log_user = &owner_->warnings;
  }
  gqa_status status;
  {
    const Outside outside;
    status = gqa_create(&given, &owner_->handle);
  }
  owner_->finish({status, status == GQA_OK ? "" : last_message(status)});
}

std::shared_ptr<HandleOwner> Handle::open() const {
  if (owner_ == nullptr) raise(GQA_ERROR_NULL_ARGUMENT, "this gqa.Handle is closed; make a new one");
  owner_->begin();
  return owner_;
}

void Handle::merge_states(const std::vector<py::object>& outs, const std::vector<py::object>& lses, py::object out,
                          py::object lse, uintptr_t stream) const {
  const std::shared_ptr<HandleOwner> owner = open();
  const BorrowedAll out_parts(outs, "outs[", "]", false), lse_parts(lses, "lses[", "]", false);
  Borrowed out_tensor, lse_tensor;
  out_tensor.take(out, "out", true);
  lse_tensor.take(lse, "lse", true);
  Outcome outcome;
  {
    const Outside outside(&owner->calls);
    outcome.status = gqa_merge_states(owner->handle, out_parts.size(), out_parts.data(), lse_parts.data(),
                                      out_tensor.tensor(), lse_tensor.tensor(), reinterpret_cast<void*>(stream));
  }
  if (outcome.status != GQA_OK) outcome.message = last_message(outcome.status);
  owner->finish(outcome);
}

void Handle::set_budget(double seconds) const {
  const std::shared_ptr<HandleOwner> owner = open();
  const gqa_status status = gqa_set_tuning_budget(owner->handle, seconds);
  owner->finish({status, status == GQA_OK ? "" : last_message(status)});
}

void Handle::warm(const gqa_shape& shape) const {
  const std::shared_ptr<HandleOwner> owner = open();
  owner->finish(interruptible(*owner, [&] { return gqa_warm(owner->handle, &shape); }));
}

void Handle::warm_serving(gqa_serving serving, py::object progress) const {
  const std::shared_ptr<HandleOwner> owner = open();
  Progress told = {std::move(progress), owner->handle, nullptr};
  serving.progress = tell_serving;
  serving.progress_user = &told;
  const Outcome outcome = interruptible(*owner, [&] { return gqa_warm_serving(owner->handle, &serving); });
  told.rethrow();
  owner->finish(outcome);
}

void Handle::cancel() const {
  const std::shared_ptr<HandleOwner> owner = open();
  const Outside outside(&owner->calls);
  gqa_cancel(owner->handle);
}

void Handle::abandon() {
  if (owner_ == nullptr) return;
  owner_->abandoned = true;
  new std::shared_ptr<HandleOwner>(
      owner_);  // on purpose never freed: its destructor would wait for threads that are not here
  owner_.reset();
}

void Handle::define(py::module_& module) {
  const auto make = [](std::optional<std::string> device, std::optional<std::string> cache_path, int cache_mode,
                       int tuning, double tuning_budget, int threads, std::optional<std::string> nvrtc_path,
                       py::object log, bool checked) {
    return Handle(HandleOptions{std::move(device), std::move(cache_path), std::move(nvrtc_path), cache_mode, tuning,
                                tuning_budget, threads, std::move(log), checked});
  };
  const auto warm = [](const Handle& self, int64_t batch, int64_t q_len, int64_t kv_len, int64_t q_heads,
                       int64_t kv_heads, int64_t head_dim, int64_t head_dim_v, std::pair<int, int> dtype, bool causal,
                       bool lse, int64_t page, const Window& window, bool cache_seqlens, bool cu_seqlens_q,
                       bool cu_seqlens_k, bool softcap, bool sink, int score_scale, int bias, int align, bool tma) {
    gqa_shape shape = {};
    shape.size = sizeof(shape);
    shape.batch = batch;
    shape.q_len = q_len;
    shape.kv_len = kv_len;
    shape.q_heads = q_heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    shape.head_dim_v = head_dim_v;
    shape.dtype = {static_cast<uint8_t>(dtype.first), static_cast<uint8_t>(dtype.second), 1};
    shape.causal = causal ? 1 : 0;
    shape.lse = lse ? 1 : 0;
    shape.page = page;
    shape.window_size = window ? window->data() : nullptr;
    shape.cache_seqlens = cache_seqlens ? 1 : 0;
    shape.cu_seqlens_q = cu_seqlens_q ? 1 : 0;
    shape.cu_seqlens_k = cu_seqlens_k ? 1 : 0;
    shape.softcap = softcap ? 1 : 0;
    shape.sink = sink ? 1 : 0;
    shape.score_scale = static_cast<gqa_score_scale>(score_scale);
    shape.bias = static_cast<gqa_bias>(bias);
    shape.align = align;
    shape.notma = tma ? 0 : 1;
    self.warm(shape);
  };
  const auto warm_serving = [](const Handle& self, const std::string& range, int64_t q_heads, int64_t kv_heads,
                               int64_t head_dim, int64_t head_dim_v, const Window& window, bool softcap, bool sink,
                               bool plan_only, py::object progress) {
    gqa_serving serving = {};
    serving.size = sizeof(serving);
    serving.range = range.c_str();
    serving.q_heads = q_heads;
    serving.kv_heads = kv_heads;
    serving.head_dim = head_dim;
    serving.head_dim_v = head_dim_v;
    serving.window_size = window ? window->data() : nullptr;
    serving.softcap = softcap ? 1 : 0;
    serving.sink = sink ? 1 : 0;
    serving.plan_only = plan_only ? 1 : 0;
    self.warm_serving(serving, std::move(progress));
  };
  py::class_<Handle> type(module, "Handle", "A gqa_handle. Use gqa.Handle, which wraps it.");
  define_calls(type);
  type.def(py::init(make), py::kw_only(), py::arg("device"), py::arg("cache_path"), py::arg("cache_mode"),
           py::arg("tuning"), py::arg("tuning_budget"), py::arg("threads"), py::arg("nvrtc_path"), py::arg("log"),
           py::arg("checked"))
      .def("merge_states", &Handle::merge_states, py::arg("outs"), py::arg("lses"), py::arg("out"), py::arg("lse"),
           py::arg("stream"))
      .def("warm", warm, py::kw_only(), py::arg("batch"), py::arg("q_len"), py::arg("kv_len"), py::arg("q_heads"),
           py::arg("kv_heads"), py::arg("head_dim"), py::arg("head_dim_v"), py::arg("dtype"), py::arg("causal"),
           py::arg("lse"), py::arg("page"), py::arg("window"), py::arg("cache_seqlens"), py::arg("cu_seqlens_q"),
           py::arg("cu_seqlens_k"), py::arg("softcap"), py::arg("sink"), py::arg("score_scale"), py::arg("bias"),
           py::arg("align"), py::arg("tma"))
      .def("warm_serving", warm_serving, py::kw_only(), py::arg("range"), py::arg("q_heads"), py::arg("kv_heads"),
           py::arg("head_dim"), py::arg("head_dim_v"), py::arg("window"), py::arg("softcap"), py::arg("sink"),
           py::arg("plan_only"), py::arg("progress"))
      .def("set_tuning", &Handle::set_tuning, py::arg("tuning"))
      .def("set_budget", &Handle::set_budget, py::arg("seconds"))
      .def("cancel", &Handle::cancel)
      .def("close", &Handle::close)
      .def("abandon", &Handle::abandon)
      .def_property_readonly("closed", &Handle::closed);
}

}  // namespace gqa::python
