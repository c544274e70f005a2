// upkeep.cc: examine and prune.
// Owns: see upkeep.h.
// Threads: as database.h.
#include "cache/upkeep.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cache/lease.h"
#include "cache/schema.h"

namespace gqa::cache {
namespace {

constexpr double kSecondsADay = 86400;

std::string kernels_complaint(const std::unordered_set<std::string>& kernels, const Record& winner) {
  for (const std::string& key : winner.kernels()) {
    if (!kernels.contains(key)) return "its kernel " + key + " is missing or damaged";
  }
  return "";
}

// Kernels come first, so that a winner whose kernel is damaged is seen to have none.
void examine_rows(Database& db, Place place, std::unordered_set<std::string>* kernels, Examination* found) {
  each_record(db, place, Part::kWhole, [&](const Record& record) {
    std::string what = record.complaint();
    if (what.empty() && place == Place::kKernels) kernels->insert(record.key_text());
    if (what.empty() && place == Place::kWinners) what = kernels_complaint(*kernels, record);
    if (what.empty()) return;
    found->rows.push_back(record);
    found->whats.push_back(std::move(what));
  });
}

// The file's rows by last use, and who needs which kernel.
class Pruner {
 public:
  explicit Pruner(Database& db) : db_(db) {
    for (const Place place : kPlaces) {
      each_record(db, place, Part::kScalars, [&](const Record& record) {
        if (record.complaint().empty()) add(record);
      });
    }
    for (const auto& [maker, helper] : newest_helpers_) kept_helpers_[helper.second] = maker[1];
  }

  void drop_unused(std::int64_t cutoff) {
    // Winners first: the kernels they leave behind may go in the same sweep. And helping kernels after the others.
    for (const Place place : {Place::kWinners, Place::kKernels, Place::kKernels}) {
      for (auto at = by_use_.begin(); at != by_use_.end() && at->first <= cutoff;) {
        at = at->second.place == place && !is_needed(at->second) ? drop(at) : std::next(at);
      }
    }
  }

  void shrink(std::int64_t max_bytes) {
    for (int i = 0; i < 2; ++i) shrink_once(max_bytes);  // then helping kernels that the first left behind
  }

  void drop_winner(const std::string& id) {
    const auto at = find(Place::kWinners, id);
    if (at != by_use_.end()) drop_with_kernels(at);
  }

  // What the file would be without its free pages.
  std::int64_t bytes() {
    return (db_.integer("PRAGMA page_count") - db_.integer("PRAGMA freelist_count")) * db_.integer("PRAGMA page_size");
  }

  const Pruned& pruned() const { return pruned_; }

 private:
  struct Item {
    Place place;
    std::string key;
    std::vector<std::string> kernels;  // a winner's
    std::string arch;                  // a kernel's that helps no others
  };
  using ByUse = std::multimap<std::int64_t, Item>;

  void add(const Record& record) {
    Item item = {record.place, record.key_text(), {}, ""};
    if (record.place == Place::kWinners) {
      item.kernels = record.kernels();
    } else if (!record.helps()) {
      item.arch = record.arch();
      of_arch_[item.arch] += 1;
    } else {
      auto& newest = newest_helpers_[{record.family(), record.arch(), record.compiler()}];
      newest = std::max(newest, {record.created(), item.key});
    }
    for (const std::string& kernel : item.kernels) needed_[kernel] += 1;
    by_use_.emplace(record.used(), std::move(item));
  }

  void shrink_once(std::int64_t max_bytes) {
    for (auto at = by_use_.begin(); at != by_use_.end() && bytes() > max_bytes;) {
      if (is_needed(at->second)) {
        ++at;
        continue;
      }
      at = drop_with_kernels(at);
    }
  }

  // With those that nobody else needs.
  ByUse::iterator drop_with_kernels(ByUse::iterator at) {
    const std::vector<std::string> kernels = at->second.kernels;
    at = drop(at);
    for (const std::string& kernel : kernels) {
      if (needed_[kernel] == 0) at = drop_kernel(kernel, at);
    }
    return at;
  }

