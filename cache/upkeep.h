// upkeep.h: looking after a whole file: what is damaged, what may go.
// Owns: the full check of every row and page, quarantining what it found, pruning, forgetting one winner.
// Never: replaces the file; store.cc does, if quarantining rows was not enough.
// Threads: as database.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/file/database.h"
#include "cache/rows.h"
#include "cache/store.h"

namespace gqa::cache {

struct Examination {
  std::vector<Record> rows;        // the damaged ones
  std::vector<std::string> whats;  // what is wrong with each
  std::string pages;               // "" or the first complaint about the file's structure
  bool clean() const { return rows.empty() && pages.empty(); }
  std::vector<Damage> damages() const;
};

// Changes nothing, and reports damage to pages instead of throwing it.
Examination examine(Database& db);
void quarantine_rows(Database& db, const Examination& found, std::int64_t now);

// See Store::forget.
Pruned forget_winner(Database& db, const std::string& id);

// See Store::prune.
Pruned prune_rows(Database& db, double unused_days, std::int64_t max_bytes, std::int64_t now);

}  // namespace gqa::cache
