// stats.cc: `gqa-cache stats`: how much the cache holds, and which compiler and driver this machine has.
// Owns: the command's words.
// Never: begins a file, changes it, or needs a GPU.
// Threads: one.
#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/cuda/driver/probe.h"
#include "tools/cache/command.h"
#include "tools/cache/errors.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

// A machine that has not cached anything yet has no file: said, and no error.
std::optional<cache::Stats> read_stats(const Shared& shared) {
  try {
    require_file(shared);
  } catch (const Failure&) {
    return std::nullopt;
  }
  const auto store = open_cache(shared, cache::Mode::kReadOnly);
  const cache::Stats stats = store->stats();
  if (print_warnings(*store)) throw Failure("the cache " + cache_path(shared) + " cannot be counted");
  return stats;
}

Json stats_json(const cache::Stats& stats) {
  return {{"schema", stats.schema},         {"winners", stats.winners},         {"provisional", stats.provisional},
          {"kernels", stats.kernels},       {"quarantined", stats.quarantined}, {"leases", stats.leases},
          {"file_bytes", stats.file_bytes}, {"blob_bytes", stats.blob_bytes},   {"raw_bytes", stats.raw_bytes}};
}

std::string stats_text(const cache::Stats& stats) {
  const std::string untimed = stats.provisional > 0 ? ", " + std::to_string(stats.provisional) + " provisional" : "";
  return "winners      " + std::to_string(stats.winners) + untimed + "\nkernels      " + std::to_string(stats.kernels) +
         "\nquarantined  " + std::to_string(stats.quarantined) + "\nbeing tuned  " + std::to_string(stats.leases) +
         "\nfile         " + bytes_text(stats.file_bytes) + ", schema " + std::to_string(stats.schema) +
         "\ntext, code   " + bytes_text(stats.raw_bytes) + ", compressed to " + bytes_text(stats.blob_bytes) + "\n";
}

// Where there are several: of each after the first.
std::string beneath_text(const std::vector<std::string>& paths) {
  std::string text;
  for (std::size_t at = 1; at < paths.size(); ++at) text += "beneath it   " + paths[at] + "\n";
  return text;
}

void print_all(const Shared& shared, const std::optional<cache::Stats>& stats, const std::string& state) {
  const std::string nvrtc = describe_nvrtc(""), driver = describe_driver();
  if (shared.json) {
    print_json({{"path", cache_path(shared)},
                {"paths", cache_paths(shared)},
                {"state", state},
                {"cache", stats ? stats_json(*stats) : Json(nullptr)},
                {"nvrtc", nvrtc},
                {"driver", driver}});
    return;
  }
  print("cache        " + cache_path(shared) + " (" + state + ")\n" + beneath_text(cache_paths(shared)) +
        (stats ? stats_text(*stats) : "") + "NVRTC        " + nvrtc + "\ndriver       " + driver + "\n");
}

// Compiler and driver are shown whatever became of the cache: they are what one asks stats for when something is wrong.
int stats(const Shared& shared) {
  try {
    const std::optional<cache::Stats> found = read_stats(shared);
    print_all(shared, found, found ? "whole" : "no file yet");
    return 0;
  } catch (const Failure&) {
    print_all(shared, std::nullopt, "unusable");
    throw;
  }
}

}  // namespace

void add_stats(CLI::App* app, Shared* shared) {
  CLI::App* command =
      new_command(app, shared, "stats", "Count what the cache holds; name the NVRTC and the driver found",
                  "gqa-cache stats", Lists::kYes);
  command->callback([shared] { shared->run = [shared] { return stats(*shared); }; });
}

}  // namespace gqa::tools
