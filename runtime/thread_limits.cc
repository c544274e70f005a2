// thread_limits.cc: see thread_limits.h.
#include "runtime/thread_limits.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "search/text.h"

namespace gqa {
namespace {

namespace fs = std::filesystem;

// The first number of OMP_NUM_THREADS, which lists one for each level of nesting ("4,2"); 0: none that OpenMP allows.
int first_of_levels(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = end == text.data() + text.size() || *end == ',' || *end == ' ';
  return error == std::errc() && whole && number > 0 ? number : 0;
}

// Cores of a quota and its period, both in microseconds; 0: no limit ("max", or -1, or nothing that can be read).
int cores_of(std::string_view quota, std::string_view period) {
  std::int64_t time = 0, of = 0;
  if (!parse_number("quota", quota, 1, INT64_MAX, &time).ok()) return 0;
  if (!parse_number("period", period, 1, INT64_MAX, &of).ok()) return 0;
  return static_cast<int>(std::min<std::int64_t>(kMostThreads, time / of + (time % of != 0)));
}

std::string first_word(const fs::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

int cores_of_group(const fs::path& group) {
  if (std::ifstream file(group / "cpu.max"); file) {  // version 2
    std::string quota, period;
    file >> quota >> period;
    return cores_of(quota, period);
  }
  return cores_of(first_word(group / "cpu.cfs_quota_us"), first_word(group / "cpu.cfs_period_us"));
}

int less(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

// The least of a group and those above it. A container may see its groups' names and not their folders: what is not
// there is no limit, and its own group then stands at the top.
int cores_of_branch(const fs::path& top, std::string_view group) {
  int cores = cores_of_group(top);
  fs::path folder = top;
  for (const fs::path& part : fs::path(group).relative_path()) cores = less(cores, cores_of_group(folder /= part));
  return cores;
}

// "7:cpu,cpuacct:/a/b" names the controllers of a hierarchy of version 1; "0::/a/b" is that of version 2.
bool lists_cpu(std::string_view controllers) {
  const std::string listed = "," + std::string(controllers) + ",";
  return listed.find(",cpu,") != std::string::npos;
}

struct OfProcess {
  ThreadLimits limits;
  Status status;
};

const OfProcess& of_process() {
  static const OfProcess once = [] {
    OfProcess made;
    const char* omp = std::getenv("OMP_NUM_THREADS");
    const int quota = quota_cores("/");
    made.status = parse_thread_limits(std::getenv("GQA_THREADS"), omp, quota, &made.limits);
    if (!made.status.ok()) (void)parse_thread_limits(nullptr, omp, quota, &made.limits);
    return made;
  }();
  return once;
}

}  // namespace

Status parse_thread_limits(const char* gqa_threads, const char* omp_num_threads, int quota, ThreadLimits* limits) {
  ThreadLimits made;
  if (gqa_threads != nullptr) {
    std::int64_t asked = 0;
    if (Status status = parse_number("GQA_THREADS", gqa_threads, 1, kMostThreads, &asked); !status.ok()) return status;
    made.asked = static_cast<int>(asked);
  }
  made.most = less(omp_num_threads == nullptr ? 0 : first_of_levels(omp_num_threads), quota);
  *limits = made;
  return {};
}

int quota_cores(const fs::path& root) {
  int cores = 0;
  std::ifstream groups(root / "proc/self/cgroup");
  const fs::path tree = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) cores = less(cores, cores_of_branch(tree, group));
    if (lists_cpu(controllers)) cores = less(cores, cores_of_branch(tree / "cpu", group));
  }
  return cores;
}

int usable_threads() {
  const ThreadLimits& limits = of_process().limits;
  if (limits.asked > 0) return limits.asked;
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const int cores = std::max(1, known ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency()));
  return less(cores, limits.most);
}

Status thread_limits_status() { return of_process().status; }

}  // namespace gqa
