// warm.cc: `gqa-cache warm`: makes shapes ready before anyone waits for them.
// Owns: the command's options, the order of the work, and what is printed of it.
// Never: tunes or compiles itself; target.h does.
// Threads: one; the tuner starts its own.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "search/text.h"
#include "tools/cache/command.h"
#include "tools/cache/errors.h"
#include "tools/cache/numbers.h"
#include "tools/cache/progress.h"
#include "tools/cache/shapes.h"
#include "tools/cache/target.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

constexpr double kLeastBudget = 0.001, kMostBudget = 86400;

struct WarmOptions {
  std::string device = "auto";
  std::vector<std::string> archs;
  ShapeOptions shapes;
  double budget_seconds = TunePolicy().budget_seconds;
  bool dry_run = false;
  std::string output;  // "": none
};

// A name nobody knows is the command line's fault; anything else is the machine's.
void require(const Status& status) {
  if (status.code() == Code::kOption) throw Usage(status.message());
  if (!status.ok()) throw Failure(status.message());
}

using Targets = std::vector<std::unique_ptr<Target>>;

std::vector<std::string> each_once(const std::vector<std::string>& names) {
  std::vector<std::string> once;
  for (const std::string& name : names) {
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(name);
  }
  return once;
}

// A plan alone begins no file.
std::unique_ptr<cache::Store> open_cache_for(const Shared& shared, const WarmOptions& options) {
  if (!options.dry_run) return open_cache(shared, cache::Mode::kReadWrite);
  std::error_code ignored;
  const std::vector<std::string> paths = cache_paths(shared);
  const bool there = std::any_of(paths.begin(), paths.end(), [&ignored](const std::string& path) {
    return std::filesystem::exists(path, ignored);
  });
  return open_cache(shared, there ? cache::Mode::kReadOnly : cache::Mode::kOff);
}

// Devices are opened before the cache: a mistyped name must not begin a file.
Targets open_arch_targets(const Shared& shared, const WarmOptions& options, const TunePolicy& policy,
                          const ProgressFn& progress) {
  std::vector<std::unique_ptr<Device>> devices;
  for (const std::string& arch : each_once(options.archs)) {
    const Status status = open_compile_only_device(arch, "", &devices.emplace_back());
    if (!DeviceSpec::for_arch(arch)) throw Usage("--arch: " + status.message());
    require(status);
  }
  const std::shared_ptr<cache::Store> store = open_cache_for(shared, options);
  Targets targets;
  for (auto& device : devices) targets.push_back(arch_target(std::move(device), store, policy, progress));
  return targets;
}

Targets open_targets(const Shared& shared, const WarmOptions& options, const ProgressFn& progress) {
  TunePolicy policy;
  policy.budget_seconds = options.budget_seconds;
  if (!options.archs.empty()) return open_arch_targets(shared, options, policy, progress);
  DeviceRequest request;
  request.name = options.device;
  std::unique_ptr<Device> device;
  require(open_device(request, &device));
  Targets targets;
  targets.push_back(device_target(std::move(device), open_cache_for(shared, options), policy, progress));
  return targets;
}

// ---- telling

Json warmed_json(const Warmed& warmed) {
  Json json = {{"problem", to_text(warmed.problem)}, {"device", warmed.device}, {"ready", warmed.failure.empty()}};
  if (warmed.failure.empty()) {
    json["from"] = warmed.from;
    json["candidate"] = warmed.candidate;
  } else {
    json["failure"] = warmed.failure;
  }
  if (warmed.median_us > 0) json["median_us"] = warmed.median_us;
  if (warmed.bound > 0) {
    json["error"] = warmed.error;
    json["bound"] = warmed.bound;
  }
  json["seconds"] = warmed.seconds;
  json["outcomes"] = warmed.outcomes;
  return json;
}

