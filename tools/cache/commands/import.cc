// import.cc: `gqa-cache import FILE`: takes over what another cache exported.
// Owns: the command's words.
// Never: takes a part of a file.
// Threads: one.
#include <CLI/App.hpp>

#include "tools/cache/command.h"
#include "tools/cache/errors.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

int import_file(const Shared& shared, const std::string& path) {
  const auto store = open_cache(shared, cache::Mode::kReadWrite);
  const std::string why = store->import_from(path);
  const bool warned = print_warnings(*store);
  if (!why.empty()) throw Failure(why + "; nothing was imported");
  const cache::Stats stats = store->stats();
  print("imported " + path + "; " + stats.path + " now holds " + counted(stats.winners, "winner") + " and " +
        counted(stats.kernels, "kernel") + "\n");
  return warned ? 1 : 0;
}

}  // namespace

void add_import(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "import", "Take over an exported file: all of it, or nothing",
                                  "gqa-cache import kernels.gqa", Lists::kNo);
  const auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "What gqa-cache export wrote; only import what you trust, its kernels will run")
      ->required()
      ->check(path_complaint);
  command->callback([shared, path] { shared->run = [shared, path] { return import_file(*shared, *path); }; });
}

}  // namespace gqa::tools
