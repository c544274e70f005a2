// check_kernel.cc: see check_kernel.h.
#include "runtime/verify/check_kernel.h"

#include <optional>
#include <utility>

#include "jit/codegen.h"
#include "runtime/tuner/workshop.h"
#include "runtime/workload/keys.h"

namespace gqa {

Status find_or_make_check(const Device& device, cache::Store& store, const CompileSource& compile, Binary* binary) {
  if (auto row = store.find_kernel_of_any_compiler(kernel_key(device, check_source()))) {
    *binary = binary_of(std::move(*row));
    return {};
  }
  return make_check(device, store, compile, binary);
}

Status make_check(const Device& device, cache::Store& store, const CompileSource& compile, Binary* binary) {
  const std::string source = check_source();
  Binary made;
  if (Status s = compile(source, &made); !s.ok()) return s;
  made.source = source;
  cache::KernelRow row = row_of(made);
  name_kernel(device, source, &row);
  row.family = cache::kCheckFamily;
  row.problem = "verification of kernels";
  store.put_kernel(row);
  *binary = std::move(made);
  return {};
}

}  // namespace gqa
