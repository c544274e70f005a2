// handle.h: what a gqa_handle is inside the C interface.
// Owns: gqa_handle_s.
// Never: leaves runtime/'s C files.
// Threads: as Session.
#pragma once

#include <atomic>
#include <string>

#include "runtime/api/gqa.h"
#include "runtime/session/session.h"

struct gqa_handle_s {
  gqa::Session session;
  bool checked = false;  // each call's lists are looked at first

  std::atomic<bool> told = false;  // of a list that is odd, which is said once

  // What a checked handle asks before a call runs.
  gqa::Status check_lists(const gqa::Call& call) {
    if (!checked) return {};
    std::string odd;
    gqa::Status status = session.device().check_lists(call, &odd);
    if (status.ok() && !odd.empty() && !told.exchange(true)) session.warn(odd);
    return status;
  }
};

namespace gqa {

inline Status null_handle() { return {Code::kNullArgument, "handle is NULL, expected one that gqa_create made"}; }

}  // namespace gqa
