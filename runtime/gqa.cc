// gqa.cc: the C interface, see gqa.h.
// Owns: the handle, the conversion of options and statuses, this thread's last error; here every exception ends.
// Never: decides anything about a call.
// Threads: as gqa.h promises. A success touches one thread-local flag, no string.
#include "runtime/gqa.h"

#include <exception>
#include <memory>
#include <mutex>
#include <new>

#include "runtime/args.h"
#include "runtime/session.h"

namespace {

using gqa::Code;
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
#undef GQA_SAME

thread_local const char* last_error = "";  // what gqa_last_error returns: "", last_message's text or a literal

// Kept apart so that a success does not touch a thread_local that has a constructor.
std::string& last_message() {
  thread_local std::string message;
  return message;
}

gqa_status failed(const Status& status) {
  try {
    last_message() = status.message();
    last_error = last_message().c_str();
  } catch (...) {
    last_error = "host memory ran out, and none was left to say where";
  }
  return static_cast<gqa_status>(status.code());
}

gqa_status failed(Code code, const char* literal) {
  last_error = literal;
  return static_cast<gqa_status>(code);
}

// Runs a step that gives a Status; whatever it throws becomes one.
template <typename Step>
gqa_status guarded(const Step& step) noexcept {
  try {
    const Status status = step();
    if (!status.ok()) [[unlikely]]
      return failed(status);
    last_error = "";
    return GQA_OK;
  } catch (const std::bad_alloc&) {
    return failed(Code::kOutOfMemory, "host memory ran out");
  } catch (const std::exception& error) {
    return failed({Code::kInternal, std::string("an exception reached the C interface: ") + error.what()});
  } catch (...) {
    return failed(Code::kInternal, "an unknown exception reached the C interface");
  }
}

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

struct gqa_handle_s {
  gqa::Session session;
};

namespace {

Status create(const gqa_options& options, gqa_handle* handle) {
  if (Status status = gqa::check_options(options); !status.ok()) return status;
  std::unique_ptr<gqa::Device> device;
  const gqa::DeviceRequest request = {text_or(options.device, "auto"), options.threads,
                                      text_or(options.nvrtc_path, "")};
  if (Status status = gqa::open_device(request, &device); !status.ok()) return status;
  gqa::cache::Store::Options store;
  store.path = text_or(options.cache_path, "");
  store.mode = cache_mode(options.cache_mode);
  *handle = new gqa_handle_s{{std::move(device), gqa::cache::Store::open(store), session_options(options)}};
  return {};
}

Status null_handle() { return {Code::kNullArgument, "handle is NULL, expected one that gqa_create made"}; }

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
  return guarded([&]() -> Status {
    if (handle == nullptr) return null_handle();
    gqa::Call made;
    if (Status status = gqa::make_call(handle->session.device(), q, k, v, out, call, &made); !status.ok())
      return status;
    return handle->session.run(made);
  });
}

gqa_status gqa_warm(gqa_handle handle, const gqa_shape* shape) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return null_handle();
    gqa::Problem problem;
    if (Status status = gqa::make_problem(shape, &problem); !status.ok()) return status;
    return handle->session.ready(problem);
  });
}

const char* gqa_last_error(void) { return last_error; }

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
    default:
      return "unknown status";
  }
#undef GQA_NAME
}

}  // extern "C"
