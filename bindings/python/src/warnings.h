// warnings.h: what the library warns of where its caller gave no log.
// Owns: the warnings of a call that is under way, until it is over and warnings.warn may be told of them.
// Never: calls Python while the library runs: a filter may make an error of a warning, and it is the caller's then.
// Threads: keep() and any() on any thread, with or without the GIL; tell() with the GIL held.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "gqa.h"

namespace gqa::python {

class Warnings {
 public:
  // A gqa_log_fn; `user` is a Warnings.
  static void keep(void* user, gqa_log_level level, const char* message);
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Hands them to gqa._warnings, once, but for one that says what the call's exception will say.
  void tell(const std::string& exception);

 private:
  std::atomic<bool> any_ = false;
  std::mutex mutex_;  // guards messages_
  std::vector<std::string> messages_;
};

}  // namespace gqa::python
