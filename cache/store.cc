// store.cc: the Store that callers see, put together from its parts.
// Owns: what each operation means: when a row is trusted, quarantined, touched, read back.
// Never: throws; every operation runs inside File::run.
// Threads: see store.h.
#include "cache/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "cache/file/file.h"
#include "cache/file/folder.h"
#include "cache/file/guard.h"
#include "cache/layer_paths.h"
#include "cache/layers.h"
#include "cache/lease.h"
#include "cache/rows.h"
#include "cache/schema.h"
#include "cache/transfer.h"
#include "cache/upkeep.h"

namespace gqa::cache {
namespace {

constexpr std::int64_t kTouchSeconds = 86400;  // `used` is for pruning by days: finer would only cost writes

std::int64_t now() { return std::time(nullptr); }

std::int64_t size_of(const std::string& path) {
  struct stat at;
  return stat(path.c_str(), &at) == 0 ? at.st_size : 0;
}

// Best effort: a look-up never waits for a writer, nor fails because a disk is full.
void touch_if_old(Database& db, const Record& record) {
  const std::int64_t time = now();
  if (time - record.used() < kTouchSeconds) return;
  db.set_busy_timeout(0);
  try {
    touch(db, record, time);
  } catch (const Error&) {
  }
  db.set_busy_timeout(kBusyMilliseconds);
}

// Deleted pages go back to the filesystem, and what the WAL holds into the file. Others may be reading: then later.
void compact(Database& db) {
  try {
    db.execute("VACUUM");
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const Error&) {
  }
}

class FileStore : public Store {
 public:
  // beneath: of several files, not the first; all that it has is `elsewhere`.
  FileStore(const Options& options, bool beneath)
      : file_(std::make_shared<File>(options.path, options.mode)),
        lease_seconds_(options.lease_seconds),
        beneath_(beneath) {}

  Mode mode() const override { return file_->mode(); }

  std::vector<WinnerRow> find_winners(const WinnerKey& key, std::string_view compiler) override;
  std::optional<KernelRow> find_kernel(const std::string& key) override {
    return find(Place::kKernels, key, kernel_of);
  }
  std::optional<KernelRow> find_kernel_of_any_compiler(const std::string& key) override;

  bool put_kernel(const KernelRow& row) override {
    KernelRow dated = row;
    dated.created = dated.used = now();
    return put("keep a kernel", dated);
  }
  bool put_winner(const WinnerRow& row) override {
    WinnerRow dated = row;
    dated.created = dated.used = now();
    return put("keep a winner", dated);
  }

  std::unique_ptr<Lease> acquire(const WinnerKey& key, const Suits& suits, const std::function<bool()>& stop) override {
    return acquire_lease(file_, key, suits, lease_seconds_, stop);
  }

  std::vector<WinnerRow> list_winners() override { return list(Place::kWinners, Part::kWhole, winner_of); }
  std::vector<KernelRow> list_kernels() override { return list(Place::kKernels, Part::kScalars, kernel_of); }

  std::vector<Damage> verify(bool repair) override;
  std::string export_to(const std::string& path) override;
  std::string import_from(const std::string& path) override;
  Pruned forget(const std::string& id) override;
  Pruned prune(double unused_days, std::int64_t max_bytes) override;
  Stats stats() override;
  std::string path() override { return file_->path(); }
  std::vector<std::string> take_warnings() override { return file_->take_warnings(); }

 private:
  template <class Row>
  std::optional<Row> find(Place place, const std::string& key, Row (*row_of)(const Record&)) {
    return file_->run("look up a row", std::optional<Row>(), [&](Database& db, bool writable) {
      Record record;
      if (!select_record(db, place, key, Part::kWhole, &record)) return std::optional<Row>();
      if (std::string what = record.complaint(); !what.empty()) {
        distrust(db, writable, record, what);
        return std::optional<Row>();
      }
      if (writable) touch_if_old(db, record);
      return std::optional<Row>(with_origin(db, record, row_of(record)));
    });
  }

  template <class Row>
  Row with_origin(Database& db, const Record& record, Row row) const {
    if (beneath_ || (record.place == Place::kWinners && is_unverified(db, record))) row.elsewhere = db.path();
    return row;
  }

