// prune.cc: `gqa-cache prune`: makes the file smaller.
// Owns: the command's limits and words.
// Never: prunes without a limit.
// Threads: one.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <nlohmann/json.hpp>

#include "tools/cache/command.h"
#include "tools/cache/errors.h"
#include "tools/cache/numbers.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

constexpr double kNoLimit = -1, kBytesAMegabyte = 1e6, kMostMegabytes = 1e9, kMostDays = 1e6;

struct PruneOptions {
  double unused_days = kNoLimit, max_megabytes = kNoLimit;
};

int prune(const Shared& shared, const PruneOptions& options) {
  if (options.unused_days < 0 && options.max_megabytes < 0) {
    throw Usage("prune was given no limit; expected --unused-for DAYS, --max-size MB, or both");
  }
  require_file(shared);
  const auto store = open_cache(shared, cache::Mode::kReadWrite);
  const double bytes = options.max_megabytes < 0 ? kNoLimit : options.max_megabytes * kBytesAMegabyte;
  const cache::Pruned pruned = store->prune(options.unused_days, static_cast<std::int64_t>(bytes));
  if (print_warnings(*store)) return 1;
  const cache::Stats stats = store->stats();
  if (shared.json) {
    print_json({{"winners", pruned.winners},
                {"kernels", pruned.kernels},
                {"bytes", pruned.bytes},
                {"left", {{"winners", stats.winners}, {"kernels", stats.kernels}, {"file_bytes", stats.file_bytes}}}});
    return 0;
  }
  print("pruned " + counted(pruned.winners, "winner") + " and " + counted(pruned.kernels, "kernel") + " (" +
        bytes_text(pruned.bytes) + "); left: " + counted(stats.winners, "winner") + " and " +
        counted(stats.kernels, "kernel") + " (" + bytes_text(stats.file_bytes) + ")\n");
  return 0;
}

}  // namespace

void add_prune(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "prune", "Remove what is not used, or too much",
                                  "gqa-cache prune --unused-for 30 --max-size 200", Lists::kYes);
  const auto options = std::make_shared<PruneOptions>();
  CLI::Option* days = command->add_option("--unused-for", options->unused_days, "Remove what was not used for so long")
                          ->type_name("DAYS")
                          ->check(CLI::Range(0.0, kMostDays));
  CLI::Option* size = command
                          ->add_option("--max-size", options->max_megabytes,
                                       "Remove the least recently used until the file is so small")
                          ->type_name("MB")
                          ->check(CLI::Range(0.0, kMostMegabytes));
  for (CLI::Option* number : {days, size}) take_short_numbers(number);
  command->callback([shared, options] { shared->run = [shared, options] { return prune(*shared, *options); }; });
}

}  // namespace gqa::tools
