// emulator.cc: see emulator.h.
#include "tests/simt/emulator/emulator.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <map>
#include <numeric>

#include "tests/simt/emulator/fault.h"
#include "tests/simt/emulator/place.h"
#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

constexpr unsigned kMostCtas = 16;  // of a cluster: the bits of a multicast's mask

Emulator* running = nullptr;

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
      block_threads_(volume(launch.block)),
      races_(launch.workspace == nullptr ? 0 : launch.workspace->bytes()),
      random_(schedule.seed) {
  *binding_.machine = this;
  running = this;
  if (!refusal().empty()) return;  // run() says it
  for (unsigned rank = 0; rank < launch.cluster; ++rank)
    ctas_.push_back(std::make_unique<Cta>(rank, launch.cluster, launch.dynamic_shared));
  for (unsigned i = 0; i < launch.cluster * block_threads_; ++i) threads_.push_back(std::make_unique<Thread>());
  warps_.resize((threads_.size() + 31) / 32);
  *binding_.shared_bytes = launch.dynamic_shared;
  *binding_.workspace_begin = launch.workspace == nullptr ? nullptr : launch.workspace->as<char>();
  *binding_.workspace_bytes = launch.workspace == nullptr ? 0 : launch.workspace->bytes();
}

Emulator::~Emulator() { running = nullptr; }

// What a GPU would not launch, or this emulator not follow: warpgroups of two CTAs in one.
std::string Emulator::refusal() const {
  const unsigned cluster = launch_.cluster;
  const std::string clusters = "a launch in clusters of " + std::to_string(cluster) + " CTAs";
  if (cluster < 1 || cluster > kMostCtas) return clusters + ": 1 to " + std::to_string(kMostCtas) + " expected";
  if (launch_.grid.x % cluster != 0)
    return clusters + " of a grid of " + std::to_string(launch_.grid.x) + " along x, which is no multiple of that";
  if (cluster > 1 && block_threads_ % 128 != 0)
    return clusters + " of " + std::to_string(block_threads_) + " threads, which are no whole warpgroups";
  if (launch_.dynamic_shared > kCtaWindow - kSharedBegin)
    return "a launch with " + std::to_string(launch_.dynamic_shared) + " bytes of shared memory";
  return {};
}

