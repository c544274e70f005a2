// filter.cc: see filter.h.
#include "tools/cache/filter.h"

#include <CLI/App.hpp>
#include <limits>
#include <string_view>

#include "search/problem/signature.h"
#include "search/text.h"
#include "tools/cache/errors.h"
#include "tools/cache/numbers.h"

namespace gqa::tools {
namespace {

constexpr std::int64_t kAnAge = 1000000;  // at most, of any unit

std::string_view key_of(std::string_view item) { return trim(item.substr(0, item.find('='))); }

// The items of SPEC with those of `items` in place of what has their keys.
std::string changed(const std::string& shape, const std::string& items) {
  std::string spec = items;
  for (const std::string_view item : split_text(shape, ',')) {
    bool replaced = false;
    for (const std::string_view other : split_text(items, ',')) replaced = replaced || key_of(other) == key_of(item);
    if (!replaced) spec += "," + std::string(item);
  }
  return spec;
}

// An item alone is no shape: what it lacks is all that may be wrong with it.
void check_items(const std::string& items) {
  for (const std::string_view item : split_text(items, ',')) {
    Problem ignored;
    const Status status = parse(item, &ignored);
    if (status.ok() || status.message().find(" is missing") != std::string::npos) continue;
    throw Usage("--shape " + quote(items) + ": " + status.message() +
                "; expected items of SPEC, as in hq=32,d=128; gqa-cache help spec has them");
  }
}

}  // namespace

void add_filter_options(CLI::App* command, FilterOptions* options) {
  command->add_option("--shape", options->shape, "Only shapes that have these items, as in hq=32,d=128,causal")
      ->type_name("ITEMS");
  command->add_option("--device", options->device, "Only of devices in whose description this stands, as in sm_90a")
      ->type_name("TEXT");
  command->add_option("--newer-than", options->newer, "Only what was made in that time: 30m, 12h, 7d; a number is days")
      ->type_name("AGE");
  command->add_option("--older-than", options->older, "Only what was made before that")->type_name("AGE");
}

Filter::Filter(const FilterOptions& options, std::int64_t now)
    : shape_(plain_numbers(options.shape)),
      device_(options.device),
      from_(options.newer.empty() ? 0 : now - age_seconds("--newer-than", options.newer)),
      to_(options.older.empty() ? std::numeric_limits<std::int64_t>::max()
                                : now - age_seconds("--older-than", options.older)) {
  if (!shape_.empty()) check_items(shape_);
}

bool Filter::passes(const cache::WinnerRow& row) const {
  return passes(row.key.signature, row.key.device, row.created);
}

bool Filter::passes(const cache::KernelRow& row) const { return passes(row.problem, row.arch, row.created); }

bool Filter::passes(const std::string& shape, const std::string& device, std::int64_t created) const {
  return device.find(device_) != std::string::npos && created >= from_ && created <= to_ &&
         (shape_.empty() || shape_has(shape, shape_));
}

bool shape_has(const std::string& shape, const std::string& items) {
  Problem whole, asked;
  if (!parse(shape, &whole).ok() || !parse(changed(shape, items), &asked).ok()) return false;
  const Problem bucket = Signature(asked).problem();  // of which the sizes: a mask that hides nothing is gone there
  asked.batch = bucket.batch;
  asked.q_len = bucket.q_len;
  asked.kv_len = bucket.kv_len;
  return asked == whole;
}

std::int64_t age_seconds(const std::string& option, const std::string& text) {
  const struct {
    char unit;
    std::int64_t seconds;
  } units[] = {{'m', 60}, {'h', 3600}, {'d', 86400}};
  std::int64_t count = 0, seconds = 86400;
  std::string number = text;
  for (const auto& each : units) {
    if (text.empty() || text.back() != each.unit) continue;
    seconds = each.seconds;
    number.pop_back();
    break;
  }
  if (!parse_number(option, plain_numbers(number), 0, kAnAge, &count).ok())
    throw Usage(option + " " + quote(text) + ": expected an age from 0 to 1,000,000 days, as in 30m, 12h, 7d or 7");
  return count * seconds;
}

}  // namespace gqa::tools
