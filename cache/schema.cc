// schema.cc: the tables as text, and their inspection.
// Owns: see schema.h.
// Never: alters a table in place; a new layout is a new version.
// Threads: as database.h.
#include "cache/schema.h"

#include <cstdint>
#include <string_view>

#include "cache/file/kind.h"
#include "cache/file/origin.h"

namespace gqa::cache {
namespace {

constexpr std::size_t kHeaderBytes = 100, kVersionAt = 60, kApplicationIdAt = 68;

// Each table is one b-tree (WITHOUT ROWID) and there is no index beside it, so damage to a page costs the rows on it
// and never sets an index against its table. `checksum` covers the columns before it; blobs follow it, each with the
// checksum of its raw content among those columns, so rows can be listed and checked without reading blobs.
struct Table {
  std::string_view name, sql;
};

constexpr Table kTables[] = {
    {"kernels",
     "CREATE TABLE kernels(key TEXT NOT NULL PRIMARY KEY, closure TEXT NOT NULL, arch TEXT NOT NULL,"
     " compiler TEXT NOT NULL, family TEXT NOT NULL, abi INTEGER NOT NULL, launch TEXT NOT NULL,"
     " problem TEXT NOT NULL, candidate TEXT NOT NULL, registers INTEGER NOT NULL,"
     " spill_bytes INTEGER NOT NULL, static_smem INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL,"
     " source_sum TEXT NOT NULL, ptx_sum TEXT NOT NULL, cubin_sum TEXT NOT NULL, log_sum TEXT NOT NULL,"
     " blob_bytes INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, checksum TEXT NOT NULL,"
     " source BLOB NOT NULL, ptx BLOB NOT NULL, cubin BLOB NOT NULL, log BLOB NOT NULL) STRICT, WITHOUT ROWID"},
    {"leases",
     "CREATE TABLE leases(digest TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, machine TEXT NOT NULL,"
     " pid INTEGER NOT NULL, started INTEGER NOT NULL, beat INTEGER NOT NULL, expires INTEGER NOT NULL,"
     " lifetime INTEGER NOT NULL, checksum TEXT NOT NULL) STRICT, WITHOUT ROWID"},
    {"quarantine",
     "CREATE TABLE quarantine(place TEXT NOT NULL, key TEXT NOT NULL, what TEXT NOT NULL, created INTEGER NOT NULL,"
     " PRIMARY KEY(place, key)) STRICT, WITHOUT ROWID"},
    {"winners",
     "CREATE TABLE winners(id TEXT NOT NULL PRIMARY KEY, signature TEXT NOT NULL, device TEXT NOT NULL,"
     " search TEXT NOT NULL, compiler TEXT NOT NULL, families TEXT NOT NULL, kernel TEXT NOT NULL,"
     " candidate TEXT NOT NULL, provisional INTEGER NOT NULL, median_us REAL NOT NULL, spread_us REAL NOT NULL, "
     "clock_mhz REAL NOT NULL,"
     " error REAL NOT NULL, bound REAL NOT NULL, driver TEXT NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL,"
     " evidence_sum TEXT NOT NULL, blob_bytes INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, checksum TEXT NOT NULL,"
     " evidence BLOB NOT NULL) STRICT, WITHOUT ROWID"},
};

int byte(const std::string& header, std::size_t at) { return static_cast<unsigned char>(header[at]); }

std::string version_text(const std::string& header) {
  return "its schema is version " + std::to_string(header_word(header, kVersionAt));
}

// Version 0 is none of ours.
bool is_older(const std::string& header) {
  const std::uint32_t version = begins_as_sqlite(header) ? header_word(header, kVersionAt) : 0;
  return version > 0 && version < kSchemaVersion;
}

// Fields of the header that never vary in a file of ours. SQLite believes most of them, and a wrong one (a file that
// claims to be read-only, or to have pointer maps) would fail later and worse.
std::string header_complaint(const std::string& header) {
  if (header.size() < kHeaderBytes || !begins_as_sqlite(header)) return "it does not begin as an SQLite file";
  if (header_word(header, kVersionAt) != kSchemaVersion) return version_text(header);
  if (byte(header, 18) < 1 || byte(header, 18) > 2 || byte(header, 19) != byte(header, 18)) return "its format version";
  if (byte(header, 20) != 0) return "its reserved bytes a page";
  if (byte(header, 21) != 64 || byte(header, 22) != 32 || byte(header, 23) != 32) return "its payload fractions";
  if (header_word(header, 44) != 4) return "its schema format";
  if (header_word(header, 52) != 0 || header_word(header, 64) != 0) return "its vacuum mode";
  if (header_word(header, 56) != 1) return "its text encoding";
  for (std::size_t at = 72; at < 92; at += 4) {
    if (header_word(header, at) != 0) return "its reserved header bytes";
  }
  return "";
}

std::string tables_complaint(Database& db) {
  Statement statement = db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name");
  for (const Table& table : kTables) {
    if (!statement.step()) return "a table is missing: " + std::string(table.name);
    if (statement.text(0) != table.name || statement.text(1) != table.sql) {
      return "table " + std::string(table.name) + " is not as it was made";
    }
  }
  return statement.step() ? "it holds something else: " + statement.text(0) : "";
}

// A file that is not ours, in the words of a refusal.
std::string foreign_kind(const std::string& start) {
  if (begins_as_sqlite(start)) {
    const std::string application = std::to_string(header_word(start, kApplicationIdAt));
    return "it is an SQLite database of another program (application id " + application + ")";
  }
  return "it is " + kind_of(start);
}

}  // namespace

Inspection look(Database& db) {
  std::string start = db.read(kHeaderBytes);
  if (start.empty()) return {Verdict::kEmpty, ""};
  if (begins_as_sqlite(start)) {
    // A whole header is believed.
    if (header_word(start, kApplicationIdAt) != kApplicationId) return {Verdict::kForeign, foreign_kind(start)};
    const std::uint32_t version = header_word(start, kVersionAt);
    if (version > kSchemaVersion) return {Verdict::kNewer, version_text(start)};
    return {Verdict::kOurs, ""};
  }
  start = db.read(kMarkBytes);
  if (bears_our_mark(start)) return {Verdict::kOurs, ""};
  return {Verdict::kForeign, foreign_kind(start)};
}

Inspection inspect(Database& db) {
  if (Inspection whose = look(db); whose.verdict != Verdict::kOurs) return whose;
  std::string broken;
  try {
    db.integer("PRAGMA schema_version");  // has SQLite roll back or recover what a killed process left
  } catch (const Error& error) {
    if (error.fault() != Fault::kDamaged) throw;
    broken = error.what();
  }
  const std::string header = db.read(kHeaderBytes);
  if (header.empty()) return {Verdict::kEmpty, ""};
  if (is_older(header)) return {Verdict::kOlder, version_text(header) + ", of an older gqa"};
  if (broken.empty()) broken = header_complaint(header);
  if (broken.empty()) broken = tables_complaint(db);
  return {broken.empty() ? Verdict::kOurs : Verdict::kDamaged, broken};
}

void create_schema(Database& db) {
  db.execute("PRAGMA page_size=4096; PRAGMA auto_vacuum=NONE");
  Transaction transaction(db);
  if (!db.read(kHeaderBytes).empty()) throw Error(Fault::kOther, "another program has begun to write to it");
  for (const Table& table : kTables) db.execute(std::string(table.sql).c_str());
  db.execute(("PRAGMA application_id=" + std::to_string(kApplicationId)).c_str());
  db.execute(("PRAGMA user_version=" + std::to_string(kSchemaVersion)).c_str());
  transaction.commit();
}

const std::string& first_schema_record() {
  static const std::string record = [] {
    const Table& first = kTables[0];
    const std::string name(first.name), root = "\2";
    return "table" + name + name + root + std::string(first.sql);
  }();
  return record;
}

void use_wal(Database& db) {
  try {
    db.execute("PRAGMA journal_mode=WAL");
  } catch (const Error& error) {
    if (error.fault() == Fault::kDamaged) throw;
  }
  // NORMAL does not sync at each commit: a power cut may lose the last rows, which are only measured again. It cannot
  // damage the file (WAL frames are checksummed, and a checkpoint does sync), and killing a process loses nothing.
  db.execute("PRAGMA synchronous=NORMAL");
}

std::string integrity_complaint(Database& db) {
  Statement statement = db.prepare("PRAGMA integrity_check(1)");
  const std::string first = statement.step() ? statement.text(0) : "no answer";
  return first == "ok" ? "" : first;
}

}  // namespace gqa::cache
