// trial_lists.cc: see trial_lists.h.
#include "runtime/verify/trial_lists.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "search/problem/key_layout.h"

namespace gqa {
namespace {

constexpr std::int64_t kMostPagedBytes = std::int64_t{4} << 30;  // of k and v
constexpr double kSigma = 0.8, kMeanOfMost = 0.5;                // of log-normal lengths
constexpr double kTwoPi = 6.283185307179586;
constexpr int kSharedSequences = 4;  // one in so many begins with another's first pages

// SplitMix64: the same numbers on every machine, which std's distributions do not promise.
class ListRandom {
 public:
  explicit ListRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  std::int32_t up_to(std::int32_t most) {
    return static_cast<std::int32_t>(next() % (static_cast<std::uint64_t>(most) + 1));
  }
  double unit() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(unit()));
    return radius * std::cos(kTwoPi * unit());
  }

 private:
  std::uint64_t state_;
};

std::int32_t distance(const std::vector<std::int32_t>& starts, std::int32_t sequence) {
  const auto at = static_cast<std::size_t>(sequence);
  return starts[at + 1] - starts[at];
}

std::int32_t length_of(const Problem& p, const TrialLists& lists, std::int32_t sequence) {
  if (p.k_packed()) return distance(lists.k_starts, sequence);
  return p.lengths_differ() ? lists.lengths[static_cast<std::size_t>(sequence)] : p.kv_len;
}

// Where kernels go wrong: beside a page's end, with fewer keys than queries, and anywhere.
std::int32_t edge_length(const Problem& p, ListRandom* random) {
  const std::int32_t anywhere = random->up_to(p.kv_len);
  const std::int32_t block = p.paged() ? p.page : 64;
  const std::int32_t edge = anywhere / block * block;
  switch (random->up_to(5)) {
    case 0:
      return std::min(p.kv_len, random->up_to(p.q_len));
    case 1:
      return edge;
    case 2:
      return std::max(0, edge - 1);
    case 3:
      return std::min(p.kv_len, edge + 1);
    default:
      return anywhere;
  }
}

std::vector<std::int32_t> edge_lengths(const Problem& p, ListRandom* random) {
  if (p.batch == 1) return {p.kv_len - p.kv_len / 3};
  std::vector<std::int32_t> lengths;
  for (std::int32_t i = 0; i < p.batch; ++i) lengths.push_back(edge_length(p, random));
  lengths.front() = p.kv_len;
  lengths[lengths.size() / 2] = 0;
  return lengths;
}

// Lengths of at most `most`.
std::vector<std::int32_t> usual_lengths(const Problem& p, std::int32_t most, ListRandom* random) {
  const double mean = kMeanOfMost * most;
  std::vector<std::int32_t> lengths;
  for (std::int32_t i = 0; i < p.batch; ++i) {
    const double length = mean * std::exp(kSigma * random->normal() - kSigma * kSigma / 2);
    lengths.push_back(static_cast<std::int32_t>(std::clamp(length, 1.0, double{1} * most)));
  }
  lengths[lengths.size() / 2] = most;
  return lengths;
}

// A chunk's keys are in the cache before it attends, so no sequence has more queries than keys; a whole prompt's keys
// are its own.
std::vector<std::int32_t> usual_queries(const Problem& p, const std::vector<std::int32_t>& keys, ListRandom* random) {
  if (p.k_packed() && p.q_len == p.kv_len) return keys;
  std::vector<std::int32_t> queries = usual_lengths(p, p.q_len, random);
  for (std::size_t i = 0; i < keys.size(); ++i) queries[i] = std::min(queries[i], keys[i]);
  return queries;
}

// Queries that are packed: all of them, none, one, and any number.
std::vector<std::int32_t> edge_queries(const Problem& p, ListRandom* random) {
  std::vector<std::int32_t> lengths;
  for (std::int32_t i = 0; i < p.batch; ++i)
    lengths.push_back(random->up_to(3) == 0 ? random->up_to(1) : random->up_to(p.q_len));
  lengths.front() = p.batch == 1 ? p.q_len - p.q_len / 3 : p.q_len;
  if (p.batch > 1) lengths[lengths.size() / 2] = 0;
  return lengths;
}