Status Emulator::run() {
  if (const std::string why = refusal(); !why.empty()) return {Code::kDeviceFailed, why};
  const FaultScope faults;
  for (const unsigned cluster : order_of(volume(launch_.grid) / launch_.cluster)) {
    run_cluster(cluster * launch_.cluster);
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

void Emulator::begin_cluster(unsigned first_block) {
  for (const auto& cta : ctas_) cta->begin();
  ended_ = 0;
  hopper_.begin_cluster(ctas_.size(), block_threads_);
  clocks_.begin(threads_.size());
  first_block_ = first_block;
  for (Warp& warp : warps_) warp = {};
  for (unsigned i = 0; i < threads_.size(); ++i) {
    Thread& t = *threads_[i];
    const unsigned rank = i / block_threads_, in_block = i % block_threads_;
    t.cta = ctas_[rank].get();
    t.self = {index_in(in_block, launch_.block),
              index_in(first_block + rank, launch_.grid),
              launch_.block,
              launch_.grid,
              rank,
              launch_.cluster};
    t.number = static_cast<int>(i);
    t.in_block = static_cast<int>(in_block);
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
// random order, some rounds each. The first of several CTAs goes on whenever it can: others move one warp at a time.
bool Emulator::run_warps() {
  const auto count = static_cast<unsigned>(warps_.size()), warps = count / static_cast<unsigned>(ctas_.size());
  unsigned done = 0;
  bool moved = false;
  for (const unsigned warp : order_of(count)) {
    const unsigned rounds = schedule_.order == Order::kRandom ? 1 + random_() % 64 : ~0U;
    moved = run_warp(warp, rounds) || moved;
    if (failed_) return false;
    if (++done >= warps && moved && schedule_.order != Order::kRandom) return true;
  }
  return moved;
}

void Emulator::run_cluster(unsigned first_block) {
  begin_cluster(first_block);
  while (ended_ < static_cast<int>(threads_.size()) && !failed_) {
    const bool moved = run_warps();
    if (failed_) return;
    if (!moved && !hopper_.go_on(*this)) check_deadlock();
  }
  std::string damage;
  for (const auto& cta : ctas_)
    if (damage.empty()) damage = cta->shared.damage();
  if (damage.empty()) damage = hopper_.unfinished();
  if (!damage.empty() && !failed_) {
    failed_ = true;
    error_ = "block " + to_text(index_in(first_block, launch_.grid)) + ": " + damage;
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
  *binding_.shared_begin = current_->cta->shared.as<char>();
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
  hopper_.end_thread(*this);
  if (++current_->cta->ended < block_threads_) return;
  if (const std::string what = hopper_.landing_in(current_->cta->rank); !what.empty()) fail(what);
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
  if (done.name == "__syncwarp") order_lanes(done.arrived);
  warp.runnable |= done.arrived & ~warp.ended;
}

void Emulator::order_lanes(unsigned lanes) {
  const int first = current_->number / 32 * 32;
  Knowledge known;
  const auto each = [&](auto act) {
    for (int lane = 0; lane < 32; ++lane)
      if ((lanes >> lane & 1) != 0) act(first + lane);
  };
  each([&](int thread) { clocks_.tell(thread, &known); });
  each([&](int thread) { clocks_.learn(thread, known); });
}

int Emulator::sync_block(const char* function, bool vote, Place place) {
  const Cta& cta = *current_->cta;
  BlockBarrier& barrier = current_->cta->barrier;
  if (barrier.arrived == 0) {
    barrier.name = function;
    barrier.place = place;
    barrier.votes = 0;
  }
  if (!same(barrier.place, place)) {
    current_->place = place;
    fail("divergent barrier: " + std::string(function) + " here, while others wait in " + std::string(barrier.name) +
         " at " + to_text(barrier.place));
  }
  barrier.votes += vote;
  tell(&barrier.gate);
  if (++barrier.arrived < block_threads_) {
    wait(function, place);
  } else {
    current_->place = place;
    barrier.arrived = 0;
    barrier.last_votes = barrier.votes;
    barrier.gate.open();
    const std::size_t warps = warps_.size() / ctas_.size();
    for (std::size_t w = cta.rank * warps; w < (cta.rank + 1) * warps; ++w) warps_[w].runnable = warps_[w].there;
  }
  learn(barrier.gate);
  return barrier.last_votes;
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
  Cta& cta = *current_->cta;
  const auto offset = static_cast<std::size_t>(at - cta.shared.as<char>());
  const Moment now{current_->in_block, clocks_.step(current_->number), access == Access::kReadOfWarp, current_->place};
  const std::uint32_t* known = clocks_.of(current_->number).data() + cta.rank * block_threads_;
  if (const std::string race = cta.races.check(access, offset, bytes, now, known); !race.empty()) fail(race);
}

void Emulator::access(unsigned long offset, unsigned long bytes, bool write) {
  const Cta& cta = *current_->cta;
  check_race(write ? Access::kWrite : Access::kRead, cta.shared.as<char>() + offset, bytes);
  const std::uint64_t at = cta.address_of(offset);
  if (write) hopper_.plain_store(*this, {at, at + bytes});
}

void Emulator::access_workspace(unsigned long offset, unsigned long bytes, bool write) {
  const WorkspaceRaces::Access now{first_block_, current_->number, current_->place};
  if (const std::string race = races_.check(write, offset, bytes, now, clocks_); !race.empty()) fail(race);
}

void Emulator::access_global(const void* at, std::size_t bytes, bool write) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(at) - *binding_.workspace_begin);
  if (offset < *binding_.workspace_bytes) access_workspace(offset, bytes, write);
}

unsigned Emulator::shared_address(const void* pointer) {
  const Buffer& shared = current_->cta->shared;
  const std::ptrdiff_t offset = static_cast<const char*>(pointer) - shared.as<char>();
  if (offset < 0 || offset > static_cast<std::ptrdiff_t>(shared.bytes()))
    fail("the shared address of what does not lie in dynamic shared memory");
  return static_cast<unsigned>(current_->cta->address_of(static_cast<std::size_t>(offset)));
}

char* Emulator::shared(std::uint64_t address, std::size_t bytes, const char* what) {
  const Cta& cta = *current_->cta;
  if (rank_of(address) != cta.rank && rank_of(address) < ctas_.size())
    fail(std::string(what) + " of shared memory of CTA " + std::to_string(rank_of(address)) + " by a thread of CTA " +
         std::to_string(cta.rank) + ", which reaches its own alone");
  if (const std::string why = cta.refusal(address, bytes, what); !why.empty()) fail(why);
  return cta.at(address);
}

char* Emulator::cluster_shared(std::uint64_t address, std::size_t bytes, const char* what) {
  const std::uint64_t rank = rank_of(address);
  if (rank >= ctas_.size())
    fail(std::string(what) + " of CTA " + std::to_string(rank) + " in a cluster of " + std::to_string(ctas_.size()));
  const Cta& cta = *ctas_[rank];
  if (cta.ended == block_threads_)
    fail(std::string(what) + ": CTA " + std::to_string(rank) +
         " of the cluster has ended, and its shared memory with it");
  if (const std::string why = cta.refusal(address, bytes, what); !why.empty()) fail(why);
  return cta.at(address);
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
  error_ = std::string("deadlock in ") + (ctas_.size() > 1 ? "the cluster of " : "") + "block " +
           to_text(threads_[0]->self.block) + ":";
  for (const auto& cta : ctas_) {
    std::map<std::string, std::vector<int>> waiting;
    for (const auto& t : threads_)
      if (t->cta == cta.get())
        waiting[t->done ? "ended" : "wait in " + std::string(t->waits_for) + " at " + to_text(t->place)].push_back(
            t->in_block);
    if (ctas_.size() > 1) error_ += " CTA " + std::to_string(cta->rank) + ":";
    for (const auto& [what, who] : waiting)
      error_ += " " + std::to_string(who.size()) + " threads (the first: " + std::to_string(who[0]) + ") " + what + ";";
  }
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
