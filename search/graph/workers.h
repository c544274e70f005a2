// workers.h: on whose threads a long computation runs, and until when.
// Owns: Workers: what its caller lends it: a loop on several threads, and a question whether to give up.
// Never: starts a thread or reads a clock; both are the caller's.
// Threads: each() may call its body on several threads at once; stop() must bear that.
#pragma once

#include <cstdint>
#include <functional>

namespace gqa {

using Stop = std::function<bool()>;  // empty: never; once true, always true

struct Workers {
  Stop stop = {};
  // Calls body(0), .. body(count - 1), in any order; empty: one after another.
  std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& body)> loop = {};

  bool stopped() const { return stop && stop(); }

  // Once stopped the rest is left out: whoever asks for a result asks stopped() first.
  template <typename Body>
  void each(std::int64_t count, const Body& body) const {
    const auto step = [&](std::int64_t at) {
      if (!stopped()) body(at);
    };
    if (loop && count > 1) return loop(count, step);
    for (std::int64_t at = 0; at < count; ++at) step(at);
  }
};

}  // namespace gqa
