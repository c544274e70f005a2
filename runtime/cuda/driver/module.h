// module.h: loaded device code.
// Owns: a CUmodule and the rule of what may be loaded: CUBIN first; PTX only where the driver is new enough for it.
// Never: compiles.
// Threads: constant after load; needs the context to be current where it is loaded and freed.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/cuda/driver/driver.h"

namespace gqa {

class Module {
 public:
  static Status load(const Driver& driver, const std::string& cubin, const std::string& ptx, Module* module);
  Module() = default;
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();

  // A function that may use `dynamic_smem` bytes of dynamic shared memory.
  Status function(const char* name, std::int64_t dynamic_smem, CUfunction* function) const;

 private:
  const Driver* driver_ = nullptr;
  CUmodule module_ = nullptr;
};

}  // namespace gqa
