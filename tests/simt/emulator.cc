// emulator.cc: see emulator.h.
#include "tests/simt/emulator.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <map>
#include <numeric>

#include "tests/simt/fault.h"
#include "tests/simt/ptx.h"

namespace gqa::simt {
namespace {

// Where shared memory begins in its window: zero is no address of anything, and swizzles look at low bits.
constexpr unsigned kSharedWindow = 1024;
constexpr std::size_t kSharedAlignment = 1024;

Emulator* running = nullptr;

std::string name_of(std::string_view file) { return std::string(file.substr(file.rfind('/') + 1)); }
std::string to_text(Place place) {
  return name_of(place.file) + (place.line > 0 ? ":" + std::to_string(place.line) : "");
}
std::string to_text(Index3 i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}
bool same(Place a, Place b) { return a.line == b.line && std::string_view(a.file) == b.file; }
unsigned volume(Index3 size) { return size.x * size.y * size.z; }
Index3 index_in(unsigned number, Index3 size) {
  return {number % size.x, number / size.x % size.y, number / size.x / size.y};
}

}  // namespace

std::string to_text(const Schedule& schedule) {
  const char* orders[] = {"ascending", "descending", "random"};
  return std::string(orders[static_cast<int>(schedule.order)]) + " order, " +
         (schedule.copies == Copies::kLate ? "late" : "early") + " copies";
}

Emulator::Emulator(const Binding& binding, const Launch& launch, const Schedule& schedule)
    : binding_(binding),
      launch_(launch),
      schedule_(schedule),
      shared_("shared memory", launch.dynamic_shared, kSharedAlignment),
      random_(schedule.seed),
      races_(launch.dynamic_shared) {
  const unsigned count = volume(launch.block);
  for (unsigned i = 0; i < count; ++i) threads_.push_back(std::make_unique<Thread>());
  warps_.resize((count + 31) / 32);
  *binding_.machine = this;
  *binding_.shared_begin = shared_.as<char>();
  *binding_.shared_bytes = shared_.bytes();
  running = this;
}

Emulator::~Emulator() { running = nullptr; }

Status Emulator::run() {
  const FaultScope faults;
  for (const unsigned block : order_of(volume(launch_.grid))) {
    run_block(index_in(block, launch_.grid));
    if (failed_) return {Code::kDeviceFailed, error_ + " [" + to_text(schedule_) + "]"};
  }
  return {};
}

std::vector<unsigned> Emulator::order_of(unsigned count) {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0U);
  if (schedule_.order == Order::kDescending) std::reverse(order.begin(), order.end());
  if (schedule_.order == Order::kRandom) std::shuffle(order.begin(), order.end(), random_);
  return order;
}

void Emulator::begin_block(Index3 block) {
  shared_.poison();
  races_.begin_block();
  ended_ = 0;
  barrier_ = {};
  hopper_.begin_block(threads_.size());
  for (Warp& warp : warps_) warp = {};
  for (unsigned i = 0; i < threads_.size(); ++i) {
    Thread& t = *threads_[i];
    t.self = {index_in(i, launch_.block), block, launch_.block, launch_.grid};
    t.number = static_cast<int>(i);
    t.done = false;
    t.waits_for = {};
    t.open.clear();
    t.groups.clear();
    warps_[i / 32].there |= 1U << i % 32;
    t.fiber.start(
        [](void*) {
          running->binding_.run(running->launch_.arguments);
          running->end_thread();
        },
        nullptr);
  }
  for (Warp& warp : warps_) warp.runnable = warp.there;
}

// A warp runs as far as it can before the next begins, so that warps drift as far apart as their barriers allow; in
// random order, some rounds each.
void Emulator::run_block(Index3 block) {
  begin_block(block);
  while (ended_ < static_cast<int>(threads_.size()) && !failed_) {
    bool moved = false;
    for (const unsigned warp : order_of(static_cast<unsigned>(warps_.size()))) {
      const unsigned rounds = schedule_.order == Order::kRandom ? 1 + random_() % 64 : ~0U;
      moved = run_warp(warp, rounds) || moved;
      if (failed_) return;
    }
    if (!moved && !hopper_.go_on(*this)) check_deadlock();
  }
  std::string damage = shared_.damage();
  if (damage.empty()) damage = hopper_.unfinished();
  if (!damage.empty() && !failed_) {
    failed_ = true;
    error_ = "block " + to_text(block) + ": " + damage;
  }
}

