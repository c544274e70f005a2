// rows.cc: see rows.h.
#include "tools/cache/rows.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "runtime/workload/graph_workload.h"
#include "search/graph/enumerate/superoptimize.h"
#include "search/graph/ir/graph_text.h"
#include "search/text.h"
#include "tools/cache/errors.h"
#include "tools/cache/text.h"

namespace gqa::tools {
namespace {

constexpr std::size_t kKeyDigits = 48, kNamed = 5;

bool is_key_prefix(const std::string& text) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f'); };
  return !text.empty() && text.size() <= kKeyDigits && std::all_of(text.begin(), text.end(), is_digit);
}

std::string lowered(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

[[noreturn]] void refuse_ambiguous(const std::string& prefix, const std::vector<std::string>& keys) {
  std::string message = quote(prefix) + " begins " + counted(static_cast<std::int64_t>(keys.size()), "key") + ":";
  for (std::size_t i = 0; i < std::min(keys.size(), kNamed); ++i) message += (i > 0 ? ", " : " ") + keys[i];
  throw Failure(message + (keys.size() > kNamed ? ", ..." : "") + "; give more digits");
}

// All rows whose keys begin so.
Found rows_with(cache::Store& store, const std::string& given) {
  const std::string prefix = lowered(given);
  if (!is_key_prefix(prefix)) {
    throw Usage("KEY " + quote(given) + ": expected the first digits of a key of gqa-cache list, such as 3f9a2c");
  }
  Found found{store.list_winners(), store.list_kernels()};
  std::erase_if(found.winners, [&prefix](const auto& row) { return !row.id().starts_with(prefix); });
  std::erase_if(found.kernels, [&prefix](const auto& row) { return !row.key.starts_with(prefix); });
  return found;
}

std::vector<std::string> keys_of(const Found& found) {
  std::vector<std::string> keys;
  for (const auto& row : found.winners) keys.push_back(row.id() + " (" + compiler_text(row.compiler) + ")");
  for (const auto& row : found.kernels) keys.push_back(row.key + " (" + compiler_text(row.compiler) + ")");
  return keys;
}

std::string without_item(const std::string& spec, const std::string& key) {
  std::string rest;
  for (const std::string_view item : split_text(spec, ',')) {
    if (item.substr(0, item.find('=')) != key) rest += (rest.empty() ? "" : ",") + std::string(item);
  }
  return rest;
}

std::string disturbed_by(const cache::WinnerRow& row) {
  const Json evidence = evidence_of(row);
  const auto race = evidence.find("race");
  if (race == evidence.end() || !race->is_object()) return "";
  const auto at = race->find("disturbed");
  return at != race->end() && at->is_string() ? at->get<std::string>() : "";
}

}  // namespace

Json winner_json(const cache::WinnerRow& row) {
  return {{"key", row.id()},
          {"problem", row.key.signature},
          {"device", row.key.device},
          {"candidate", row.candidate},
          {"kernel", row.kernels().front()},
          {"kernels", row.kernels()},
          {"median_us", row.median_us},
          {"spread_us", row.spread_us},
          {"clock_mhz", row.clock_mhz},
          {"error", row.error},
          {"bound", row.bound},
          {"provisional", row.provisional},
          {"compiler", row.compiler},
          {"families", row.families},
          {"search", row.key.search},
          {"driver", row.driver},
          {"elsewhere", row.elsewhere},
          {"created", row.created},
          {"used", row.used}};
}

Json kernel_json(const cache::KernelRow& row) {
  return {{"key", row.key},
          {"arch", row.arch},
          {"family", row.family},
          {"problem", row.problem},
          {"candidate", row.candidate},
          {"registers", row.registers},
          {"spill_bytes", row.spill_bytes},
          {"static_smem", row.static_smem},
          {"compiler", row.compiler},
          {"closure", row.closure},
          {"abi", row.abi},
          {"launch", row.launch},
          {"created", row.created},
          {"used", row.used}};
}

bool is_graph(const cache::WinnerRow& row) { return row.key.signature.starts_with(kGraphSignature); }

std::string shape_text(const cache::WinnerRow& row) {
  if (!is_graph(row)) return row.key.signature;
  const std::string_view digest = std::string_view(row.key.signature).substr(kGraphSignature.size());
  const std::size_t end = std::min(digest.find(' '), digest.size());
  return std::string(kGraphSignature) + short_key(std::string(digest.substr(0, end))) + std::string(digest.substr(end));
}

std::string short_shape(const cache::WinnerRow& row) {
  std::string whole = shape_text(row);
  Problem problem, same;
  if (is_graph(row) || !parse(whole, &problem).ok()) return whole;
  // An item goes where the rest means the same.
  for (const char* key : {"b", "hk", "sk", "dtype"}) {
    const std::string rest = without_item(whole, key);
    if (parse(rest, &same).ok() && same == problem) whole = rest;
  }
  return whole;
}

// A program that another version wrote is shown as it is.
std::string candidate_text(const cache::WinnerRow& row) {
  KernelGraph program;
  if (!is_graph(row) || !parse(row.candidate, &program).ok()) return row.candidate;
  return describe(program) + " | " + thread_text(program);
}

Json evidence_of(const cache::WinnerRow& row) {
  const Json json = Json::parse(row.evidence, nullptr, false);
  return json.is_object() ? json : Json::object();
}

Json losers_of(const cache::WinnerRow& row) {
  Json losers = Json::array();
  const Json evidence = evidence_of(row);
  const auto attempts = evidence.find("attempts");
  if (attempts == evidence.end() || !attempts->is_array()) return losers;
  for (const Json& attempt : *attempts) {
    if (attempt.is_object() && text_of(attempt, "outcome") != "winner") losers.push_back(attempt);
  }
  std::stable_sort(losers.begin(), losers.end(), [](const Json& a, const Json& b) {
    const double x = number_of(a, "median_us"), y = number_of(b, "median_us");
    return (x > 0) != (y > 0) ? x > 0 : x < y;
  });
  return losers;
}

double number_of(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? at->get<double>() : 0;
}

std::string text_of(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

std::string measured_text(const cache::WinnerRow& row) {
  const std::string replaced = "; the next tuning replaces it";
  if (row.provisional && row.median_us == 0) return "provisional: verified, not timed" + replaced;
  std::string measured = time_text(row.median_us) + ", spread " + time_text(row.spread_us);
  if (row.clock_mhz > 0) measured += ", at " + std::to_string(static_cast<int>(row.clock_mhz)) + " MHz";
  if (!row.provisional) return measured;
  const std::string disturbed = disturbed_by(row);
  return "provisional: " + measured + replaced + ": " +
         (disturbed.empty() ? "memory was short for some candidates" : disturbed);
}

std::string compiler_text(const std::string& compiler) {
  const std::size_t version = std::min(compiler.find(' '), compiler.size());
  return compiler.substr(0, compiler.find(' ', std::min(version + 1, compiler.size())));
}

// The identity begins with the device's kind and its arch: "cuda sm_90a sms=132 ...".
std::string arch_of(const cache::WinnerRow& row) {
  const auto words = split_text(row.key.device, ' ');
  return std::string(words.size() > 1 ? words[1] : words[0]);
}

Found find_row(cache::Store& store, const std::string& given) {
  Found found = rows_with(store, given);
  const std::vector<std::string> keys = keys_of(found);
  if (keys.empty()) throw Failure("no winner and no kernel has a key that begins with " + quote(given));
  if (keys.size() > 1) refuse_ambiguous(given, keys);
  return found;
}

cache::WinnerRow find_winner_row(cache::Store& store, const std::string& given) {
  Found found = rows_with(store, given);
  if (found.winners.empty() && !found.kernels.empty())
    throw Failure(quote(given) + " begins the key of a kernel; expected a winner's, as gqa-cache list prints it");
  if (found.winners.empty()) throw Failure("no winner has a key that begins with " + quote(given));
  found.kernels.clear();
  if (found.winners.size() > 1) refuse_ambiguous(given, keys_of(found));
  return std::move(found.winners.front());
}

}  // namespace gqa::tools
