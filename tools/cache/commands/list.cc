// list.cc: `gqa-cache list`: what the cache holds, the newest first.
// Owns: the table of winners, with the candidates that lost to them, and the table of kernels.
// Never: changes the file, or writes a line that is wider than the terminal.
// Threads: one.
#include <CLI/App.hpp>
#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "cache/layer_paths.h"
#include "tools/cache/filter.h"
#include "tools/cache/rows.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

using Winners = std::vector<cache::WinnerRow>;
using Kernels = std::vector<cache::KernelRow>;

using Files = std::unordered_map<std::string, std::string>;  // where the row of a key lies; empty: there is one file

struct ListOptions {
  FilterOptions filter;
  bool all = false;
};

struct Listing {
  Winners winners;
  Kernels kernels;
  std::size_t winners_there = 0, kernels_there = 0;  // without the filter
  std::unordered_set<std::string> won;               // kernels of winners, shown or not
  Files files;                                       // of several that are one cache
};

// ---- what is shown

template <class Row>
std::vector<Row> newest_first(std::vector<Row> rows, const Filter& filter) {
  std::erase_if(rows, [&filter](const Row& row) { return !filter.passes(row); });
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.created > b.created; });
  return rows;
}

Listing listing(cache::Store& store, const Filter& filter) {
  Listing listing;
  Winners winners = store.list_winners();
  Kernels kernels = store.list_kernels();
  listing.winners_there = winners.size();
  listing.kernels_there = kernels.size();
  for (const cache::WinnerRow& row : winners) {
    for (const std::string& kernel : row.kernels()) listing.won.insert(kernel);
  }
  listing.winners = newest_first(std::move(winners), filter);
  listing.kernels = newest_first(std::move(kernels), filter);
  return listing;
}

// The uppermost file that has the row: the one it is listed from.
Files files_of_rows(const Shared& shared) {
  Files files;
  const std::vector<std::string> paths = cache_paths(shared);
  if (paths.size() == 1) return files;
  for (const std::string& path : paths) {
    const auto store = cache::Store::open({cache::as_layer(path), cache::Mode::kReadOnly});
    for (const cache::WinnerRow& row : store->list_winners()) files.emplace(row.id(), path);
    for (const cache::KernelRow& row : store->list_kernels()) files.emplace(row.key, path);
  }
  return files;
}

std::string file_of(const Files& files, const std::string& key) {
  const auto found = files.find(key);
  return found == files.end() ? "" : found->second;
}

// ---- as text

// "12.3 us", "12.3 us?" of one that the next tuning replaces.
std::string winning_time(const cache::WinnerRow& row) {
  if (row.provisional && row.median_us == 0) return "untimed";
  return time_text(row.median_us) + (row.provisional ? "?" : "");
}

void add_losers(const cache::WinnerRow& row, Table* table) {
  for (const Json& attempt : losers_of(row)) {
    table->add({"", "", "", time_text(number_of(attempt, "median_us")), "  " + text_of(attempt, "outcome"),
                text_of(attempt, "candidate"), "", ""});
  }
}

std::string winners_table(const Listing& listing, bool losers, const Terminal& terminal) {
  const std::int64_t now = std::time(nullptr);
  std::vector<std::string> head = {"WINNER", "AGE", "DEVICE", "TIME", "SHAPE", "CANDIDATE", "COMPILER"};
  if (!listing.files.empty()) head.push_back("FILE");
  Table table(head);
  if (head.size() == 8) table.may_shrink(7, 8);
  table.may_shrink(6, 0);
  table.may_shrink(5, 8);
  table.may_shrink(4, 16);
  table.may_shrink(2, 6);
  for (const cache::WinnerRow& row : listing.winners) {
    table.add({short_key(row.id()), age_text(row.created, now), arch_of(row), winning_time(row), short_shape(row),
               candidate_text(row), compiler_text(row.compiler), file_of(listing.files, row.id())});
    if (losers) add_losers(row, &table);
  }
  return table.text(terminal, terminal.columns());
}

