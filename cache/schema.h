// schema.h: what the file looks like.
// Owns: the application id, the schema version, the tables, and telling our file from another's or a damaged one.
// Never: opens or replaces a file; file.h decides what to do about a verdict.
// Threads: as database.h.
#pragma once

#include <string>

#include "cache/file/database.h"

namespace gqa::cache {

inline constexpr int kApplicationId = 0x67716163;  // "gqac"
inline constexpr int kSchemaVersion = 2;

enum class Verdict {
  kEmpty,    // no bytes yet
  kOurs,     // this schema
  kOlder,    // ours, of an earlier version: its rows are not read
  kNewer,    // ours, of a later version: leave it untouched
  kForeign,  // another program's, or nobody knows whose: leave it untouched
  kDamaged,  // ours (origin.h), and not what any version of us wrote
};

struct Inspection {
  Verdict verdict = Verdict::kEmpty;
  std::string why;  // for all but kEmpty and kOurs
};

// Whose file it is, by its bytes alone: through the descriptor that SQLite has open, before SQLite reads it. kOurs may
// be older or damaged.
Inspection look(Database& db);

// look(), and then whether it is whole. Reads a hundred bytes and the schema table, not the rows: cheap enough for
// every open. What is not ours SQLite is not asked about.
Inspection inspect(Database& db);

// Makes the tables in an empty file, in one transaction. Throws if somebody wrote to it meanwhile.
void create_schema(Database& db);

// How the first table's schema begins to lie on the first page: the end of its record.
const std::string& first_schema_record();

// Asks for write-ahead logging; where the filesystem cannot (no shared memory), SQLite's rollback journal serves as
// well.
void use_wal(Database& db);

// SQLite's own check of every page. "" or its first complaint.
std::string integrity_complaint(Database& db);

}  // namespace gqa::cache
