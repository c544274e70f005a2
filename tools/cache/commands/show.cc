// show.cc: `gqa-cache show KEY`: all that is known of one winner or kernel.
// Owns: its text, its evidence as a table, its source and PTX alone, the file that a report goes to.
// Never: changes the cache, or writes over a file that is no report.
// Threads: one.
#include <CLI/App.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/cache/errors.h"
#include "tools/cache/report.h"
#include "tools/cache/rows.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

struct ShowOptions {
  std::string key;
  std::string html;  // the report's file; "": none
  bool source = false, ptx = false;
};

// What KEY names: a winner with its kernels, or a kernel alone.
struct Shown {
  std::optional<cache::WinnerRow> winner;
  std::vector<cache::KernelRow> kernels;  // never empty; each once, in the order they run
};

cache::KernelRow whole_kernel(cache::Store& store, const std::string& key) {
  std::optional<cache::KernelRow> kernel = store.find_kernel(key);
  print_warnings(store);
  if (!kernel) throw Failure("the kernel " + key + " is missing or damaged; gqa-cache check --repair puts that right");
  return std::move(*kernel);
}

Shown look_up(cache::Store& store, const std::string& prefix) {
  const Found found = find_row(store, prefix);
  Shown shown;
  if (!found.winners.empty()) shown.winner = found.winners.front();
  const auto keys = shown.winner ? shown.winner->kernels() : std::vector<std::string>{found.kernels.front().key};
  for (auto key = keys.begin(); key != keys.end(); ++key) {
    if (std::find(keys.begin(), key, *key) == key) shown.kernels.push_back(whole_kernel(store, *key));
  }
  return shown;
}

