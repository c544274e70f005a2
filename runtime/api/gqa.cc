// gqa.cc: the C interface, see gqa.h.
// Owns: making a handle, and the conversion of options and statuses.
// Never: decides anything about a call, or lets an exception out (c_api.h).
// Threads: as gqa.h promises.
#include "runtime/api/gqa.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/api/args/args.h"
#include "runtime/api/c_api.h"
#include "runtime/api/handle.h"
#include "runtime/session/warming.h"

namespace {

using gqa::Code;
using gqa::guarded;
using gqa::Status;

#define GQA_SAME(code, status) static_assert(static_cast<int>(Code::code) == status, #status " must equal Code::" #code)
GQA_SAME(kOk, GQA_OK);
GQA_SAME(kNullArgument, GQA_ERROR_NULL_ARGUMENT);
GQA_SAME(kStructSize, GQA_ERROR_STRUCT_SIZE);
GQA_SAME(kRank, GQA_ERROR_RANK);
GQA_SAME(kDtype, GQA_ERROR_DTYPE);
GQA_SAME(kDevice, GQA_ERROR_DEVICE);
GQA_SAME(kShape, GQA_ERROR_SHAPE);
GQA_SAME(kSize, GQA_ERROR_SIZE);
GQA_SAME(kHeadDim, GQA_ERROR_HEAD_DIM);
GQA_SAME(kHeads, GQA_ERROR_HEADS);
GQA_SAME(kStride, GQA_ERROR_STRIDE);
GQA_SAME(kAlignment, GQA_ERROR_ALIGNMENT);
GQA_SAME(kAlias, GQA_ERROR_ALIAS);
GQA_SAME(kOption, GQA_ERROR_OPTION);
GQA_SAME(kNoDevice, GQA_ERROR_NO_DEVICE);
GQA_SAME(kNoCompiler, GQA_ERROR_NO_COMPILER);
GQA_SAME(kNotCached, GQA_ERROR_NOT_CACHED);
GQA_SAME(kCapturing, GQA_ERROR_CAPTURING);
GQA_SAME(kNoCandidate, GQA_ERROR_NO_CANDIDATE);
GQA_SAME(kOutOfMemory, GQA_ERROR_OUT_OF_MEMORY);
GQA_SAME(kDeviceFailed, GQA_ERROR_DEVICE_FAILED);
GQA_SAME(kInternal, GQA_ERROR_INTERNAL);
GQA_SAME(kCancelled, GQA_ERROR_CANCELLED);
#undef GQA_SAME

gqa::cache::Mode cache_mode(gqa_cache_mode mode) {
  switch (mode) {
    case GQA_CACHE_READ_ONLY:
      return gqa::cache::Mode::kReadOnly;
    case GQA_CACHE_OFF:
      return gqa::cache::Mode::kOff;
    default:
      return gqa::cache::Mode::kReadWrite;
  }
}

gqa::Tuning tuning(gqa_tuning given) {
  switch (given) {
    case GQA_TUNE_GUESS:
      return gqa::Tuning::kGuess;
    case GQA_TUNE_CACHED_ONLY:
      return gqa::Tuning::kCachedOnly;
    default:
      return gqa::Tuning::kNow;
  }
}

std::string text_or(const char* given, const char* otherwise) { return given != nullptr ? given : otherwise; }

gqa::SessionOptions session_options(const gqa_options& options) {
  gqa::SessionOptions made;
  made.tuning = tuning(options.tuning);
  if (options.tuning_budget > 0) made.policy.budget_seconds = options.tuning_budget;
  made.policy.compile_threads = options.threads;
  made.policy.heed_load = gqa::heeds_load();
  if (options.log != nullptr) {
    const auto one_at_a_time = std::make_shared<std::mutex>();
    made.log = [log = options.log, user = options.log_user, one_at_a_time](bool warning, const std::string& message) {
      const std::lock_guard lock(*one_at_a_time);
      log(user, warning ? GQA_LOG_WARNING : GQA_LOG_INFO, message.c_str());
    };
  }
  return made;
}

}  // namespace

namespace {

bool checked_by_environment() {
  const char* given = std::getenv("GQA_CHECKED");
  return given != nullptr && std::string_view(given) == "1";
}

Status create(const gqa_options& given, gqa_handle* handle) {
  gqa_options options;
  if (Status status = gqa::read_options(given, &options); !status.ok()) return status;
  std::unique_ptr<gqa::Device> device;
  const gqa::DeviceRequest request = {text_or(options.device, "auto"), options.threads,
                                      text_or(options.nvrtc_path, "")};
  if (Status status = gqa::open_device(request, &device); !status.ok()) return status;
  gqa::cache::Store::Options store;
  store.path = text_or(options.cache_path, "");
  store.mode = cache_mode(options.cache_mode);
  *handle = new gqa_handle_s{{std::move(device), gqa::cache::Store::open(store), session_options(options)},
                             options.checked == 1 || checked_by_environment()};
  return {};
}

gqa_serving_progress plain(const gqa::ServingProgress& at) {
  gqa_serving_progress shown = {};
  shown.shapes = at.plan.workloads;
  shown.tuned = at.plan.ready;
  shown.kernels = at.plan.kernels;
  shown.to_compile = at.plan.to_compile;
  shown.about_seconds = at.plan.seconds;
  shown.most_seconds = at.plan.most_seconds;
  shown.done = at.done;
  shown.failed = at.failed;
  shown.shape = at.shape.empty() ? nullptr : at.shape.c_str();
  shown.seconds = at.seconds;
  return shown;
}

// Checks the tensors and hands the call to a step, unless there is nothing to compute.
template <typename Step>
gqa_status with_call(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                     const gqa_call* call, const Step& step) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return gqa::null_handle();
    gqa::Call made;
    if (Status status = gqa::make_call(handle->session.device(), q, k, v, out, call, &made); !status.ok())
      return status;
    return made.has(gqa::Role::kOut) || made.appends() ? step(made) : Status();
  });
}

}  // namespace

