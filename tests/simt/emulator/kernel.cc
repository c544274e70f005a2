// kernel.cc: see kernel.h.
#include "tests/simt/emulator/kernel.h"

#include <dlfcn.h>

#include "tests/simt/emulator/kernel_store.h"
#include "tests/simt/emulator/rewrite.h"

namespace gqa::simt {
namespace {

// What the emulator needs of a kernel, behind its own text.
std::string binding_of(const std::string& entry) {
  return "\nextern \"C\" __attribute__((visibility(\"default\"))) const ::gqa::simt::Binding " + std::string(kBinding) +
         " = {&::gqa::simt::machine, &::gqa::simt::self, &::gqa::simt::shared_begin, &::gqa::simt::shared_bytes, "
         "&::gqa::simt::workspace_begin, &::gqa::simt::workspace_bytes, "
         "[](void** arguments) { ::gqa::simt::call(&" +
         entry + ", arguments); }};\n";
}

}  // namespace

const char* unavailable() {
#ifdef GQA_SIMT_SANITIZED
  return "emulated kernels run on fibers, which this sanitizer does not follow";
#else
  return compiler_works() ? nullptr
                          : "the compiler that built the tests, " GQA_SIMT_COMPILER ", is not here to compile kernels";
#endif
}

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> all = {{Order::kAscending, Copies::kLate, 1},
                                            {Order::kDescending, Copies::kEarly, 1},
                                            {Order::kRandom, Copies::kLate, 1}};
  return all;
}

const std::vector<Schedule>& cluster_schedules() {
  static const std::vector<Schedule> all = [] {
    std::vector<Schedule> made = schedules();
    made.push_back({Order::kDescending, Copies::kLate, 1});
    made.push_back({Order::kAscending, Copies::kEarly, 1});
    made.push_back({Order::kRandom, Copies::kEarly, 2});
    return made;
  }();
  return all;
}

std::unique_ptr<Kernel> Kernel::compile(const std::string& source, const std::string& entry, std::string* why,
                                        const std::vector<EmbeddedHeader>& headers) {
  const std::string library = library_of(rewrite(source) + binding_of(entry), headers, why);
  if (library.empty()) return nullptr;
  std::unique_ptr<Kernel> kernel(new Kernel);
  kernel->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  const void* binding = kernel->library_ != nullptr ? dlsym(kernel->library_, kBinding) : nullptr;
  if (binding == nullptr) {
    const char* error = dlerror();
    *why = error != nullptr ? error : "the compiled kernel exports no binding";
    return nullptr;
  }
  kernel->binding_ = *static_cast<const Binding*>(binding);
  return kernel;
}

Kernel::~Kernel() {
  if (library_ != nullptr) dlclose(library_);
}

Status Kernel::launch(const Launch& launch, const Schedule& schedule) const {
  const Status status = Emulator(binding_, launch, schedule).run();
  if (!status.ok()) return status;
  const std::string damage = Buffer::damage_of_all();
  return damage.empty() ? Status() : Status{Code::kDeviceFailed, damage};
}

}  // namespace gqa::simt
