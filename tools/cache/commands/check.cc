// check.cc: `gqa-cache check`: is every row what was written?
// Owns: the list of damage.
// Never: repairs without --repair.
// Threads: one.
#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/cache/command.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

using Damages = std::vector<cache::Damage>;

Json damage_json(const cache::Store& store, const Damages& damages, bool whole) {
  Json json = {{"whole", whole}, {"damages", Json::array()}};
  json["mode"] = store.mode() == cache::Mode::kReadWrite ? "read-write" : "read-only";
  for (const cache::Damage& damage : damages) {
    json["damages"].push_back(
        {{"table", damage.table}, {"key", damage.key}, {"what", damage.what}, {"repaired", damage.repaired}});
  }
  return json;
}

std::string damage_text(const Damages& damages, const Terminal& terminal) {
  Table table({"TABLE", "KEY", "DAMAGE", "STATE"});
  for (const cache::Damage& damage : damages) {
    table.add({damage.table, damage.key.empty() ? "-" : damage.key, damage.what,
               damage.repaired ? "set aside, to be made again at its next use" : "not repaired"});
  }
  return table.text(terminal);
}

std::string whole_text(cache::Store& store, const Terminal& terminal) {
  const cache::Stats stats = store.stats();
  return terminal.green("whole") + ": " + counted(stats.winners, "winner") + " and " +
         counted(stats.kernels, "kernel") + " in " + stats.path + "\n";
}

// Opening for writing may already set a damaged file aside, with a warning: damage found, too.
int check(const Shared& shared, bool repair) {
  require_file(shared);
  bool warned = false;
  const auto store = open_cache(shared, repair ? cache::Mode::kReadWrite : cache::Mode::kReadOnly, &warned);
  const Damages damages = store->verify(repair);
  warned = print_warnings(*store) || warned;
  const bool whole = damages.empty() && !warned;
  if (shared.json) {
    print_json(damage_json(*store, damages, whole));
  } else if (whole) {
    print(whole_text(*store, Terminal(stdout)));
  } else if (!damages.empty()) {
    print(damage_text(damages, Terminal(stdout)));
  }
  if (!damages.empty() && !repair) print_error("damage found; gqa-cache check --repair sets it aside");
  return whole ? 0 : 1;
}

}  // namespace

void add_check(CLI::App* app, Shared* shared) {
  CLI::App* command =
      new_command(app, shared, "check", "Check every checksum; exit code 1 if there was damage, repaired or not",
                  "gqa-cache check --repair", Lists::kYes);
  command->alias("verify");  // its name until November 2026
  const auto repair = std::make_shared<bool>(false);
  command->add_flag("--repair", *repair, "Set damaged rows aside, to be made again at their next use");
  command->callback([shared, repair] { shared->run = [shared, repair] { return check(*shared, *repair); }; });
}

}  // namespace gqa::tools