extern "C" {

gqa_status gqa_create(const gqa_options* options, gqa_handle* handle) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return {Code::kNullArgument, "handle is NULL, expected where to put the new handle"};
    *handle = nullptr;
    gqa_options defaults = {};
    defaults.size = sizeof(defaults);
    return create(options != nullptr ? *options : defaults, handle);
  });
}

void gqa_destroy(gqa_handle handle) { delete handle; }

gqa_status gqa_run(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out) {
  return gqa_run_ex(handle, q, k, v, out, nullptr);
}

gqa_status gqa_run_ex(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                      const gqa_call* call) {
  return with_call(handle, q, k, v, out, call, [&](const gqa::Call& made) {
    Status status = handle->check_lists(made);
    return status.ok() ? handle->session.run(made, gqa::tuning_of(call)) : status;
  });
}

gqa_status gqa_run_ready(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                         const DLTensor* out, const gqa_call* call) {
  return with_call(handle, q, k, v, out, call, [&](const gqa::Call& made) {
    Status status = handle->check_lists(made);
    return status.ok() ? handle->session.run_ready(made, gqa::tuning_of(call)) : status;
  });
}

gqa_status gqa_prepare(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                       const gqa_call* call) {
  return with_call(handle, q, k, v, out, call, [&](const gqa::Call& made) {
    const std::optional<gqa::Tuning> tuning = gqa::tuning_of(call);
    Status status = made.has(gqa::Role::kOut) ? handle->session.ready(made.problem, nullptr, tuning) : Status();
    return status.ok() && made.appends() ? handle->session.ready(gqa::Operation::kAppend, tuning) : status;
  });
}

gqa_status gqa_workspace_size(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                              const DLTensor* out, const gqa_call* call, int64_t* bytes) {
  std::int64_t needed = 0;  // of a call with nothing to compute
  const gqa_status status = with_call(handle, q, k, v, out, call, [&](const gqa::Call& made) -> Status {
    if (bytes == nullptr) return {Code::kNullArgument, "bytes is NULL, expected where to put the size"};
    return handle->session.workspace_bytes(made, &needed, gqa::tuning_of(call));
  });
  if (status == GQA_OK && bytes != nullptr) *bytes = needed;
  return status;
}

gqa_status gqa_warm(gqa_handle handle, const gqa_shape* shape) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return gqa::null_handle();
    gqa::Problem problem;
    Status status = gqa::make_problem(shape, &problem);
    return status.ok() ? gqa::warm(handle->session, problem) : status;
  });
}

gqa_status gqa_warm_serving(gqa_handle handle, const gqa_serving* serving) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return gqa::null_handle();
    gqa::ServingRequest request;
    if (Status status = gqa::read_serving(serving, &request.range, &request.layer); !status.ok()) return status;
    request.plan_only = serving->plan_only == 1;
    if (serving->progress != nullptr) {
      request.progress = [&](const gqa::ServingProgress& at) {
        const gqa_serving_progress shown = plain(at);
        serving->progress(serving->progress_user, &shown);
      };
    }
    return gqa::warm(handle->session, request);
  });
}

gqa_status gqa_set_tuning_budget(gqa_handle handle, double seconds) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return gqa::null_handle();
    if (Status status = gqa::check_budget("seconds", seconds); !status.ok()) return status;
    handle->session.set_budget(seconds);
    return {};
  });
}

gqa_status gqa_cancel(gqa_handle handle) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return gqa::null_handle();
    handle->session.cancel();
    return {};
  });
}

const char* gqa_last_error(void) { return gqa::last_error; }

int gqa_version(void) { return GQA_VERSION; }

const char* gqa_status_string(gqa_status status) {
#define GQA_NAME(name) \
  case name:           \
    return #name;
  switch (static_cast<int>(status)) {
    GQA_NAME(GQA_OK)
    GQA_NAME(GQA_ERROR_NULL_ARGUMENT)
    GQA_NAME(GQA_ERROR_STRUCT_SIZE)
    GQA_NAME(GQA_ERROR_RANK)
    GQA_NAME(GQA_ERROR_DTYPE)
    GQA_NAME(GQA_ERROR_DEVICE)
    GQA_NAME(GQA_ERROR_SHAPE)
    GQA_NAME(GQA_ERROR_SIZE)
    GQA_NAME(GQA_ERROR_HEAD_DIM)
    GQA_NAME(GQA_ERROR_HEADS)
    GQA_NAME(GQA_ERROR_STRIDE)
    GQA_NAME(GQA_ERROR_ALIGNMENT)
    GQA_NAME(GQA_ERROR_ALIAS)
    GQA_NAME(GQA_ERROR_OPTION)
    GQA_NAME(GQA_ERROR_NO_DEVICE)
    GQA_NAME(GQA_ERROR_NO_COMPILER)
    GQA_NAME(GQA_ERROR_NOT_CACHED)
    GQA_NAME(GQA_ERROR_CAPTURING)
    GQA_NAME(GQA_ERROR_NO_CANDIDATE)
    GQA_NAME(GQA_ERROR_OUT_OF_MEMORY)
    GQA_NAME(GQA_ERROR_DEVICE_FAILED)
    GQA_NAME(GQA_ERROR_INTERNAL)
    GQA_NAME(GQA_ERROR_CANCELLED)
    default:
      return "unknown status";
  }
#undef GQA_NAME
}

}  // extern "C"
