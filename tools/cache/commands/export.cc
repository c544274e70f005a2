// export.cc: `gqa-cache export FILE`: the cache as one file to ship.
// Owns: the command's words.
// Never: changes the cache.
// Threads: one.
#include <CLI/App.hpp>

#include "cache/layer_paths.h"
#include "tools/cache/command.h"
#include "tools/cache/errors.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

int export_file(const Shared& shared, const std::string& path) {
  require_file(shared);
  cache::Stats stats;
  const bool warned = export_cache(shared, path, &stats);
  print("exported " + counted(stats.winners, "winner") + " and " + counted(stats.kernels, "kernel") + " to " + path +
        "\n");
  return warned ? 1 : 0;
}

}  // namespace

bool export_cache(const Shared& shared, const std::string& path, cache::Stats* stats) {
  const auto store = open_cache(shared, cache::Mode::kReadOnly);
  const std::string why = store->export_to(path);
  const bool warned = print_warnings(*store);
  if (!why.empty()) throw Failure(why);
  cache::Store::Options written;
  written.path = cache::as_layer(path);
  written.mode = cache::Mode::kReadOnly;
  *stats = cache::Store::open(written)->stats();
  return warned;
}

void add_export(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "export", "Write all winners and kernels to one file",
                                  "gqa-cache export kernels.gqa", Lists::kNo);
  const auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "A new name or an older export; written whole or not at all")
      ->required()
      ->check(path_complaint);
  command->callback([shared, path] { shared->run = [shared, path] { return export_file(*shared, *path); }; });
}

}  // namespace gqa::tools
