// cached_lists.h: what a checked handle does on a GPU before each call.
// Owns: reading a call's lists back once its stream has done its work, and handing them to checked.h.
// Never: judges a number. Is on the way of a call whose handle is not checked.
// Threads: from many threads at once.
#pragma once

#include "runtime/cuda/driver/context.h"
#include "runtime/device.h"

namespace gqa {

// Waits for the stream. Refuses a stream that is being captured: nothing can be read back into a graph.
// `odd`: check_lists()'s.
Status check_cached_lists(const Context& context, const Call& call, std::string* odd);

}  // namespace gqa
