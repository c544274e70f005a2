// warnings.cc: see warnings.h.
// Threads: see warnings.h; the mutex is never held while Python runs.
#include "warnings.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

namespace py = pybind11;

namespace gqa::python {

void Warnings::keep(void* user, gqa_log_level level, const char* message) {
  if (level != GQA_LOG_WARNING) return;
  auto* self = static_cast<Warnings*>(user);
  const std::lock_guard lock(self->mutex_);
  self->messages_.emplace_back(message);
  self->any_ = true;
}

void Warnings::tell(const std::string& exception) {
  std::vector<std::string> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(messages_);
    any_ = false;
  }
  messages.erase(std::remove(messages.begin(), messages.end(), exception), messages.end());
  if (!messages.empty()) py::module_::import("gqa._warnings").attr("warn")(messages);
}

}  // namespace gqa::python