  ByUse::iterator find(Place place, const std::string& key) {
    return std::find_if(by_use_.begin(), by_use_.end(),
                        [&](const auto& entry) { return entry.second.place == place && entry.second.key == key; });
  }

  bool is_needed(const Item& item) {
    if (item.place != Place::kKernels) return false;
    const auto helper = kept_helpers_.find(item.key);
    return needed_[item.key] > 0 || (helper != kept_helpers_.end() && of_arch_[helper->second] > 0);
  }

  ByUse::iterator drop(ByUse::iterator at) {
    delete_record(db_, at->second.place, at->second.key);
    (at->second.place == Place::kWinners ? pruned_.winners : pruned_.kernels) += 1;
    for (const std::string& kernel : at->second.kernels) needed_[kernel] -= 1;
    if (!at->second.arch.empty()) of_arch_[at->second.arch] -= 1;
    return by_use_.erase(at);
  }

  // Gives where to go on: `next`, unless that was the kernel.
  ByUse::iterator drop_kernel(const std::string& kernel, ByUse::iterator next) {
    const auto at = find(Place::kKernels, kernel);
    if (at == by_use_.end()) return next;
    const auto after = drop(at);
    return at == next ? after : next;
  }

  Database& db_;
  ByUse by_use_;
  std::unordered_map<std::string, int> needed_, of_arch_;  // winners a kernel; kernels an architecture
  // By family, architecture and compiler: when it was made, and its key.
  std::map<std::array<std::string, 3>, std::pair<std::int64_t, std::string>> newest_helpers_;
  std::unordered_map<std::string, std::string> kept_helpers_;  // and their architecture
  Pruned pruned_;
};

}  // namespace

std::vector<Damage> Examination::damages() const {
  std::vector<Damage> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    all.push_back({table_name(rows[i].place), rows[i].key_text(), whats[i], false});
  }
  if (!pages.empty()) all.push_back({"file", "", pages, false});
  return all;
}

Examination examine(Database& db) {
  Examination found;
  try {
    std::unordered_set<std::string> kernels;
    for (const Place place : kPlaces) examine_rows(db, place, &kernels, &found);
    found.pages = integrity_complaint(db);
  } catch (const Error& error) {
    if (error.fault() != Fault::kDamaged) throw;
    found.pages = error.what();
  }
  return found;
}

void quarantine_rows(Database& db, const Examination& found, std::int64_t now) {
  Transaction transaction(db);
  for (std::size_t i = 0; i < found.rows.size(); ++i) quarantine(db, found.rows[i], found.whats[i], now);
  transaction.commit();
}

Pruned forget_winner(Database& db, const std::string& id) {
  Transaction transaction(db);
  Pruner pruner(db);
  const std::int64_t before = pruner.bytes();
  pruner.drop_winner(id);
  Pruned pruned = pruner.pruned();
  pruned.bytes = std::max<std::int64_t>(0, before - pruner.bytes());
  transaction.commit();
  return pruned;
}

Pruned prune_rows(Database& db, double unused_days, std::int64_t max_bytes, std::int64_t now) {
  Transaction transaction(db);
  Pruner pruner(db);
  const std::int64_t before = pruner.bytes();
  const std::int64_t cutoff = now - static_cast<std::int64_t>(std::min(unused_days, 1e6) * kSecondsADay);
  if (unused_days >= 0) {
    pruner.drop_unused(cutoff);
    forget_quarantined(db, cutoff);
  }
  if (max_bytes >= 0) pruner.shrink(max_bytes);
  sweep_leases(db);
  Pruned pruned = pruner.pruned();
  pruned.bytes = std::max<std::int64_t>(0, before - pruner.bytes());
  transaction.commit();
  return pruned;
}

}  // namespace gqa::cache
