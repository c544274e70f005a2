// command.h: what every command is given and how main.cc gets to know it.
// Owns: Shared (the options of all commands, and what was chosen), the list of commands, opening the cache, output.
// Never: parses or prints for one command; its own file does.
// Threads: one.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>  // not json.hpp: who makes or reads JSON includes that
#include <string>
#include <vector>

#include "cache/store.h"

namespace CLI {
class App;
}

namespace gqa::tools {

using Json = nlohmann::ordered_json;

struct Shared {
  std::string db;            // "": the store's default path
  bool json = false;         // one flag for every listing
  std::function<int()> run;  // the chosen command; gives the exit code: 0, or 1 if something failed
};

// Each adds its command to the app, one a file. A command's options live as long as its callback.
void add_warm(CLI::App* app, Shared* shared);
void add_list(CLI::App* app, Shared* shared);
void add_show(CLI::App* app, Shared* shared);
void add_check(CLI::App* app, Shared* shared);
void add_forget(CLI::App* app, Shared* shared);
void add_tune(CLI::App* app, Shared* shared);
void add_export(CLI::App* app, Shared* shared);
void add_import(CLI::App* app, Shared* shared);
void add_prune(CLI::App* app, Shared* shared);
void add_stats(CLI::App* app, Shared* shared);
void add_doctor(CLI::App* app, Shared* shared);
void add_help(CLI::App* app, Shared* shared);

// A command with its help, an example, and --json if it lists something.
enum class Lists { kNo, kYes };
CLI::App* new_command(CLI::App* app, Shared* shared, const std::string& name, const std::string& help,
                      const std::string& example, Lists lists);

// Runs one command line: exit code 0, 1 (something failed) or 2 (the command line is wrong).
int run(int count, const char* const* arguments);

// ---- the cache

// A check for options that are paths: "" names nothing.
std::string path_complaint(const std::string& path);
std::string cache_path(const Shared& shared);                // the file that is written
std::vector<std::string> cache_paths(const Shared& shared);  // with those that are read beneath it
// Throws Failure if none of them is there yet: most commands have nothing to begin one for.
void require_file(const Shared& shared);
// Throws Failure, with the store's own reason, if it did not come up in the mode asked for. Other warnings are printed,
// and *warned says whether there were any.
std::unique_ptr<cache::Store> open_cache(const Shared& shared, cache::Mode mode, bool* warned = nullptr);
// Writes all rows of all files to one. What could not be written throws Failure; true if there were warnings.
bool export_cache(const Shared& shared, const std::string& path, cache::Stats* stats);
// Prints the store's warnings; true if there were any.
bool print_warnings(cache::Store& store);

// ---- output

void print(const std::string& text);           // standard output
void print_json(const Json& json);             // standard output
void print_error(const std::string& message);  // "gqa-cache: ..." on standard error
void print_warning(const std::string& message);

}  // namespace gqa::tools
