// outside.cc: see outside.h.
#include "outside.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "handle.h"

namespace gqa::python {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatience(300), kLookAgain(2);

std::atomic<bool> leaving = false;
std::thread::id leaver;       // set before `leaving`
std::atomic<int> inside = 0;  // threads in the library; at exit also handles that are not destroyed yet

// Never destroyed: threads may outlive this library's statics.
std::vector<HandleOwner*>& owners() {
  static auto* const alive = new std::vector<HandleOwner*>;
  return *alive;
}

[[noreturn]] void wait_for_the_end() {
  for (;;) pause();
}

#ifdef __GLIBC__
// Compilers and callers that still run would meet destroyed statics.
void end_at_once(int status, void*) {
  if (inside == 0) return;
  std::fflush(nullptr);
  _exit(status);
}

// What is registered last comes first, and a compiler that still runs registers statics of its own while the
// interpreter is taken down: so at the end of that.
void come_first() { on_exit(end_at_once, nullptr); }
#endif

bool within(Clock::time_point until, const std::atomic<int>& calls) {
  while (calls > 0 && Clock::now() < until) std::this_thread::sleep_for(kLookAgain);
  return calls == 0;
}

// On a thread of its own: it may wait for a compiler or for a GPU.
void destroy_aside(gqa_handle handle) {
  ++inside;
  try {
    std::thread([handle] {
      gqa_destroy(handle);
      --inside;
    }).detach();
  } catch (const std::system_error&) {
    return;  // left as it is
  }
}

}  // namespace

Outside::Outside(std::atomic<int>* calls) : calls_(calls) {
  ++inside;
  if (calls_ != nullptr) ++*calls_;
  state_ = PyEval_SaveThread();
}

Outside::~Outside() {
  if (calls_ != nullptr) --*calls_;
  --inside;
  if (exiting()) wait_for_the_end();
  PyEval_RestoreThread(state_);
}

void enrol(HandleOwner* owner) { owners().push_back(owner); }

void strike_off(HandleOwner* owner) { std::erase(owners(), owner); }

bool left() { return leaving; }

bool exiting() { return leaving && std::this_thread::get_id() != leaver; }

void leave() {
#ifdef __GLIBC__
  if (Py_AtExit(come_first) != 0) come_first();
#endif
  const Clock::time_point until = Clock::now() + kPatience;
  std::vector<HandleOwner*> alive;
  std::swap(alive, owners());
  std::erase_if(alive, [](const HandleOwner* owner) { return !owner->usable_here(); });
  for (HandleOwner* owner : alive) owner->abandoned = true;
  leaver = std::this_thread::get_id();
  leaving = true;
  PyThreadState* const state = PyEval_SaveThread();
  for (HandleOwner* owner : alive) gqa_cancel(owner->handle);
  for (HandleOwner* owner : alive) {
    if (within(until, owner->calls))
      destroy_aside(std::exchange(owner->handle, nullptr));
    else
      ++inside;  // for good: when its calls have ended, their compilers may still run
  }
  within(until, inside);
  PyEval_RestoreThread(state);
}

}  // namespace gqa::python