  void distrust(Database& db, bool writable, const Record& record, const std::string& what) {
    file_->warn(std::string(table_name(record.place)) + " " + record.key_text() + " is damaged (" + what +
                ") and is not used" + (writable ? ": quarantined, to be made again" : ""));
    if (!writable) return;
    Transaction transaction(db);
    quarantine(db, record, what, now());
    transaction.commit();
  }

  template <class Row>
  bool put(const char* doing, const Row& row) {
    return file_->run(doing, false, [&](Database& db, bool writable) {
      if (!writable) return false;
      const Record record = record_of(row);
      Transaction transaction(db);
      if (record.place == Place::kWinners) {
        if (const std::string missing = missing_kernel(db, record); !missing.empty()) {
          file_->warn("a winner is not kept: its kernel " + missing + " is not in the cache; put the kernel first");
          return false;
        }
      }
      if (yields_to_tuned(db, record)) return false;
      insert_record(db, record);
      read_back(db, record);  // before others may prune it
      transaction.commit();
      return true;
    });
  }

  // Damage that no checksum covers (a free list that names pages in use, a root that points elsewhere) shows here.
  static void read_back(Database& db, const Record& record) {
    Record stored;
    if (select_record(db, record.place, record.key_text(), Part::kWhole, &stored) && stored.complaint().empty()) return;
    throw Error(Fault::kDamaged, "a row just written does not read back");
  }

  template <class Row>
  std::vector<Row> list(Place place, Part part, Row (*row_of)(const Record&)) {
    return file_->run("list its rows", std::vector<Row>(), [&](Database& db, bool) {
      std::vector<Row> rows;
      each_record(db, place, part, [&](const Record& record) {
        if (record.complaint().empty()) rows.push_back(with_origin(db, record, row_of(record)));
      });
      return rows;
    });
  }

  Examination examine_file() {
    return file_->run("check its rows", Examination(), [](Database& db, bool) { return examine(db); });
  }
  void rebuild(const std::string& why);

