// parallel.cc: see parallel.h.
#include "runtime/parallel.h"

#include <functional>

#include "runtime/pool.h"

namespace gqa {
namespace {

thread_local const Effort* asked = nullptr;  // by GivesUp

// A body that asks before each step.
struct Asking {
  ParallelBody body;
  void* context;
  const Effort& effort;
  static void run(void* self, std::int64_t index) {
    const auto& asking = *static_cast<const Asking*>(self);
    if (!asking.effort.cancelled()) asking.body(asking.context, index);
  }
};

}  // namespace

void parallel_for(std::int64_t count, int threads, ParallelBody body, void* context) {
  if (asked == nullptr) return run_on_pool(count, threads, body, context);
  Asking asking = {body, context, *asked};
  run_on_pool(count, threads, Asking::run, &asking);
}

GivesUp::GivesUp(const Effort& effort) { asked = &effort; }
GivesUp::~GivesUp() { asked = nullptr; }

Workers workers_of(const Effort& effort, int threads) {
  return {effort.stop(), [threads](std::int64_t count, const std::function<void(std::int64_t)>& body) {
            parallel_for(count, threads, [&](std::int64_t at) { body(at); });
          }};
}

}  // namespace gqa
