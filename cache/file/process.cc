// process.cc: /proc.
// Owns: see process.h.
// Threads: see process.h.
#include "cache/file/process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>

namespace gqa::cache {
namespace {

constexpr int kStartField = 22;  // of /proc/PID/stat, counted from 1; the state is field 3

std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  char space[64] = {};
  const ssize_t size = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  return boot.empty() || size <= 0 ? "" : boot + " " + space;
}

struct State {
  char letter = 0;  // 0: not known
  std::int64_t started = 0;
};

State state_of(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = line.rfind(')');  // the name before it may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream rest(line.substr(name_end + 1));
  State state;
  std::string field;
  for (int at = 3; at <= kStartField && rest >> field; ++at) {
    if (at == 3) state.letter = field[0];
    if (at == kStartField) state.started = std::stoll(field);
  }
  return state;
}

}  // namespace

Process this_process() {
  const std::int64_t pid = getpid();
  return {machine(), pid, state_of(pid).started};
}

bool is_dead(const Process& process) {
  if (process.pid <= 0 || process.machine.empty() || process.machine != machine()) return false;
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
  const State state = state_of(process.pid);
  if (state.letter == 0) return false;
  if (state.letter == 'Z' || state.letter == 'X') return true;  // killed, and its parent has not looked yet
  return process.started != 0 && state.started != process.started;
}

}  // namespace gqa::cache