  const std::shared_ptr<File> file_;
  const double lease_seconds_;
  const bool beneath_;
};

std::vector<WinnerRow> FileStore::find_winners(const WinnerKey& key, std::string_view compiler) {
  using Found = std::pair<WinnerRow, Record>;
  const auto better = [compiler](const Found& x, const Found& y) {
    const WinnerRow &a = x.first, &b = y.first;
    if ((a.compiler == compiler) != (b.compiler == compiler)) return a.compiler == compiler;
    if (a.provisional != b.provisional) return b.provisional;
    return a.created > b.created;
  };
  return file_->run("look up a winner", std::vector<WinnerRow>(), [&](Database& db, bool writable) {
    std::vector<Found> found;
    for (Record& record : select_of_all_compilers(db, Place::kWinners, key.digest(), Part::kWhole)) {
      if (const std::string what = record.complaint(); !what.empty())
        distrust(db, writable, record, what);
      else if (WinnerRow row = with_origin(db, record, winner_of(record)); row.key.text() == key.text())
        found.emplace_back(std::move(row), std::move(record));
    }
    std::stable_sort(found.begin(), found.end(), better);
    if (writable && !found.empty()) touch_if_old(db, found.front().second);
    std::vector<WinnerRow> rows;
    for (Found& each : found) rows.push_back(std::move(each.first));
    return rows;
  });
}

std::optional<KernelRow> FileStore::find_kernel_of_any_compiler(const std::string& key) {
  if (auto row = find_kernel(key)) return row;
  auto others = file_->run("look up a kernel", std::vector<Record>(), [&](Database& db, bool) {
    return select_of_all_compilers(db, Place::kKernels, key, Part::kScalars);
  });
  std::erase_if(others, [](const Record& record) { return !record.complaint().empty(); });
  std::stable_sort(others.begin(), others.end(),
                   [](const Record& a, const Record& b) { return a.created() > b.created(); });
  for (const Record& record : others) {
    if (auto row = find_kernel(record.key_text())) return row;  // none where its blobs are damaged
  }
  return std::nullopt;
}

std::vector<Damage> FileStore::verify(bool repair) {
  const Examination found = examine_file();
  std::vector<Damage> damages = found.damages();
  if (!repair || found.clean() || mode() != Mode::kReadWrite) return damages;
  if (found.pages.empty()) {
    file_->run("quarantine rows", false, [&](Database& db, bool) { return quarantine_rows(db, found, now()), true; });
  }
  if (const Examination again = examine_file(); !again.clean()) {
    rebuild(again.pages.empty() ? "damaged rows that cannot be removed" : again.pages);
  }
  const bool repaired = examine_file().clean();
  for (Damage& damage : damages) damage.repaired = repaired;
  return damages;
}

void FileStore::rebuild(const std::string& why) {
  const std::string old = file_->replace(why);
  if (old.empty()) return;
  const int taken =
      file_->run("take over its old rows", 0, [&](Database& db, bool) { return salvage_rows(db, old, now()); });
  file_->warn(std::to_string(taken) + " rows of " + old + " were still good and are kept");
}

std::string FileStore::export_to(const std::string& path) {
  const std::string off = "there is nothing to export: the cache is " + file_->mode_text();
  return file_->run("export", off, [&](Database& db, bool) -> std::string {
    try {
      int skipped = 0;
      export_rows(db, path, &skipped);
      if (skipped > 0) file_->warn(std::to_string(skipped) + " damaged rows were not exported");
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  });
}

std::string FileStore::import_from(const std::string& path) {
  const std::string refused = "nothing can be imported: the cache is " + file_->mode_text();
  return file_->run("import", refused,
                    [&](Database& db, bool writable) { return writable ? import_rows(db, path, now()) : refused; });
}

Pruned FileStore::forget(const std::string& id) {
  return file_->run("forget a winner", Pruned(),
                    [&](Database& db, bool writable) { return writable ? forget_winner(db, id) : Pruned(); });
}

Pruned FileStore::prune(double unused_days, std::int64_t max_bytes) {
  return file_->run("prune", Pruned(), [&](Database& db, bool writable) {
    if (!writable) return Pruned();
    const Pruned pruned = prune_rows(db, unused_days, max_bytes, now());
    compact(db);
    return pruned;
  });
}

Stats FileStore::stats() {
  Stats stats;
  stats.path = file_->path();
  stats.mode = file_->mode_text();
  if (stats.path.empty()) return stats;
  stats.schema = kSchemaVersion;
  stats.file_bytes = size_of(stats.path) + size_of(stats.path + "-wal");
  return file_->run("count its rows", stats, [&](Database& db, bool) {
    stats.kernels = db.integer("SELECT count(*) FROM kernels");
    stats.winners = db.integer("SELECT count(*) FROM winners");
    stats.provisional = db.integer("SELECT count(*) FROM winners WHERE provisional<>0");
    stats.quarantined = quarantined(db);
    stats.leases = live_leases(db);
    for (const char* table : {"kernels", "winners"}) {
      const std::string from = std::string(" FROM ") + table;
      stats.blob_bytes += db.integer(("SELECT total(blob_bytes)" + from).c_str());
      stats.raw_bytes += db.integer(("SELECT total(raw_bytes)" + from).c_str());
    }
    return stats;
  });
}

}  // namespace

std::optional<WinnerRow> Store::find_winner(const WinnerKey& key, std::string_view compiler) {
  std::vector<WinnerRow> rows = find_winners(key, compiler);
  return rows.empty() ? std::nullopt : std::optional<WinnerRow>(std::move(rows.front()));
}

std::unique_ptr<Store> Store::open(const Options& options) {
  std::vector<std::string> paths = layer_paths(options.path);
  if (options.mode == Mode::kOff) paths.resize(1);
  // Nothing has been learnt yet: a reader has nothing to miss in a file that is not there.
  const bool none_yet = options.mode == Mode::kReadOnly && paths.size() > 1 && !file_id(paths.front());
  if (none_yet) paths.erase(paths.begin());
  auto first = std::make_unique<FileStore>(Options{paths.front(), options.mode, options.lease_seconds}, none_yet);
  std::vector<std::unique_ptr<Store>> beneath;
  for (std::size_t at = 1; at < paths.size(); ++at) {
    beneath.push_back(std::make_unique<FileStore>(Options{paths[at], Mode::kReadOnly, options.lease_seconds}, true));
  }
  if (beneath.empty()) return first;
  return layered(std::move(first), std::move(beneath));
}

}  // namespace gqa::cache
