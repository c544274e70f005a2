// page_numbers.cc: see page_numbers.h.
#include "runtime/pages/page_numbers.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>

namespace gqa {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();  // of a sequence: lengths are int32

// 2^32 sequences for each pool of the process.
std::int64_t next_pool() {
  static std::atomic<std::int64_t> next{1};
  return next++ << 32;
}

std::string text(std::int64_t number) { return std::to_string(number); }

}  // namespace

PageNumbers::PageNumbers(std::int32_t pages, std::int32_t page)
    : page_(page),
      first_sequence_(next_pool()),
      next_sequence_(first_sequence_),
      free_(static_cast<std::size_t>(pages)),
      holders_(static_cast<std::size_t>(pages)) {
  for (std::int32_t number = 0; number < pages; ++number) free_[static_cast<std::size_t>(pages - 1 - number)] = number;
}

std::int32_t PageNumbers::take() {
  const std::int32_t page = free_.back();
  free_.pop_back();
  holders_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void PageNumbers::release(std::int32_t page) {
  if (--holders_[static_cast<std::size_t>(page)] == 0) free_.push_back(page);
}

Status PageNumbers::find(std::int64_t sequence, const Sequence** found) const {
  const auto at = sequences_.find(sequence);
  if (at != sequences_.end()) {
    *found = &at->second;
    return {};
  }
  const bool was = sequence >= first_sequence_ && sequence < next_sequence_;
  return {Code::kOption, "sequence " + text(sequence) +
                             (was ? " was freed before, expected one that is not"
                                  : " is none of this pool's, expected one that it gave and that is not freed")};
}

std::int64_t PageNumbers::add() {
  sequences_.try_emplace(next_sequence_);
  return next_sequence_++;
}

Status PageNumbers::share(std::int64_t sequence, std::int64_t tokens, std::int64_t* copy) {
  const Sequence* from = nullptr;
  if (Status status = find(sequence, &from); !status.ok()) return status;
  const std::int64_t shared = tokens == -1 ? from->tokens : tokens;
  if (shared < 0 || shared > from->tokens)
    return {Code::kSize, "tokens is " + text(tokens) + ", expected 0 to " + text(from->tokens) + ", which sequence " +
                             text(sequence) + " has, or -1 for all"};
  Sequence made;
  made.tokens = shared;
  made.pages.assign(from->pages.begin(), from->pages.begin() + pages_for(shared));
  const std::int64_t id = next_sequence_;
  const Sequence& kept = sequences_.try_emplace(id, std::move(made)).first->second;
  for (const std::int32_t page : kept.pages) ++holders_[static_cast<std::size_t>(page)];
  ++next_sequence_;
  *copy = id;
  return {};
}

Status PageNumbers::exhausted(std::int64_t sequence, std::int64_t needed) const {
  return {Code::kOutOfMemory, "sequence " + text(sequence) + " needs " + text(needed) + " more pages, but " +
                                  text(free_pages()) + " of the pool's " + text(pages()) +
                                  " are free: free sequences first, or make the caches larger"};
}

Status PageNumbers::within(std::int64_t id, const Sequence& sequence, std::int32_t tokens, std::int64_t most) const {
  const std::int64_t needed = pages_for(sequence.tokens + std::max(tokens, 0));
  if (needed <= most) return {};
  return {Code::kShape, "sequence " + text(id) + " would have " + text(needed) + " pages with " + text(tokens) +
                            " more tokens, but the table has " + text(most) +
                            " columns: expected as many columns as the longest sequence's pages"};
}

Status PageNumbers::grow(std::int64_t id, Sequence* sequence, std::int32_t tokens, std::vector<PageGrowth>* growths) {
  if (tokens < 0 || sequence->tokens + tokens > kMostTokens)
    return {Code::kSize, "tokens of sequence " + text(id) + " is " + text(tokens) + ", expected 0 to " +
                             text(kMostTokens - sequence->tokens)};
  if (tokens == 0) return {};
  PageGrowth growth = {id, sequence->tokens, sequence->pages.size()};
  const bool open = sequence->tokens % page_ != 0;  // new tokens go into the last page, too
  const bool held = open && holders_[static_cast<std::size_t>(sequence->pages.back())] > 1;
  const std::int64_t more = pages_for(sequence->tokens + tokens) - static_cast<std::int64_t>(sequence->pages.size());
  if (more + held > free_pages()) return exhausted(id, more + held);
  sequence->pages.reserve(sequence->pages.size() + static_cast<std::size_t>(more));
  growths->reserve(growths->size() + 1);  // nothing below fails
  if (held) {
    growth.shared = sequence->pages.back();
    growth.own = sequence->pages.back() = take();
    release(growth.shared);
  }
  for (std::int64_t page = 0; page < more; ++page) sequence->pages.push_back(take());
  sequence->tokens += tokens;
  growths->push_back(growth);
  return {};
}

Status PageNumbers::append(std::span<const std::int64_t> sequences, const std::int32_t* tokens,
                           std::vector<PageGrowth>* growths, std::int64_t most) {
  growths->clear();
  for (std::size_t at = 0; at < sequences.size(); ++at) {
    const Sequence* found = nullptr;
    Status status = find(sequences[at], &found);
    if (status.ok()) status = within(sequences[at], *found, tokens[at], most);
    if (status.ok()) status = grow(sequences[at], &sequences_.find(sequences[at])->second, tokens[at], growths);
    if (status.ok()) continue;
    undo(*growths);
    growths->clear();
    return status;
  }
  return {};
}

void PageNumbers::undo(const std::vector<PageGrowth>& growths) {
  for (auto growth = growths.rbegin(); growth != growths.rend(); ++growth) {
    Sequence& sequence = sequences_.find(growth->sequence)->second;
    while (sequence.pages.size() > growth->pages_before) {
      release(sequence.pages.back());
      sequence.pages.pop_back();
    }
    sequence.tokens = growth->tokens_before;
    if (growth->shared < 0) continue;
    release(growth->own);
    sequence.pages.back() = growth->shared;
    ++holders_[static_cast<std::size_t>(growth->shared)];
  }
}

Status PageNumbers::truncate(std::int64_t sequence, std::int64_t tokens) {
  const Sequence* found = nullptr;
  if (Status status = find(sequence, &found); !status.ok()) return status;
  if (tokens < 0 || tokens > found->tokens)
    return {Code::kSize, "tokens is " + text(tokens) + ", expected 0 to " + text(found->tokens) + ", which sequence " +
                             text(sequence) + " has"};
  Sequence& shortened = sequences_.find(sequence)->second;
  shortened.tokens = tokens;
  while (static_cast<std::int64_t>(shortened.pages.size()) > pages_for(tokens)) {
    release(shortened.pages.back());
    shortened.pages.pop_back();
  }
  return {};
}

Status PageNumbers::free(std::span<const std::int64_t> sequences) {
  for (std::size_t at = 0; at < sequences.size(); ++at) {
    const Sequence* found = nullptr;
    if (Status status = find(sequences[at], &found); !status.ok()) return status;
    const auto before = sequences.first(at);
    if (std::find(before.begin(), before.end(), sequences[at]) != before.end())
      return {Code::kOption, "sequence " + text(sequences[at]) + " is to be freed twice, expected each once"};
  }
  for (const std::int64_t sequence : sequences) {
    const auto at = sequences_.find(sequence);
    for (auto page = at->second.pages.rbegin(); page != at->second.pages.rend(); ++page) release(*page);
    sequences_.erase(at);
  }
  return {};
}

Status PageNumbers::tokens(std::int64_t sequence, std::int64_t* tokens) const {
  const Sequence* found = nullptr;
  Status status = find(sequence, &found);
  if (status.ok()) *tokens = found->tokens;
  return status;
}

Status PageNumbers::table(std::span<const std::int64_t> sequences, std::int64_t columns, std::int32_t* table,
                          std::int32_t* tokens) const {
  for (const std::int64_t sequence : sequences) {
    const Sequence* found = nullptr;
    if (Status status = find(sequence, &found); !status.ok()) return status;
    if (static_cast<std::int64_t>(found->pages.size()) > columns)
      return {Code::kShape, "the table has " + text(columns) + " columns, but sequence " + text(sequence) + " has " +
                                text(static_cast<std::int64_t>(found->pages.size())) +
                                " pages: expected as many columns as the longest sequence's"};
  }
  for (const std::int64_t sequence : sequences) {
    const Sequence& found = sequences_.find(sequence)->second;
    std::fill(std::copy(found.pages.begin(), found.pages.end(), table), table + columns, 0);
    table += columns;
    if (tokens != nullptr) *tokens++ = static_cast<std::int32_t>(found.tokens);
  }
  return {};
}

}  // namespace gqa
