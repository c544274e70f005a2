// ptx_copy.cc: cp.async: copies from global to shared memory that happen as late, or as early, as the schedule says.
#include <cstring>

#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

void perform(const Copy& copy) {
  std::memcpy(copy.to, copy.from, copy.bytes);
  std::memset(copy.to + copy.bytes, 0, copy.zeros);
}

// What the thread waited for.
void land(Emulator& emulator, const std::vector<Copy>& group) {
  for (const Copy& copy : group) {
    if (emulator.schedule().copies == Copies::kLate) perform(copy);
    emulator.check_race(Emulator::Access::kLandCopy, copy.to, copy.bytes + copy.zeros);
    emulator.hopper().plain_store(emulator, copy.range());
  }
}

// cp.async [shared], [global], size{, bytes of the source that are read: the rest is zeros}.
void issue(Emulator& emulator, const Call& call) {
  const std::size_t size = call.read(2);
  const std::size_t given = call.instruction.arguments.size() > 3 ? call.read(3) : size;
  if (size != 4 && size != 8 && size != 16)
    emulator.fail("cp.async copies 4, 8 or 16 bytes, not " + std::to_string(size));
  if (given > size) emulator.fail("cp.async of " + std::to_string(given) + " bytes into " + std::to_string(size));
  const auto* from = reinterpret_cast<const char*>(call.read(1));
  if (given > 0 && reinterpret_cast<std::uintptr_t>(from) % size != 0)
    emulator.fail("cp.async from an address that is not aligned to " + std::to_string(size));
  const Copy copy{emulator.shared(call.read(0), size, "cp.async"), from, given, size - given, call.read(0)};
  emulator.check_race(Emulator::Access::kIssueCopy, copy.to, size);
  emulator.hopper().plain_store(emulator, copy.range());
  if (emulator.schedule().copies == Copies::kEarly) perform(copy);
  emulator.thread().open.push_back(copy);
}

constexpr std::uint64_t kEvictFirst = 0x12f0000000000000;  // any that no other policy has

void create_policy(Emulator&, const Call& call) { call.write(0, kEvictFirst); }

// The same with a policy, which changes when lines leave L2 and nothing else.
void issue_with_policy(Emulator& emulator, const Call& call) {
  if (call.read(4) != kEvictFirst) emulator.fail("cp.async with a cache policy that no createpolicy made");
  issue(emulator, call);
}

void commit(Emulator& emulator, const Call&) {
  Thread& thread = emulator.thread();
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}

// Until at most so many groups, the newest, are on their way.
void wait_group(Emulator& emulator, const Call& call) {
  auto& groups = emulator.thread().groups;
  const std::size_t pending = call.read(0);
  while (groups.size() > pending) {
    land(emulator, groups.front());
    groups.erase(groups.begin());
  }
}

void wait_all(Emulator& emulator, const Call& call) {
  commit(emulator, call);
  for (const auto& group : emulator.thread().groups) land(emulator, group);
  emulator.thread().groups.clear();
}

}  // namespace

const std::vector<Known>& copy_instructions() {
  static const std::vector<Known> known = {
      {"cp.async.cg.shared.global", issue},
      {"cp.async.cg.shared.global.L2::128B", issue},
      {"cp.async.cg.shared.global.L2::256B", issue},
      {"cp.async.ca.shared.global", issue},
      {"cp.async.cg.shared.global.L2::cache_hint.L2::128B", issue_with_policy},
      {"createpolicy.fractional.L2::evict_first.b64", create_policy},
      {"cp.async.ca.shared.global.L2::128B", issue},
      {"cp.async.commit_group", commit},
      {"cp.async.wait_group", wait_group},
      {"cp.async.wait_all", wait_all},
  };
  return known;
}

}  // namespace gqa::simt