std::vector<std::int32_t> starts_of(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts = {0};
  for (const std::int32_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

void set_keys(const Problem& p, const std::vector<std::int32_t>& lengths, TrialLists* lists) {
  if (p.k_packed())
    lists->k_starts = starts_of(lengths);
  else
    lists->lengths = lengths;
}

// All pages but the one that nobody refers to, out of order.
std::vector<std::int32_t> shuffled_pages(const Problem& p, ListRandom* random) {
  std::vector<std::int32_t> pages(static_cast<std::size_t>(trial_pages(p)));
  std::iota(pages.begin(), pages.end(), 0);
  for (std::size_t left = pages.size(); left > 1; --left) {
    const auto at = static_cast<std::size_t>(random->up_to(static_cast<std::int32_t>(left - 1)));
    std::swap(pages[left - 1], pages[at]);
  }
  pages.pop_back();
  return pages;
}

void fill_table(const Problem& p, ListRandom* random, TrialLists* lists) {
  const std::vector<std::int32_t> pages = shuffled_pages(p, random);
  const std::int32_t width = table_width(p);
  lists->table.assign(static_cast<std::size_t>(p.batch) * static_cast<std::size_t>(width), kEntryPastLength);
  std::size_t next = 0;
  std::int32_t* row = lists->table.data();
  for (std::int32_t sequence = 0; sequence < p.batch; ++sequence, row += width)
    for (std::int32_t i = 0; i < pages_of(p, length_of(p, *lists, sequence)); ++i)
      row[i] = pages[next++ % pages.size()];
}

// A common prefix: pages that both fill, so that keys past either's end stay poisoned.
void share_prefixes(const Problem& p, TrialLists* lists) {
  const std::int32_t width = table_width(p);
  for (std::int32_t sequence = kSharedSequences - 1; sequence < p.batch; sequence += kSharedSequences) {
    const std::int32_t keys =
        std::min(length_of(p, *lists, sequence), length_of(p, *lists, sequence - kSharedSequences + 1));
    const std::ptrdiff_t to = std::ptrdiff_t{sequence} * width,
                         from = to - std::ptrdiff_t{kSharedSequences - 1} * width;
    std::copy_n(lists->table.begin() + from, keys / p.page / 2, lists->table.begin() + to);
  }
}

// Keys in use of each sequence, or of each page; of packed ones all together.
std::vector<std::int32_t> used_keys(const Problem& p, const TrialLists& lists) {
  std::vector<std::int32_t> used(static_cast<std::size_t>(p.paged() ? trial_pages(p) : p.batch));
  if (p.k_packed()) return {lists.k_starts.back()};
  for (std::int32_t sequence = 0; sequence < p.batch; ++sequence) {
    const std::int32_t length = length_of(p, lists, sequence);
    if (!p.paged()) {
      used[static_cast<std::size_t>(sequence)] = length;
      continue;
    }
    const std::int32_t* row = lists.table.data() + std::ptrdiff_t{sequence} * table_width(p);
    for (std::int32_t i = 0; i < pages_of(p, length); ++i) {
      std::int32_t& keys = used[static_cast<std::size_t>(row[i])];
      keys = std::max(keys, std::min(p.page, length - i * p.page));
    }
  }
  return used;
}

}  // namespace

TrialOperands operands_of(const Problem& p, const TrialLists& lists) {
  TrialOperands made;
  add_operand(Role::kQStarts, lists.q_starts, {}, &made);
  add_operand(Role::kKStarts, lists.k_starts, {}, &made);
  add_operand(Role::kKvLengths, lists.lengths, {}, &made);
  add_operand(Role::kPageTable, lists.table, {table_width(p), 0, 0}, &made);
  return made;
}

std::int32_t table_width(const Problem& p) { return pages_of(p, p.kv_len); }

std::int32_t trial_pages(const Problem& p) {
  if (!p.paged()) return 0;
  const std::int64_t page_bytes = std::int64_t{2} * p.page * p.kv_heads * (p.head_dim + p.head_dim_v);
  const std::int64_t most = std::max<std::int64_t>(table_width(p), kMostPagedBytes / page_bytes);
  return static_cast<std::int32_t>(std::min(std::int64_t{p.batch} * table_width(p), most) + 1);
}

std::int32_t queries_of(const Problem& p, const TrialLists& lists, std::int32_t sequence) {
  return p.q_packed() ? distance(lists.q_starts, sequence) : p.q_len;
}

std::int32_t first_query_of(const Problem& p, const TrialLists& lists, std::int32_t sequence) {
  return p.q_packed() ? lists.q_starts[static_cast<std::size_t>(sequence)] : 0;
}

std::int64_t query_rows(const Problem& p, const TrialLists& lists) {
  return p.q_packed() ? lists.q_starts.back() : std::int64_t{p.batch} * p.q_len;
}

TrialLists verification_lists(const Problem& p, std::uint64_t seed) {
  ListRandom random(seed);
  TrialLists lists;
  if (p.lengths_differ()) set_keys(p, edge_lengths(p, &random), &lists);
  if (p.q_packed()) lists.q_starts = starts_of(edge_queries(p, &random));
  if (!p.paged()) return lists;
  fill_table(p, &random, &lists);
  share_prefixes(p, &lists);
  return lists;
}

TrialLists timing_lists(const Problem& p, std::uint64_t seed) {
  ListRandom random(seed);
  TrialLists lists;
  std::vector<std::int32_t> keys(static_cast<std::size_t>(p.batch), p.kv_len);
  if (p.lengths_differ()) {
    keys = usual_lengths(p, p.kv_len, &random);
    set_keys(p, keys, &lists);
  }
  if (p.q_packed()) lists.q_starts = starts_of(usual_queries(p, keys, &random));
  if (p.paged()) fill_table(p, &random, &lists);
  return lists;
}

AppendLists append_lists(const Problem& p, const TrialLists& lists) {
  AppendLists made;
  made.table = lists.table;
  const std::int32_t width = table_width(p);
  std::vector<int> readers(static_cast<std::size_t>(trial_pages(p)));  // of each page
  const auto entry = [&](std::int32_t sequence, std::int32_t key) -> std::int32_t& {
    return made.table[static_cast<std::size_t>(sequence) * static_cast<std::size_t>(width) +
                      static_cast<std::size_t>(key / p.page)];
  };
  if (p.paged())
    for (std::int32_t b = 0; b < p.batch; ++b)
      for (std::int32_t key = 0; key < length_of(p, lists, b); key += p.page)
        ++readers[static_cast<std::size_t>(entry(b, key))];
  const auto nobodys = std::find(readers.begin(), readers.end(), 0) - readers.begin();
  for (std::int32_t b = 0; b < p.batch; ++b) {
    const std::int32_t length = length_of(p, lists, b), last = std::max(0, length - 1);
    made.cached.push_back(last);
    if (p.paged() && length == 0) entry(b, 0) = static_cast<std::int32_t>(nobodys);
    const std::int64_t slab = p.paged() ? entry(b, last) : b;
    made.rows.push_back(length == 0 ? -1 : slab * keys_together(p) + (p.paged() ? last % p.page : last));
    made.own.push_back(length > 0 && (!p.paged() || readers[static_cast<std::size_t>(slab)] == 1));
  }
  return made;
}

std::vector<KeyRun> unused_keys(const Problem& p, const TrialLists& lists) {
  const std::int64_t most = p.k_packed() ? std::int64_t{p.batch} * p.kv_len : keys_together(p);
  std::vector<KeyRun> runs;
  std::int64_t first = 0;
  for (const std::int32_t used : used_keys(p, lists)) {
    const KeyRun run = {first + used, most - used};
    first += most;
    if (run.count == 0) continue;
    if (!runs.empty() && runs.back().first + runs.back().count == run.first)
      runs.back().count += run.count;
    else
      runs.push_back(run);
  }
  return runs;
}

}  // namespace gqa
