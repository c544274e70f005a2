// command.cc: see command.h.
#include "tools/cache/command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cache/layer_paths.h"
#include "tools/cache/errors.h"
#include "tools/cache/suggestion.h"
#include "tools/cache/terminal.h"

namespace gqa::tools {
namespace {

constexpr int kFailed = 1, kUsage = 2;

void add_commands(CLI::App* app, Shared* shared) {
  app->add_option("--db", shared->db,
                  "The cache file, or several: FIRST:BENEATH, of which the first is written (default: $GQA_CACHE, "
                  "else $XDG_CACHE_HOME/gqa/cache.db, else ~/.cache/gqa/cache.db)")
      ->type_name("PATH")
      ->check(path_complaint);
  app->add_flag("--json", shared->json, "Print JSON: of the commands that list or count something");
  app->set_version_flag("-V,--version", "gqa-cache " GQA_TOOL_VERSION);
  app->set_help_flag("-h,--help", "This text");
  app->require_subcommand(0, 1);  // none is refused by run(): in better words, and after unknown ones
  for (const auto add : {add_warm, add_list, add_show, add_forget, add_tune, add_check, add_export, add_import,
                         add_prune, add_stats, add_doctor, add_help}) {
    add(app, shared);
  }
  app->footer(
      "Example: warm the cache for a model, then look at it:\n"
      "  gqa-cache warm --model llama-3-8b && gqa-cache list\n\n"
      "gqa-cache help COMMAND explains a command, gqa-cache help spec how --shape is written.\n"
      "Exit codes: 0 all went well, 1 something failed, 2 the command line is wrong.");
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const std::string& name : commands_of(app)) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// "--db", "--json", ...: of the program and of the command that was given.
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  std::vector<const CLI::App*> apps = {&app};
  for (const CLI::App* command : app.get_subcommands()) apps.push_back(command);
  for (const CLI::App* each : apps) {
    for (const CLI::Option* option : each->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

// What may be meant by the first word that nobody understood.
std::string suggestion(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty()) return "";
  const std::string word = words.front().substr(0, words.front().find('='));
  if (word.starts_with("-")) return did_you_mean(word, options_of(app));
  return app.get_subcommands().empty() ? did_you_mean(word, commands_of(app)) : "";
}

// --json before a command reaches every command.
void check_json(const CLI::App& app, const Shared& shared) {
  for (const CLI::App* command : app.get_subcommands()) {
    if (shared.json && command->get_option_no_throw("--json") == nullptr)
      throw Usage("--json is no option of " + command->get_name() + ", which lists nothing");
  }
}

// What was written may still fail to arrive: a full disk, a closed pipe.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  print_error("cannot write to standard output");
  return kFailed;
}

int parse_failed(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    app.exit(error);  // --help and --version
    return flushed(0);
  }
  const bool extras = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  print_error(error.what() + (extras ? suggestion(app) : "") + "\nRun gqa-cache help, or gqa-cache help COMMAND.");
  return kUsage;
}

// std::filesystem throws for a path it may not look at; the store then says why better than we could.
bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

const char* name(cache::Mode mode) { return mode == cache::Mode::kReadWrite ? "read-write" : "read-only"; }

}  // namespace

CLI::App* new_command(CLI::App* app, Shared* shared, const std::string& name, const std::string& help,
                      const std::string& example, Lists lists) {
  CLI::App* command = app->add_subcommand(name, help);
  command->fallthrough();  // --db and --json may also stand behind the command
  command->footer("Example:\n  " + example);
  if (lists == Lists::kYes) command->add_flag("--json", shared->json, "Print JSON");
  return command;
}

int run(int count, const char* const* arguments) {
  Shared shared;
  CLI::App app("Makes, shows and carries the kernels that gqa keeps in its cache file.", "gqa-cache");
  add_commands(&app, &shared);
  try {
    app.parse(count, arguments);
    if (!shared.run) throw Usage("no command was given; expected one of " + command_names(app));
    check_json(app, shared);
    return flushed(shared.run());
  } catch (const CLI::ParseError& error) {
    return parse_failed(app, error);
  } catch (const Usage& error) {
    print_error(error.what());
    return kUsage;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}

std::string path_complaint(const std::string& path) { return path.empty() ? "expected a path, given ''" : ""; }

std::vector<std::string> cache_paths(const Shared& shared) { return cache::layer_paths(shared.db); }

std::string cache_path(const Shared& shared) { return cache_paths(shared).front(); }

void require_file(const Shared& shared) {
  const std::vector<std::string> paths = cache_paths(shared);
  if (std::any_of(paths.begin(), paths.end(), exists)) return;
  throw Failure("there is no cache file " + cache_path(shared) +
                "; gqa-cache warm or import begins one, --db names another");
}

std::unique_ptr<cache::Store> open_cache(const Shared& shared, cache::Mode mode, bool* warned) {
  cache::Store::Options options;
  options.path = shared.db;
  options.mode = mode;
  std::unique_ptr<cache::Store> store = cache::Store::open(options);
  const bool any_warning = print_warnings(*store);
  if (warned != nullptr) *warned = any_warning;
  if (store->mode() == mode) return store;
  throw Failure("the cache " + cache_path(shared) + " cannot be opened " + name(mode) +
                (any_warning ? "" : ": it is " + store->stats().mode));
}

bool print_warnings(cache::Store& store) {
  const std::vector<std::string> warnings = store.take_warnings();
  for (const std::string& warning : warnings) print_warning(warning);
  return !warnings.empty();
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& json) { print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"); }

void print_error(const std::string& message) {
  const std::string line = "gqa-cache: " + Terminal(stderr).red("error: ") + message + "\n";
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_warning(const std::string& message) {
  const std::string line = "gqa-cache: warning: " + message + "\n";
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace gqa::tools
