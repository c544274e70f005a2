// rows.h: rows as they lie in the file.
// Owns: the columns of kernels and winners, the checksum of a row, packing and unpacking, and saying what is wrong.
// Never: opens transactions, or decides what becomes of a damaged row.
// Threads: as database.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/file/database.h"
#include "cache/store.h"

namespace gqa::cache {

enum class Place { kKernels, kWinners };  // the two tables of rows worth keeping
inline constexpr Place kPlaces[] = {Place::kKernels, Place::kWinners};
const char* table_name(Place place);

// Lengths in the keys of both tables: of what rows of all compilers share, and of the whole.
inline constexpr std::size_t kKeyDigits = 32, kIdDigits = 48;

// The checksum of the first `count` cells, types and lengths included.
std::string row_checksum(const Cells& cells, std::size_t count);

// One row as it is stored: blobs packed, or left out where only the scalars were asked for.
struct Record {
  Place place = Place::kKernels;
  Cells cells;

  const Cell& key() const { return cells.front(); }
  std::string key_text() const;  // also of a damaged key
  // The three below: of a whole record only.
  std::int64_t created() const;
  std::int64_t used() const;
  std::int64_t blob_bytes() const;
  std::vector<std::string> kernels() const;  // a winner's
  std::string family() const;                // a kernel's
  bool helps() const;                        // a kernel that is no winner's: kHelpingFamilies
  std::string arch() const;                  // a kernel's
  std::string compiler() const;

  std::string complaint() const;  // "", or what is wrong: "row: checksum mismatch", "cubin: checksum mismatch"
};

Record record_of(const KernelRow& row);
Record record_of(const WinnerRow& row);
// The row that a record without complaint holds; blobs that were left out stay empty.
KernelRow kernel_of(const Record& record);
WinnerRow winner_of(const Record& record);

enum class Part { kWhole, kScalars };  // blobs lie on pages of their own, which kScalars does not read

bool select_record(Database& db, Place place, const std::string& key, Part part, Record* record);
// Rows whose keys begin as this one does: of all compilers.
std::vector<Record> select_of_all_compilers(Database& db, Place place, const std::string& key, Part part);
// Every row as it is stored, damaged ones included. The visitor must not write to the table.
void each_record(Database& db, Place place, Part part, const std::function<void(const Record&)>& visit);
void insert_record(Database& db, const Record& record);          // replaces
bool delete_record(Database& db, Place place, const Cell& key);  // by the key as it is stored
// Whether the record is a guess and a tuned row of the same families stands where it would go.
bool yields_to_tuned(Database& db, const Record& record);
bool has_kernel(Database& db, const std::string& key);
// The first kernel of a winner that the database does not have; "": it has all.
std::string missing_kernel(Database& db, const Record& winner);
void touch(Database& db, const Record& record, std::int64_t now);  // sets `used`, and the checksum with it

// Notes that a winner was not verified with this file; the note goes when the row is put again, or goes.
void note_unverified(Database& db, const Record& winner, std::int64_t now);
bool is_unverified(Database& db, const Record& winner);

// How many rows were taken out as damaged, and forgetting those of before a time.
std::int64_t quarantined(Database& db);
void forget_quarantined(Database& db, std::int64_t until);

// Takes a damaged row out of its table and notes it; the note goes when the row is put again.
void quarantine(Database& db, const Record& record, const std::string& what, std::int64_t now);

}  // namespace gqa::cache
