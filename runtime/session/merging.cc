// merging.cc: see merging.h.
#include "runtime/session/merging.h"

#include <optional>

#include "runtime/workload/keys.h"

namespace gqa {

Status Merging::make() {
  const std::lock_guard lock(mutex_);
  if (merger_ != nullptr) return {};
  const Source kernel = device_.merge_kernel();
  const Status status = kernel.text.empty() ? device_.load_merger({}, &merger_) : load(kernel);
  if (status.ok()) ready_.store(merger_.get(), std::memory_order_release);
  return status;
}

Status Merging::find_or_make(const Source& kernel, Made* made) const {
  if (!cached_only_) {
    *made = workshop_.find_or_make(kernel);
    return made->status;
  }
  made->from_store = true;
  std::optional<cache::KernelRow> row = store_.find_kernel_of_any_compiler(kernel_key(device_, kernel));
  if (row) return binary_of(std::move(*row), kernel, &made->binary);
  return {Code::kNotCached, "the cache holds no kernel that merges states for " + device_.spec().arch +
                                " and tuning is off: warm any shape with lse, or allow tuning once"};
}

// A stored kernel that the driver refuses is made anew.
Status Merging::load(const Source& kernel) {
  Made made;
  if (Status status = find_or_make(kernel, &made); !status.ok()) return status;
  const Status status = device_.load_merger(made.binary, &merger_);
  if (status.ok() || !made.from_store || cached_only_) return status;
  made = workshop_.make(kernel);
  return made.status.ok() ? device_.load_merger(made.binary, &merger_) : made.status;
}

}  // namespace gqa
