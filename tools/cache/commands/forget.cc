// forget.cc: `gqa-cache forget KEY`: one winner less.
// Owns: the command's words.
// Never: takes a kernel that another winner runs.
// Threads: one.
#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "tools/cache/errors.h"
#include "tools/cache/rows.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

int forget(const Shared& shared, const std::string& key) {
  require_file(shared);
  const auto store = open_cache(shared, cache::Mode::kReadWrite);
  const cache::WinnerRow row = find_winner_row(*store, key);
  const cache::Pruned gone = store->forget(row.id());
  if (print_warnings(*store)) return 1;
  if (gone.winners == 0) throw Failure("the winner " + row.id() + " is gone already");
  if (shared.json) {
    print_json({{"winner", winner_json(row)}, {"kernels", gone.kernels}, {"bytes", gone.bytes}});
    return 0;
  }
  print("forgot " + short_key(row.id()) + ": " + short_shape(row) + " on " + arch_of(row) + ", " + candidate_text(row) +
        (row.median_us > 0 ? ", " + time_text(row.median_us) : "") + "; with it " + counted(gone.kernels, "kernel") +
        " that no other winner runs\n");
  return 0;
}

}  // namespace

void add_forget(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "forget", "Remove one winner: the next call for its shape tunes",
                                  "gqa-cache forget 3f9a2c", Lists::kYes);
  const auto key = std::make_shared<std::string>();
  command->add_option("KEY", *key, "The first digits of a winner's key, as gqa-cache list prints it")->required();
  command->callback([shared, key] { shared->run = [shared, key] { return forget(*shared, *key); }; });
}

}  // namespace gqa::tools
