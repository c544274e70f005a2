// transfer.cc: export, import, salvage.
// Owns: see transfer.h.
// Threads: as database.h.
#include "cache/transfer.h"

#include <memory>
#include <optional>

#include "cache/export_file.h"
#include "cache/file/folder.h"
#include "cache/file/guard.h"
#include "cache/rows.h"
#include "cache/schema.h"

namespace gqa::cache {
namespace {

constexpr const char* kExpected = "; expected an exported gqa cache";

void copy_rows(Database& from, Database& to, int* skipped) {
  const Transaction snapshot(from, "BEGIN");
  Transaction transaction(to);
  for (const Place place : kPlaces) {
    each_record(from, place, Part::kWhole, [&](const Record& record) {
      const bool whole = record.complaint().empty();
      if (whole && (place == Place::kKernels || missing_kernel(to, record).empty()))
        insert_record(to, record);
      else
        *skipped += 1;
    });
  }
  transaction.commit();
}

// A file in a folder that cannot be written has no WAL to take part in.
std::unique_ptr<Database> open_source(const std::string& path) {
  try {
    auto db = std::make_unique<Database>(path, Database::Open::kReadOnly);
    inspect(*db);
    return db;
  } catch (const Error&) {
    return std::make_unique<Database>(path, Database::Open::kImmutable);
  }
}

std::string source_complaint(Database& source) {
  const Inspection found = inspect(source);
  if (found.verdict == Verdict::kEmpty) return "it is empty";
  if (found.verdict == Verdict::kDamaged) return "it is damaged: " + found.why;
  if (found.verdict != Verdict::kOurs) {  // older, newer, another program's
    return found.why + kExpected + " of schema " + std::to_string(kSchemaVersion);
  }
  return integrity_complaint(source);
}

std::string kernels_complaint(Database& source, Database& to, const Record& winner) {
  for (const std::string& key : winner.kernels()) {
    if (!has_kernel(source, key) && !has_kernel(to, key)) return "its kernel " + key + " is in neither file";
  }
  return "";
}

// The first row that cannot be taken.
std::string rows_complaint(Database& source, Database& to) {
  std::string complaint;
  for (const Place place : kPlaces) {
    each_record(source, place, Part::kWhole, [&](const Record& record) {
      if (!complaint.empty()) return;
      std::string why = record.complaint();
      if (why.empty() && place == Place::kWinners) why = kernels_complaint(source, to, record);
      if (!why.empty()) complaint = std::string(table_name(place)) + " " + record.key_text() + ": " + why;
    });
  }
  return complaint;
}

// What is there already and stays. A kernel does: winners that were verified here run it.
std::optional<Record> kept_instead(Database& db, const Record& record) {
  Record present;
  if (!select_record(db, record.place, record.key_text(), Part::kWhole, &present) || !present.complaint().empty())
    return std::nullopt;
  if (record.place == Place::kWinners && present.created() < record.created()) return std::nullopt;
  return present;
}

void take_rows(Database& source, Database& to, std::int64_t now) {
  Transaction transaction(to);
  for (const Place place : kPlaces) {
    each_record(source, place, Part::kWhole, [&](const Record& record) {
      if (yields_to_tuned(to, record)) return;
      const std::optional<Record> kept = kept_instead(to, record);
      if (!kept) insert_record(to, record);
      if (!kept && place == Place::kWinners) note_unverified(to, record, now);
      touch(to, kept.value_or(record), now);  // or a prune would take what has had no chance to be used here
    });
  }
  transaction.commit();
}

}  // namespace

void export_rows(Database& from, const std::string& path, int* skipped) {
  ExportFile file(path, from.path());
  {
    Database to(file.part(), Database::Open::kReadWrite);
    create_schema(to);
    copy_rows(from, to, skipped);
  }
  file.publish();
}

std::string import_rows(Database& to, const std::string& path, std::int64_t now) {
  try {
    if (!file_id(path)) return "there is no file " + path;
    if (const std::string what = not_a_file(path); !what.empty())
      return path + " is refused: it is " + what + kExpected;
    const auto source = open_source(resolved(path));
    if (const std::string why = source_complaint(*source); !why.empty()) return path + " is refused: " + why;
    const Transaction snapshot(*source, "BEGIN");  // what was checked is what will be taken
    if (const std::string why = rows_complaint(*source, to); !why.empty()) return path + " is refused: " + why;
    take_rows(*source, to, now);
    return "";
  } catch (const std::exception& error) {
    return "cannot import " + path + ": " + error.what();
  }
}

int salvage_rows(Database& to, const std::string& path, std::int64_t now) {
  int taken = 0;
  const auto from = open_source(path);
  Transaction transaction(to);
  for (const Place place : kPlaces) {
    try {
      each_record(*from, place, Part::kWhole, [&](const Record& record) {
        if (!record.complaint().empty()) return;
        if (place == Place::kWinners && !missing_kernel(to, record).empty()) return;
        insert_record(to, record);
        if (place == Place::kWinners) note_unverified(to, record, now);  // its own notes may be lost
        taken += 1;
      });
    } catch (const Error& error) {
      if (error.fault() != Fault::kDamaged) throw;  // the rows after the damaged page are lost, the others are not
    }
  }
  transaction.commit();
  return taken;
}

}  // namespace gqa::cache