bool Emulator::run_warp(std::size_t warp, unsigned rounds) {
  bool moved = false;
  for (; rounds > 0 && warps_[warp].runnable != 0; --rounds)
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned turn = schedule_.order == Order::kRandom ? i ^ (rounds & 31) : i;
      const unsigned lane = schedule_.order == Order::kDescending ? 31 - i : turn;
      if ((warps_[warp].runnable >> lane & 1) == 0) continue;
      if (!go_on(warp * 32 + lane)) return false;
      moved = true;
    }
  return moved;
}

// False where the launch has failed.
bool Emulator::go_on(std::size_t thread) {
  current_ = threads_[thread].get();
  *binding_.self = &current_->self;
  current_->fiber.resume();
  if (!failed_ && FaultScope::last().signal != 0) explain_fault();
  return !failed_;
}

void Emulator::end_thread() {
  Warp& warp = warps_[static_cast<std::size_t>(current_->number / 32)];
  const unsigned bit = 1U << current_->number % 32;
  current_->done = true;
  ++ended_;
  warp.runnable &= ~bit;
  warp.ended |= bit;
  for (std::size_t i = 0; i < warp.meetings.size(); ++i)
    if (!warp.meetings[i].aligned && warp.meetings[i].arrived == (warp.meetings[i].mask & ~warp.ended)) finish(warp, i);
}

void Emulator::wait(std::string_view what, Place place) {
  current_->waits_for = what;
  current_->place = place;
  Thread& me = *current_;
  warps_[static_cast<std::size_t>(me.number / 32)].runnable &= ~(1U << me.number % 32);
  Fiber::leave();
}

void Emulator::wake(int thread) { warps_[static_cast<std::size_t>(thread / 32)].runnable |= 1U << thread % 32; }

std::size_t Emulator::choose(std::size_t count) {
  if (schedule_.order == Order::kRandom) return random_() % count;
  return schedule_.order == Order::kAscending ? 0 : count - 1;
}

// ---- meeting places

void Emulator::meet(Meeting meeting, const void* payload) {
  Warp& warp = warps_[static_cast<std::size_t>(current_->number / 32)];
  const unsigned lane = static_cast<unsigned>(current_->number) % 32, bit = 1U << lane;
  current_->place = meeting.place;
  if ((meeting.mask & bit) == 0) fail(std::string(meeting.name) + " by a lane that its mask leaves out");
  auto at = std::find_if(warp.meetings.begin(), warp.meetings.end(),
                         [&](const Meeting& other) { return (other.mask & meeting.mask) != 0; });
  if (at == warp.meetings.end()) at = warp.meetings.insert(at, meeting);
  if (at->name != meeting.name || at->mask != meeting.mask || (at->aligned && !same(at->place, meeting.place)))
    fail("divergent warp: " + std::string(meeting.name) + " here, while lane " +
         std::to_string(std::countr_zero(at->arrived)) + " waits in " + std::string(at->name) + " at " +
         to_text(at->place));
  at->arrived |= bit;
  at->payloads[lane] = payload;
  if (at->arrived == (at->aligned ? at->mask : at->mask & warp.there & ~warp.ended))
    finish(warp, static_cast<std::size_t>(at - warp.meetings.begin()));
  else
    wait(at->name, meeting.place);
}

void Emulator::finish(Warp& warp, std::size_t meeting) {
  const Meeting done = warp.meetings[meeting];
  warp.meetings.erase(warp.meetings.begin() + static_cast<std::ptrdiff_t>(meeting));
  done.complete(done);
  warp.barriers += done.name == "__syncwarp";
  warp.runnable |= done.arrived & ~warp.ended;
}

int Emulator::sync_block(const char* function, bool vote, Place place) {
  if (barrier_.arrived == 0) barrier_ = {function, place, 0, 0, barrier_.last_votes};
  if (!same(barrier_.place, place)) {
    current_->place = place;
    fail("divergent barrier: " + std::string(function) + " here, while others wait in " + std::string(barrier_.name) +
         " at " + to_text(barrier_.place));
  }
  barrier_.votes += vote;
  if (++barrier_.arrived < static_cast<int>(threads_.size())) {
    wait(function, place);
  } else {
    current_->place = place;
    barrier_.arrived = 0;
    barrier_.last_votes = barrier_.votes;
    ++block_barriers_;
    for (Warp& warp : warps_) warp.runnable = warp.there;
  }
  return barrier_.last_votes;
}

namespace {

struct Gathered {
  unsigned long long value;
  unsigned long long* values;
};

}  // namespace

