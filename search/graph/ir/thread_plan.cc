// thread_plan.cc: see thread_plan.h.
#include "search/graph/ir/thread_plan.h"

#include <algorithm>
#include <cctype>

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostOfAParameter = std::int64_t{1} << 40;

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

}  // namespace

std::int64_t ThreadPlan::get(std::string_view key, std::int64_t otherwise) const {
  for (const auto& [known, value] : parameters) {
    if (known == key) return value;
  }
  return otherwise;
}

std::string to_text(const ThreadPlan& plan) {
  if (plan.candidate) return to_text(*plan.candidate);
  std::string text = plan.family;
  for (const auto& [key, value] : plan.parameters) text += " " + key + "=" + std::to_string(value);
  return text;
}

Status parse(std::string_view text, ThreadPlan* plan) {
  ThreadPlan read;
  for (const std::string_view word : split_text(trim(text), ' ')) {
    const auto equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    if (!is_word(key) || (equals == std::string_view::npos) != read.family.empty())
      return text_error("thread plan " + quote(text) + ": expected a family, then key=number, one space between");
    if (read.family.empty()) {
      read.family = key;
      continue;
    }
    auto& [name, value] = read.parameters.emplace_back(key, 0);
    Status status = parse_number(name, word.substr(equals + 1), -kMostOfAParameter, kMostOfAParameter, &value);
    if (!status.ok()) return status;
  }
  if (Candidate candidate; parse(text, &candidate).ok()) read = thread_plan(candidate);
  *plan = std::move(read);
  return {};
}

ThreadPlan thread_plan(const Candidate& candidate) { return {std::string(name(candidate)), candidate, {}}; }

}  // namespace gqa