const char* state_text(const cache::KernelRow& row, const std::unordered_set<std::string>& won) {
  if (row.family == cache::kCheckFamily) return "verifies";
  if (row.family == cache::kMergeFamily) return "merges";
  if (row.family == cache::kAppendFamily) return "appends";
  return won.contains(row.key) ? "winner's" : "no winner's";
}

std::string kernels_table(const Listing& listing, const Terminal& terminal) {
  const std::int64_t now = std::time(nullptr);
  Table table(
      {"KERNEL", "AGE", "DEVICE", "FAMILY", "STATE", "CANDIDATE", "MADE FOR", "COMPILER", "REGISTERS", "SPILLED"});
  for (const std::size_t column : {9, 8, 7}) table.may_shrink(column, 0);
  table.may_shrink(6, 8);
  table.may_shrink(5, 12);
  for (const cache::KernelRow& row : listing.kernels) {
    table.add({short_key(row.key), age_text(row.created, now), row.arch, row.family, state_text(row, listing.won),
               row.candidate, row.problem, compiler_text(row.compiler), std::to_string(row.registers),
               bytes_text(row.spill_bytes)});
  }
  return table.text(terminal, terminal.columns());
}

// "2 winners", "1 of 2 winners"
std::string of_them(std::size_t shown, std::size_t there, const char* noun) {
  const std::string all = counted(static_cast<std::int64_t>(there), noun);
  return shown == there ? all : std::to_string(shown) + " of " + all;
}

std::string listing_text(const Listing& listing, bool all, const std::string& path, const Terminal& terminal) {
  std::string text;
  if (!listing.winners.empty()) text += winners_table(listing, all, terminal) + "\n";
  if (all && !listing.kernels.empty()) text += kernels_table(listing, terminal) + "\n";
  return text + of_them(listing.winners.size(), listing.winners_there, "winner") + " and " +
         of_them(listing.kernels.size(), listing.kernels_there, "kernel") + " in " + path +
         (all || listing.kernels.empty() ? "" : "; --all lists the kernels, too") + "\n";
}

// ---- as JSON

Json with_file(Json row, const Files& files, const std::string& key) {
  if (!files.empty()) row["file"] = file_of(files, key);
  return row;
}

Json listing_json(const std::string& path, const Listing& listing, bool all) {
  Json json = {{"path", path}, {"winners", Json::array()}, {"kernels", Json::array()}};
  for (const cache::WinnerRow& row : listing.winners) {
    json["winners"].push_back(with_file(winner_json(row), listing.files, row.id()));
    if (all) json["winners"].back()["losers"] = losers_of(row);
  }
  for (const cache::KernelRow& row : listing.kernels)
    json["kernels"].push_back(with_file(kernel_json(row), listing.files, row.key));
  return json;
}

int list(const Shared& shared, const ListOptions& options) {
  const Filter filter(options.filter, std::time(nullptr));
  require_file(shared);
  const auto store = open_cache(shared, cache::Mode::kReadOnly);
  Listing rows = listing(*store, filter);
  rows.files = files_of_rows(shared);
  if (print_warnings(*store)) return 1;
  if (shared.json) {
    print_json(listing_json(cache_path(shared), rows, options.all));
  } else {
    print(listing_text(rows, options.all, cache_path(shared), Terminal(stdout)));
  }
  return 0;
}

}  // namespace

void add_list(CLI::App* app, Shared* shared) {
  CLI::App* command =
      new_command(app, shared, "list", "List winners, one a line, the newest first",
                  "gqa-cache list --shape hq=32,d=128 --device sm_90a --newer-than 7d\n\n"
                  "A line is as wide as the terminal; elsewhere as $COLUMNS says, else 80. --json has "
                  "all of it.\nA time with a question mark was taken beside other load: the next tuning "
                  "replaces it.",
                  Lists::kYes);
  const auto options = std::make_shared<ListOptions>();
  add_filter_options(command, &options->filter);
  command->add_flag("--all", options->all, "The candidates that lost to each winner, too, and the kernels");
  command->callback([shared, options] { shared->run = [shared, options] { return list(*shared, *options); }; });
}

}  // namespace gqa::tools