// "10 compiled, 1 spilled": of the candidates that were tried.
std::string outcomes_text(const Warmed& warmed) {
  std::string text;
  for (const auto& [outcome, count] : warmed.outcomes) {
    if (outcome == "pruned" || outcome == "not tried") continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + outcome;
  }
  return text;
}

std::string warmed_text(const Warmed& warmed, const Terminal& terminal) {
  const std::string shape = warmed.device + "  " + to_text(warmed.problem) + "  ";
  const std::string took = " in " + seconds_text(warmed.seconds);
  if (warmed.from == "compiled") {
    return shape + outcomes_text(warmed) + took + "; most promising " + warmed.candidate + "\n";
  }
  const std::string from = warmed.from == "tuned" ? "tuned" + took : "from the " + warmed.from;
  return shape + warmed.candidate + "  " + terminal.green(time_text(warmed.median_us)) + "  " +
         error_text(warmed.error, warmed.bound) + "  " + terminal.dim(from) + "\n";
}

// "17 shapes ready in 43.0 s: 12 tuned, 5 from the cache", "... 1 failed".
std::string summary_text(const std::vector<Warmed>& all, double seconds, const Terminal& terminal) {
  std::map<std::string, int> counts;
  for (const Warmed& warmed : all) {
    const bool known = warmed.from == "cache" || warmed.from == "memory";
    ++counts[!warmed.failure.empty() ? "failed" : known ? "from the " + warmed.from : warmed.from];
  }
  std::string how;
  for (const auto& [what, count] : counts) {
    const std::string item = std::to_string(count) + " " + what;
    how += (how.empty() ? "" : ", ") + (what == "failed" ? terminal.red(item) : item);
  }
  return terminal.bold(counted(static_cast<std::int64_t>(all.size()), "shape")) + " in " + seconds_text(seconds) +
         ": " + how + "\n";
}

void tell(const Warmed& warmed, bool json) {
  for (const std::string& warning : warmed.warnings) print_warning(warning);
  if (!warmed.failure.empty()) {
    print_error(warmed.device + " " + to_text(warmed.problem) + ": " + warmed.failure);
  } else if (!json) {
    print(warmed_text(warmed, Terminal(stdout)));
    std::fflush(stdout);
  }
}

Json outlook_json(const std::string& device, const Outlook& outlook) {
  return {{"device", device},
          {"shapes", outlook.workloads},
          {"ready", outlook.ready},
          {"kernels", outlook.kernels},
          {"to_compile", outlook.to_compile},
          {"seconds", outlook.seconds},
          {"most_seconds", outlook.most_seconds}};
}

// "sm_90a  391 shapes, 0 ready; 74 kernels, 74 to compile; about 4 min 10 s, up to 52 min 8 s"
std::string outlook_text(const std::string& device, const Outlook& outlook) {
  return device + "  " + counted(outlook.workloads, "shape") + ", " + grouped(outlook.ready) + " ready; " +
         counted(outlook.kernels, "kernel") + ", " + grouped(outlook.to_compile) + " to compile; about " +
         seconds_text(outlook.seconds) + ", up to " + seconds_text(outlook.most_seconds) + "\n";
}

Json all_json(const Shared& shared, const Json& plan, const std::vector<Warmed>& all, double seconds) {
  Json json = {{"path", cache_path(shared)}, {"plan", plan}, {"seconds", seconds}, {"shapes", Json::array()}};
  for (const Warmed& warmed : all) json["shapes"].push_back(warmed_json(warmed));
  return json;
}

// ---- the work

std::vector<Warmed> warm_all(const Targets& targets, const std::vector<Problem>& shapes, bool json,
                             ProgressLine* progress) {
  std::vector<Warmed> all;
  for (const auto& target : targets) {
    for (const Problem& shape : shapes) {
      all.push_back(target->warm(shape));
      progress->clear();
      tell(all.back(), json);
      progress->next_shape();
    }
  }
  return all;
}