void Emulator::gather(const char* function, unsigned mask, unsigned long long value, unsigned long long (&values)[32],
                      Place place) {
  const Gathered mine{value, values};
  const auto exchange = [](const Meeting& meeting) {
    const auto of = [&](unsigned lane) { return static_cast<const Gathered*>(meeting.payloads[lane]); };
    for (unsigned to = 0; to < 32; ++to)
      for (unsigned from = 0; from < 32; ++from)
        if (of(to) != nullptr) of(to)->values[from] = of(from) != nullptr ? of(from)->value : ~0ULL;
  };
  meet({function, false, place, mask, 0, {}, exchange}, &mine);
}

// ---- instructions and memory

const Instruction* Emulator::decode(const char* text) { return gqa::simt::decode(text); }

void Emulator::execute(const Instruction* instruction, const Operand* operands, Place place) {
  current_->place = place;
  gqa::simt::execute(*this, *instruction, operands, place);
}

void Emulator::check_race(Access access, const char* at, std::size_t bytes) {
  if (hopper_.orders) return;  // in ways that the detector does not know
  const auto offset = static_cast<std::size_t>(at - shared_.as<char>());
  const Moment now{current_->number, block_barriers_, warps_[static_cast<std::size_t>(current_->number / 32)].barriers,
                   current_->place};
  std::string race;
  if (access == Access::kRead || access == Access::kReadOfWarp)
    race = races_.read(offset, bytes, now, access == Access::kReadOfWarp);
  if (access == Access::kWrite) race = races_.write(offset, bytes, now);
  if (access == Access::kIssueCopy) race = races_.issue_copy(offset, bytes, now);
  if (access == Access::kLandCopy) races_.land_copy(offset, bytes, now);
  if (!race.empty()) fail(race);
}

void Emulator::access(unsigned long offset, unsigned long bytes, bool write) {
  check_race(write ? Access::kWrite : Access::kRead, shared_.as<char>() + offset, bytes);
  const std::uint64_t at = kSharedWindow + offset;
  if (write) hopper_.plain_store(*this, {at, at + bytes});
}

unsigned Emulator::shared_address(const void* pointer) {
  const std::ptrdiff_t offset = static_cast<const char*>(pointer) - shared_.as<char>();
  if (offset < 0 || offset > static_cast<std::ptrdiff_t>(shared_.bytes()))
    fail("the shared address of what does not lie in dynamic shared memory");
  return kSharedWindow + static_cast<unsigned>(offset);
}

char* Emulator::shared(std::uint64_t address, std::size_t bytes, const char* what) {
  const std::uint64_t offset = address - kSharedWindow;
  if (address < kSharedWindow || offset + bytes > shared_.bytes())
    fail(std::string(what) + " of bytes " + std::to_string(static_cast<std::int64_t>(offset)) + " to " +
         std::to_string(static_cast<std::int64_t>(offset + bytes)) + " of shared memory, which has " +
         std::to_string(shared_.bytes()));
  if (offset % bytes != 0)
    fail(std::string(what) + " at byte " + std::to_string(offset) + " of shared memory, which is not aligned to " +
         std::to_string(bytes));
  return shared_.as<char>() + offset;
}

// ---- what goes wrong

std::string Emulator::where() const {
  return "block " + to_text(current_->self.block) + " thread " + to_text(current_->self.thread) + " at " +
         to_text(current_->place);
}

void Emulator::fail(const std::string& message) {
  if (!failed_) error_ = where() + ": " + message;
  failed_ = true;
  for (;;) Fiber::leave();
}

void Emulator::trap(const char* what, Place place) {
  current_->place = place;
  fail(what);
}

void Emulator::check_deadlock() {
  failed_ = true;
  std::map<std::string, std::vector<int>> waiting;
  for (const auto& t : threads_)
    waiting[t->done ? "ended" : "wait in " + std::string(t->waits_for) + " at " + to_text(t->place)].push_back(
        t->number);
  error_ = "deadlock in block " + to_text(threads_[0]->self.block) + ":";
  for (const auto& [what, who] : waiting)
    error_ += " " + std::to_string(who.size()) + " threads (the first: " + std::to_string(who[0]) + ") " + what + ";";
}

void Emulator::explain_fault() {
  const Fault fault = FaultScope::last();
  failed_ = true;
  error_ = where() + " or after it: ";
  if (fault.signal == SIGILL) {
    error_ +=
        "undefined behaviour: a misaligned vector access, an index out of an array's bounds, a shift too far or a "
        "signed overflow";
  } else if (fault.signal == SIGFPE) {
    error_ += "an integer divided by zero";
  } else if (current_->fiber.overflowed_at(fault.address)) {
    error_ += "the thread's stack is full";
  } else {
    const std::string near = Buffer::near(fault.address);
    error_ += "an access " + (near.empty() ? "to memory of no buffer" : near);
  }
}

}  // namespace gqa::simt
