// lease.h: one tunes, the others wait.
// Owns: the leases table, renewing a held lease on a small thread, waiting for another's, taking over a dead one's.
// Never: holds the file's mutex or a transaction while it waits.
// Threads: any; each held lease has one thread of its own.
#pragma once

#include <functional>
#include <memory>

#include "cache/file/file.h"
#include "cache/store.h"

namespace gqa::cache {

// See Store::acquire. `seconds`: how long a lease of ours lives unrenewed.
std::unique_ptr<Lease> acquire_lease(const std::shared_ptr<File>& file, const WinnerKey& key, const Suits& suits,
                                     double seconds, const std::function<bool()>& stop);

// Leases that somebody still holds; and removing what dead processes left.
std::int64_t live_leases(Database& db);
void sweep_leases(Database& db);

}  // namespace gqa::cache
