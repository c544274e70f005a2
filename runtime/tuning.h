// tuning.h: what is done about a program that is not ready.
// Owns: the choices, which a session has and a call may differ in.
// Never: does any of it. Threads: constants.
#pragma once

namespace gqa {

enum class Tuning {
  kNow,         // search, compile, verify and time
  kGuess,       // compile and verify the cost model's best
  kCachedOnly,  // fail where the cache holds none
};

}  // namespace gqa
