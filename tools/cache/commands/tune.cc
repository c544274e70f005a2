// tune.cc: `gqa-cache tune KEY`: a winner's shape is raced again.
// Owns: the command's options and words.
// Never: decides which row stays; retune.h does.
// Threads: one; the tuner starts its own.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <nlohmann/json.hpp>

#include "runtime/session/session.h"
#include "search/text.h"
#include "tools/cache/errors.h"
#include "tools/cache/numbers.h"
#include "tools/cache/progress.h"
#include "tools/cache/retune.h"
#include "tools/cache/rows.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

constexpr double kLeastRace = 0.001, kMostRace = 86400;  // seconds

struct TuneOptions {
  std::string key, device;
  double budget_seconds = TunePolicy().budget_seconds;
};

// The kind of device that the winner is of, unless another is asked for.
std::unique_ptr<Device> open_device_for(const cache::WinnerRow& row, const std::string& asked) {
  DeviceRequest request;
  request.name = !asked.empty() ? asked : row.key.device.starts_with("host ") ? "host" : "auto";
  std::unique_ptr<Device> device;
  const Status status = open_device(request, &device);
  if (status.code() == Code::kOption) throw Usage(status.message());
  if (!status.ok()) throw Failure(status.message());
  return device;
}

std::string won_text(const cache::WinnerRow& row) { return candidate_text(row) + "  " + time_text(row.median_us); }

std::string retuned_text(const Retuned& retuned, const Terminal& terminal) {
  const std::string before = "  before  " + won_text(retuned.before) + "\n";
  const std::string now = "  now     " + terminal.green(won_text(retuned.after)) + "\n";
  return arch_of(retuned.before) + "  " + short_shape(retuned.before) + "\n" + before + now +
         (retuned.kept ? "  the present race's winner is kept\n" : "  the former winner stays: " + retuned.why + "\n");
}

Json retuned_json(const Retuned& retuned) {
  Json json = {{"before", winner_json(retuned.before)}, {"now", winner_json(retuned.after)}, {"kept", retuned.kept}};
  if (!retuned.kept) json["why"] = retuned.why;
  return json;
}

int tune_again(const Shared& shared, const TuneOptions& options) {
  require_file(shared);
  const auto store = open_cache(shared, cache::Mode::kReadWrite);
  const cache::WinnerRow row = find_winner_row(*store, options.key);
  const std::unique_ptr<Device> device = open_device_for(row, options.device);
  TunePolicy policy;
  policy.budget_seconds = options.budget_seconds;
  policy.heed_load = heeds_load();
  Retuned retuned;
  {
    ProgressLine line(stderr, 1, options.budget_seconds);
    retuned = retune(*device, *store, row, policy, [&line](const Progress& shape) { line.update(shape); });
  }
  const bool warned = print_warnings(*store);
  if (shared.json) {
    print_json(retuned_json(retuned));
  } else {
    print(retuned_text(retuned, Terminal(stdout)));
  }
  return warned ? 1 : 0;
}

}  // namespace

void add_tune(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "tune", "Race one winner's shape again, on the device it is of",
                                  "gqa-cache tune 3f9a2c --budget 30", Lists::kYes);
  const auto options = std::make_shared<TuneOptions>();
  command->add_option("KEY", options->key, "The first digits of a winner's key, as gqa-cache list prints it")
      ->required();
  command->add_option("--device", options->device, "cuda, cuda:N or host (default: what the winner is of)");
  take_short_numbers(command->add_option("--budget", options->budget_seconds, "Seconds it may take (default 8)")
                         ->type_name("SECONDS")
                         ->check(CLI::Range(kLeastRace, kMostRace)));
  command->callback([shared, options] { shared->run = [shared, options] { return tune_again(*shared, *options); }; });
}

}  // namespace gqa::tools