// Ranges of calls are many shapes: what they cost is told before it is paid.
Json plan_all(const Targets& targets, const std::vector<Problem>& shapes, bool json) {
  Json plan = Json::array();
  for (const auto& target : targets) {
    const Outlook outlook = target->look(shapes);
    plan.push_back(outlook_json(target->arch(), outlook));
    if (!json) print(outlook_text(target->arch(), outlook));
  }
  std::fflush(stdout);
  return plan;
}

// Before the work: a name that nothing can be written to should not cost it.
void check_output(const WarmOptions& options) {
  if (options.output.empty()) return;
  if (options.dry_run) throw Usage("--output writes what was made, and --dry-run makes nothing; leave one of them out");
  const std::filesystem::path folder = std::filesystem::path(options.output).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw Usage("--output: there is no folder " + folder.string() + " for " + options.output + "; make it first");
  if (std::filesystem::is_directory(options.output, ignored))
    throw Usage("--output: " + options.output + " is a folder; expected the name of a file");
}

int warm(const Shared& shared, const WarmOptions& options) {
  check_output(options);
  const std::vector<Problem> shapes = read_shapes(options.shapes);
  if (shapes.empty()) throw Usage("warm was given no shape; expected --shape, --shapes or --model");
  const auto start = std::chrono::steady_clock::now();
  ProgressLine* line = nullptr;  // there once the targets are
  const Targets targets = open_targets(shared, options, [&line](const Progress& shape) {
    if (line != nullptr) line->update(shape);
  });
  Json plan = Json::array();
  if (options.dry_run || !options.shapes.serves.empty()) plan = plan_all(targets, shapes, shared.json);
  std::vector<Warmed> all;
  if (!options.dry_run) {
    ProgressLine progress(stderr, static_cast<int>(targets.size() * shapes.size()), options.budget_seconds);
    line = &progress;
    all = warm_all(targets, shapes, shared.json, &progress);
    line = nullptr;
  }
  cache::Stats written;
  const bool warned = !options.output.empty() && export_cache(shared, options.output, &written);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (shared.json) {
    Json json = all_json(shared, plan, all, seconds);
    if (!options.output.empty()) json["output"] = options.output;
    print_json(json);
  } else if (!options.dry_run) {
    print(summary_text(all, seconds, Terminal(stdout)));
    if (!options.output.empty())
      print(counted(written.winners, "winner") + " and " + counted(written.kernels, "kernel") + " in " +
            options.output + "\n");
  }
  if (warned) return 1;
  return std::all_of(all.begin(), all.end(), [](const Warmed& warmed) { return warmed.failure.empty(); }) ? 0 : 1;
}

}  // namespace

void add_warm(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "warm", "Tune or compile shapes into the cache",
                                  "gqa-cache warm --shape b=1,hq=32,hk=8,sq=4096,sk=4096,d=128,dtype=bf16,causal\n  "
                                  "gqa-cache warm --arch sm_90a,sm_100a --model llama-3-70b,tp=8\n  "
                                  "gqa-cache warm --model llama-3-8b --serve batch=1..256,kv=1..32k,page=16",
                                  Lists::kYes);
  const auto options = std::make_shared<WarmOptions>();
  CLI::Option* device = command->add_option("--device", options->device, "auto (default), cuda, cuda:N or host");
  command->add_option("--arch", options->archs, "Compile only, for these architectures; needs no GPU")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(device);
  add_shape_options(command, &options->shapes);
  take_short_numbers(command->add_option("--budget", options->budget_seconds, "Seconds a shape may take (default 8)")
                         ->type_name("SECONDS")
                         ->check(CLI::Range(kLeastBudget, kMostBudget)));
  command->add_option("--output", options->output, "Export the whole cache to this file afterwards: the one to ship")
      ->type_name("FILE")
      ->check(path_complaint);
  command->add_flag("--dry-run", options->dry_run,
                    "Say how many shapes and kernels that is and about how long; no more");
  command->callback([shared, options] { shared->run = [shared, options] { return warm(*shared, *options); }; });
}

}  // namespace gqa::tools
