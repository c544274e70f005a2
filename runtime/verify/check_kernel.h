// check_kernel.h: the kernels that verify others, kept like those that they verify.
// Owns: the row of jit's check_source(): found whoever compiled it, else compiled once and kept, so that a machine
// without a compiler can verify what it loads, and an export holds all that it needs. Never: loads or launches;
// cuda/checker.h does. Threads: as the store.
#pragma once

#include <functional>
#include <string>

#include "cache/store.h"
#include "runtime/device.h"

namespace gqa {

using CompileSource = std::function<Status(const std::string& source, Binary*)>;

// `compile` is called where no compiler's row is there, and may say that there is no compiler: *binary then is as it
// was.
Status find_or_make_check(const Device& device, cache::Store& store, const CompileSource& compile, Binary* binary);

// The same anew, whatever the store holds: where what it holds cannot be loaded.
Status make_check(const Device& device, cache::Store& store, const CompileSource& compile, Binary* binary);

}  // namespace gqa
