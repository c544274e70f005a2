// access_hooks.cc: the calls that a compiler puts before every access to memory under -fsanitize=thread, answered by
// the emulator instead of the sanitizer's library. Compiled into every kernel, without that option.
// Owns: the functions' names and signatures.
// Never: passes on what lies outside dynamic shared memory and the workspace.
// Threads: fibers of one thread of the system.
#include "kernel_state.h"

namespace gqa::simt {

static void access(const void* address, unsigned long bytes, bool write) {
  const auto offset = static_cast<unsigned long>(static_cast<const char*>(address) - shared_begin);
  if (offset < shared_bytes) return machine->access(offset, bytes, write);
  const auto beyond = static_cast<unsigned long>(static_cast<const char*>(address) - workspace_begin);
  if (beyond < workspace_bytes) machine->access_workspace(beyond, bytes, write);
}

}  // namespace gqa::simt

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_read_range(void* at, unsigned long bytes) { gqa::simt::access(at, bytes, false); }
void __tsan_write_range(void* at, unsigned long bytes) { gqa::simt::access(at, bytes, true); }
#define GQA_SIMT_HOOKS(bytes)                                                          \
  void __tsan_read##bytes(void* at) { gqa::simt::access(at, bytes, false); }           \
  void __tsan_write##bytes(void* at) { gqa::simt::access(at, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* at) { gqa::simt::access(at, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* at) { gqa::simt::access(at, bytes, true); } \
  void __tsan_volatile_read##bytes(void* at) { gqa::simt::access(at, bytes, false); }  \
  void __tsan_volatile_write##bytes(void* at) { gqa::simt::access(at, bytes, true); }
GQA_SIMT_HOOKS(1)
GQA_SIMT_HOOKS(2)
GQA_SIMT_HOOKS(4)
GQA_SIMT_HOOKS(8)
GQA_SIMT_HOOKS(16)
#undef GQA_SIMT_HOOKS
}
