// keys.h: what kernels and winners are kept under, and whether a row still holds.
// Owns: winner_key and kernel_key; the rows that a kernel and a winner are kept as; the comparison of a winner's
// families with the present versions.
// Never: holds a path, a product name or a driver version.
// Threads: pure functions.
//
// A kernel's key is its source with all that it includes, the architecture and the compiler. A winner's is the
// workload, the device's identity and the version of the search with the way of timing. No key holds anything else:
// what changes in search/ or jit/ and changes none of these changes no key.
#pragma once

#include <string>

#include "cache/store.h"
#include "runtime/device.h"

namespace gqa {

// `signature`: Workload::signature().
cache::WinnerKey winner_key(const Device& device, const std::string& signature);
// The key that a source is kept under when the device compiles it.
std::string kernel_key(const Device& device, const Source& source);

cache::KernelRow kernel_row(const Device& device, const Source& source, const Binary& binary);
// Without its kernels' keys and what was measured.
cache::WinnerRow winner_row(const Device& device, const std::string& signature, const Program& program);

// "", or which families of its kernels are of another version now.
std::string outdated(const cache::WinnerRow& row);

}  // namespace gqa
