// list.cc: `gqa-cache list`: what the cache holds.
// Owns: the table of winners and the table of kernels.
// Never: changes the file.
// Threads: one.
#include <CLI/App.hpp>
#include <ctime>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tools/cache/rows.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

using Winners = std::vector<cache::WinnerRow>;
using Kernels = std::vector<cache::KernelRow>;

// "3f9a2c1d", or "3f9a2c1d +2" of three.
std::string kernels_text(const cache::WinnerRow& row) {
  const std::size_t others = row.kernels().size() - 1;
  return short_key(row.kernels().front()) + (others > 0 ? " +" + std::to_string(others) : "");
}

std::string winners_table(const Winners& winners, const Terminal& terminal) {
  const std::int64_t now = std::time(nullptr);
  Table table({"WINNER", "ARCH", "SHAPE", "TIME", "CANDIDATE", "KERNEL", "COMPILER", "FAMILIES", "USED"});
  for (const cache::WinnerRow& row : winners) {
    table.add({short_key(row.id()), arch_of(row), shape_text(row),
               row.provisional ? "provisional" : time_text(row.median_us), candidate_text(row), kernels_text(row),
               compiler_text(row.compiler), row.families, age_text(row.used, now)});
  }
  return table.text(terminal);
}

const char* state_text(const cache::KernelRow& row, const std::unordered_set<std::string>& won) {
  if (row.family == cache::kCheckFamily) return "verifies";
  if (row.family == cache::kMergeFamily) return "merges";
  if (row.family == cache::kAppendFamily) return "appends";
  return won.contains(row.key) ? "winner's" : "no winner's";
}

std::string kernels_table(const Kernels& kernels, const Winners& winners, const Terminal& terminal) {
  const std::int64_t now = std::time(nullptr);
  std::unordered_set<std::string> won;
  for (const cache::WinnerRow& row : winners) {
    for (const std::string& kernel : row.kernels()) won.insert(kernel);
  }
  Table table(
      {"KERNEL", "ARCH", "FAMILY", "MADE FOR", "REGISTERS", "SPILLED", "CANDIDATE", "COMPILER", "STATE", "USED"});
  for (const cache::KernelRow& row : kernels) {
    table.add({short_key(row.key), row.arch, row.family, row.problem, std::to_string(row.registers),
               bytes_text(row.spill_bytes), row.candidate, compiler_text(row.compiler), state_text(row, won),
               age_text(row.used, now)});
  }
  return table.text(terminal);
}

Json listing_json(const std::string& path, const Winners& winners, const Kernels& kernels) {
  Json json = {{"path", path}, {"winners", Json::array()}, {"kernels", Json::array()}};
  for (const cache::WinnerRow& row : winners) json["winners"].push_back(winner_json(row));
  for (const cache::KernelRow& row : kernels) json["kernels"].push_back(kernel_json(row));
  return json;
}

int list(const Shared& shared) {
  require_file(shared);
  const auto store = open_cache(shared, cache::Mode::kReadOnly);
  const Winners winners = store->list_winners();
  const Kernels kernels = store->list_kernels();
  if (print_warnings(*store)) return 1;
  if (shared.json) {
    print_json(listing_json(cache_path(shared), winners, kernels));
    return 0;
  }
  const Terminal terminal(stdout);
  if (!winners.empty()) print(winners_table(winners, terminal) + "\n");
  if (!kernels.empty()) print(kernels_table(kernels, winners, terminal) + "\n");
  print(counted(static_cast<std::int64_t>(winners.size()), "winner") + " and " +
        counted(static_cast<std::int64_t>(kernels.size()), "kernel") + " in " + cache_path(shared) + "\n");
  return 0;
}

}  // namespace

void add_list(CLI::App* app, Shared* shared) {
  CLI::App* command =
      new_command(app, shared, "list", "List winners and kernels", "gqa-cache list --json", Lists::kYes);
  command->callback([shared] { shared->run = [shared] { return list(*shared); }; });
}

}  // namespace gqa::tools