std::string when(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  char text[32] = "";
  if (gmtime_r(&time, &utc) != nullptr) std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

std::string line(const char* name, const std::string& value) {
  if (value.empty()) return "";
  std::string text = name;
  text.append(text.size() < 11 ? 11 - text.size() : 1, ' ');
  return text + value + "\n";
}

std::string elsewhere_text(const cache::WinnerRow& row) {
  return row.elsewhere.empty() ? "" : row.elsewhere + "; it is verified here before its first use";
}

std::string winner_text(const cache::WinnerRow& row) {
  return line("winner", row.id()) + line("problem", row.key.signature) + line("candidate", candidate_text(row)) +
         line("device", row.key.device) + line("compiler", row.compiler) + line("families", row.families) +
         line("time", measured_text(row)) + line("numbers", error_text(row.error, row.bound)) +
         line("search", row.key.search) + line("driver", row.driver) + line("came in", elsewhere_text(row)) +
         line("tuned", when(row.created)) + line("used", when(row.used));
}

// The host counts none.
std::string resources_text(const cache::KernelRow& row) {
  if (row.registers == 0) return "";
  return counted(row.registers, "register") + ", " + bytes_text(row.spill_bytes) + " spilled, " +
         bytes_text(row.static_smem) + " of static shared memory";
}

std::string launch_text(const cache::KernelRow& row) {
  return row.launch.empty() ? "" : row.launch + " (ABI " + std::to_string(row.abi) + ")";
}

std::string kernel_text(const cache::KernelRow& row) {
  const auto size = [](const std::string& blob) { return bytes_text(static_cast<std::int64_t>(blob.size())); };
  return line("kernel", row.key) + line("made for", row.problem) + line("with", row.candidate) +
         line("arch", row.arch) + line("compiler", row.compiler) + line("family", row.family) +
         line("closure", row.closure) + line("launch", launch_text(row)) + line("resources", resources_text(row)) +
         line("text", "source " + size(row.source) + ", PTX " + size(row.ptx) + ", CUBIN " + size(row.cubin)) +
         line("compiled", when(row.created));
}

std::string attempts_table(const Json& attempts, const Terminal& terminal) {
  Table table({"CANDIDATE", "OUTCOME", "TIME", "SPREAD", "PREDICTED", "NUMBERS", "DETAIL"});
  for (const Json& attempt : attempts) {
    const double bound = number_of(attempt, "bound");
    table.add({text_of(attempt, "candidate"), text_of(attempt, "outcome"), time_text(number_of(attempt, "median_us")),
               time_text(number_of(attempt, "spread_us")), time_text(number_of(attempt, "predicted_us")),
               bound > 0 ? error_text(number_of(attempt, "error"), bound) : "-", text_of(attempt, "detail")});
  }
  return table.text(terminal);
}

// "420 pruned: 300 needs # bytes of ...".
std::string reasons_text(const Json& evidence, const char* key, const std::string& label) {
  const auto at = evidence.find(key);
  if (at == evidence.end() || !at->is_object() || number_of(*at, "count") <= 0) return "";
  std::string text = std::to_string(static_cast<int>(number_of(*at, "count"))) + " " + label + ":\n";
  if (const auto reasons = at->find("by_reason"); reasons != at->end() && reasons->is_object()) {
    for (const auto& [reason, count] : reasons->items()) text += "  " + count.dump() + " x " + reason + "\n";
  }
  return text;
}

std::string evidence_text(const Json& evidence, const Terminal& terminal) {
  std::string text;
  if (const auto at = evidence.find("attempts"); at != evidence.end() && at->is_array() && !at->empty()) {
    text += attempts_table(*at, terminal);
  }
  return text + reasons_text(evidence, "not_tried", "not tried") + reasons_text(evidence, "pruned", "pruned");
}

Json whole_json(const cache::KernelRow& row) {
  Json kernel = kernel_json(row);
  kernel["source_bytes"] = row.source.size();
  kernel["ptx_bytes"] = row.ptx.size();
  kernel["cubin_bytes"] = row.cubin.size();
  kernel["log"] = row.log;
  return kernel;
}

// "kernel": the first; "kernels": all, of a winner that needs several.
Json shown_json(const Shown& shown) {
  Json json = {{"winner", nullptr}, {"kernel", whole_json(shown.kernels.front())}};
  if (shown.kernels.size() > 1) {
    for (const cache::KernelRow& row : shown.kernels) json["kernels"].push_back(whole_json(row));
  }
  if (!shown.winner) return json;
  json["winner"] = winner_json(*shown.winner);
  json["winner"]["evidence"] = evidence_of(*shown.winner);
  return json;
}

std::string shown_text(const Shown& shown, const Terminal& terminal) {
  if (!shown.winner) return kernel_text(shown.kernels.front());
  std::string text = winner_text(*shown.winner);
  for (const cache::KernelRow& row : shown.kernels) text += "\n" + kernel_text(row);
  if (is_graph(*shown.winner)) text += "\n" + shown.winner->candidate;
  const std::string evidence = evidence_text(evidence_of(*shown.winner), terminal);
  return evidence.empty() ? text : text + "\n" + evidence;
}

// ---- as a page

// Throws Failure if something else than a report lies there.
void require_no_other_file(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::symlink_status(path, error);
  if (!std::filesystem::exists(there)) return;
  std::string begin(kReportMark.size(), '\0');
  const bool regular = std::filesystem::is_regular_file(there);
  if (regular) std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (!regular || begin != kReportMark)
    throw Failure(path +
                  " is left untouched: it is no report of gqa-cache; --html takes a new name or an older report");
}

void write_report(const std::string& path, const std::string& page) {
  require_no_other_file(path);
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (!file) throw Failure("the report cannot be written to " + path + ": " + std::strerror(errno));
}

int show_report(const Shown& shown, const std::string& path) {
  if (!shown.winner) throw Failure("a report is of a winner; " + shown.kernels.front().key + " is a kernel's key");
  write_report(path, report(*shown.winner, shown.kernels));
  print("wrote " + path + ": " + short_shape(*shown.winner) + " on " + arch_of(*shown.winner) + "\n");
  return 0;
}

int show(const Shared& shared, const ShowOptions& options) {
  if (shared.json && (options.source || options.ptx))
    throw Usage(std::string(options.source ? "--source" : "--ptx") + " excludes --json: it prints that text alone");
  if (shared.json && !options.html.empty()) throw Usage("--html excludes --json: it writes a page");
  require_file(shared);
  const auto store = open_cache(shared, cache::Mode::kReadOnly);
  const Shown shown = look_up(*store, options.key);
  if (!options.html.empty()) return show_report(shown, options.html);
  for (const cache::KernelRow& kernel : shown.kernels) {
    if (options.ptx && kernel.ptx.empty())
      throw Failure("the kernel " + kernel.key + " was made for " + kernel.arch + " and has no PTX");
    if (options.source || options.ptx) print(options.source ? kernel.source : kernel.ptx);
  }
  if (options.source || options.ptx) {
    return 0;
  }
  if (shared.json) {
    print_json(shown_json(shown));
  } else {
    print(shown_text(shown, Terminal(stdout)));
  }
  return 0;
}

}  // namespace

void add_show(CLI::App* app, Shared* shared) {
  CLI::App* command = new_command(app, shared, "show", "Show one winner or kernel with all that is known of it",
                                  "gqa-cache show 3f9a2c --html tuning.html", Lists::kYes);
  const auto options = std::make_shared<ShowOptions>();
  command->add_option("KEY", options->key, "The first digits of a winner's or a kernel's key")->required();
  CLI::Option* source = command->add_flag("--source", options->source, "Print the generated source alone");
  CLI::Option* ptx = command->add_flag("--ptx", options->ptx, "Print the PTX alone");
  CLI::Option* html = command
                          ->add_option("--html", options->html,
                                       "Write a report of the tuning with plots: one file, which loads nothing")
                          ->type_name("FILE")
                          ->check(path_complaint);
  ptx->excludes(source);
  for (CLI::Option* alone : {source, ptx}) html->excludes(alone);
  command->callback([shared, options] { shared->run = [shared, options] { return show(*shared, *options); }; });
}

}  // namespace gqa::tools
