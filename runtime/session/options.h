// options.h: how a session is to behave.
// Owns: SessionOptions, and what the environment says of load.
// Never: changes once a session is made, but for the budget (misses.h). Threads: values.
#pragma once

#include <functional>
#include <string>

#include "runtime/tuner/tuner.h"
#include "runtime/tuning.h"

namespace gqa {

// TunePolicy::heed_load where nothing else is said: false if $GQA_IGNORE_LOAD is 1.
bool heeds_load();

struct SessionOptions {
  Tuning tuning = Tuning::kNow;
  TunePolicy policy;
  std::function<void(bool warning, const std::string&)> log;  // may be empty
  ProgressFn progress;                                        // may be empty

  void say(bool warning, const std::string& message) const {
    if (log) log(warning, message);
  }
};

}  // namespace gqa
