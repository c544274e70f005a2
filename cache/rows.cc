// rows.cc: the one place that knows the order of columns.
// Owns: see rows.h.
// Never: trusts a cell before the row's checksum held.
// Threads: as database.h.
#include "cache/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <string_view>

#include "cache/file/blob.h"

namespace gqa::cache {
namespace {

// Where things are in a table's columns: scalars, then the sums of the blobs, their sizes, the checksum, the blobs.
struct Layout {
  const char* table;
  const char* key;
  std::string_view scalars;  // all columns up to the checksum, in order
  std::string_view blobs;
  std::size_t used, first_sum, blob_count;

  std::size_t created() const { return used - 1; }
  std::size_t blob_bytes() const { return first_sum + blob_count; }
  std::size_t raw_bytes() const { return blob_bytes() + 1; }
  std::size_t checksum() const { return raw_bytes() + 1; }
  std::size_t first_blob() const { return checksum() + 1; }
  std::size_t whole() const { return first_blob() + blob_count; }
};

constexpr Layout kKernelLayout = {
    "kernels",
    "key",
    "key, closure, arch, compiler, family, abi, launch, problem, candidate, registers, spill_bytes, static_smem,"
    " created, used, source_sum, ptx_sum, cubin_sum, log_sum, blob_bytes, raw_bytes, checksum",
    "source, ptx, cubin, log",
    13,
    14,
    4};
constexpr Layout kWinnerLayout = {
    "winners",
    "id",
    "id, signature, device, search, compiler, families, kernel, candidate, provisional, median_us, spread_us,"
    " clock_mhz, error, bound, driver, created, used, evidence_sum, blob_bytes, raw_bytes, checksum",
    "evidence",
    16,
    17,
    1};
// The table of notes has a name of its own for winners that stay where they are.
constexpr const char* kUnverified = "unverified";
constexpr std::size_t kKernelArch = 2, kKernelCompiler = 3, kKernelFamily = 4, kWinnerCompiler = 4, kWinnerKernel = 6;
constexpr const char* kKernelBlobs[] = {"source", "ptx", "cubin", "log"};
constexpr const char* kWinnerBlobs[] = {"evidence"};

// At least one: of no text, the key that no kernel has.
std::vector<std::string> split_keys(const std::string& text) {
  std::vector<std::string> keys(1);
  for (const char c : text) {
    if (c == ' ')
      keys.emplace_back();
    else
      keys.back() += c;
  }
  return keys;
}

const Layout& layout(Place place) { return place == Place::kKernels ? kKernelLayout : kWinnerLayout; }

const char* blob_name(Place place, std::size_t at) {
  return place == Place::kKernels ? kKernelBlobs[at] : kWinnerBlobs[at];
}

std::string columns(Place place, Part part) {
  const Layout& at = layout(place);
  std::string text(at.scalars);
  if (part == Part::kWhole) text.append(", ").append(at.blobs);
  return text;
}

const std::string& text(const Cells& cells, std::size_t at) { return std::get<std::string>(cells[at]); }
std::int64_t integer(const Cells& cells, std::size_t at) { return std::get<std::int64_t>(cells[at]); }
int small(const Cells& cells, std::size_t at) { return static_cast<int>(integer(cells, at)); }
double real(const Cells& cells, std::size_t at) { return std::get<double>(cells[at]); }

void append(std::string* bytes, char type, std::uint64_t size, std::string_view data) {
  bytes->push_back(type);
  for (int shift = 0; shift < 64; shift += 8) bytes->push_back(static_cast<char>(size >> shift));
  bytes->append(data);
}

void append(std::string* bytes, const Cell& cell) {
  if (const auto* number = std::get_if<std::int64_t>(&cell)) {
    append(bytes, 'i', static_cast<std::uint64_t>(*number), "");
  } else if (const auto* value = std::get_if<double>(&cell)) {
    // + 0.0: SQLite stores -0.0 as the integer 0 and gives 0.0 back.
    append(bytes, 'r', std::bit_cast<std::uint64_t>(*value + 0.0), "");
  } else if (const auto* string = std::get_if<std::string>(&cell)) {
    append(bytes, 't', string->size(), *string);
  } else if (const auto* blob = std::get_if<Bytes>(&cell)) {
    append(bytes, 'b', blob->data.size(), blob->data);
  } else {
    append(bytes, 'n', 0, "");
  }
}

// Appends sums, sizes, checksum and blobs to a row's scalars.
void seal(Record* record, std::initializer_list<std::string_view> raws) {
  std::vector<Blob> blobs;
  std::int64_t packed = 0, raw = 0;
  for (const std::string_view bytes : raws) {
    blobs.push_back(pack(bytes));
    packed += static_cast<std::int64_t>(blobs.back().packed.size());
    raw += blobs.back().raw_bytes;
  }
  Cells& cells = record->cells;
  for (const Blob& blob : blobs) cells.emplace_back(blob.sum);
  cells.emplace_back(packed);
  cells.emplace_back(raw);
  cells.emplace_back(row_checksum(cells, cells.size()));
  for (Blob& blob : blobs) cells.emplace_back(Bytes{std::move(blob.packed)});
}

bool unpack_blob(const Record& record, std::size_t index, std::string* raw) {
  const Layout& at = layout(record.place);
  const auto* bytes = std::get_if<Bytes>(&record.cells[at.first_blob() + index]);
  const std::int64_t limit = integer(record.cells, at.raw_bytes());
  return bytes && unpack(bytes->data, text(record.cells, at.first_sum + index), limit, raw);
}

std::string blob_or_empty(const Record& record, std::size_t index) {
  std::string raw;
  if (record.cells.size() == layout(record.place).whole()) unpack_blob(record, index, &raw);
  return raw;
}

WinnerKey key_of(const Cells& cells) { return {text(cells, 1), text(cells, 2), text(cells, 3)}; }

// Drops the notes on the row of that key; keys of the two tables differ.
void forget_notes(Database& db, Place place, const Cell& key) {
  db.prepare("DELETE FROM quarantine WHERE key IS ? AND place IN (?, ?)")
      .bind(key)
      .bind(layout(place).table)
      .bind(kUnverified)
      .run();
}

void note(Database& db, const char* place, const std::string& key, const std::string& what, std::int64_t now) {
  db.prepare("INSERT OR REPLACE INTO quarantine(place, key, what, created) VALUES(?,?,?,?)")
      .bind(place)
      .bind(key)
      .bind(what)
      .bind(now)
      .run();
}

std::string winner_id(const Cells& cells) {
  WinnerRow row;
  row.key = key_of(cells);
  row.compiler = text(cells, kWinnerCompiler);
  return row.id();
}

}  // namespace

const char* table_name(Place place) { return layout(place).table; }

std::string row_checksum(const Cells& cells, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) append(&bytes, cells[i]);
  return hash128(bytes);
}

std::vector<std::string> WinnerRow::kernels() const { return split_keys(kernel); }

std::string Record::key_text() const {
  if (const auto* string = std::get_if<std::string>(&key())) return *string;
  if (const auto* bytes = std::get_if<Bytes>(&key())) return bytes->data;
  return "(unreadable)";
}

std::int64_t Record::created() const { return integer(cells, layout(place).created()); }
std::int64_t Record::used() const { return integer(cells, layout(place).used); }
std::int64_t Record::blob_bytes() const { return integer(cells, layout(place).blob_bytes()); }
std::vector<std::string> Record::kernels() const { return split_keys(text(cells, kWinnerKernel)); }
std::string Record::family() const { return text(cells, kKernelFamily); }
bool Record::helps() const {
  return place == Place::kKernels &&
         std::find(std::begin(kHelpingFamilies), std::end(kHelpingFamilies), family()) != std::end(kHelpingFamilies);
}
std::string Record::arch() const { return text(cells, kKernelArch); }
std::string Record::compiler() const {
  return text(cells, place == Place::kKernels ? kKernelCompiler : kWinnerCompiler);
}

std::string Record::complaint() const {
  const Layout& at = layout(place);
  const auto* checksum = std::get_if<std::string>(&cells[at.checksum()]);
  if (!checksum || *checksum != row_checksum(cells, at.checksum())) return "row: checksum mismatch";
  if (place == Place::kWinners && key_text() != winner_id(cells)) return "row: its key and its id differ";
  if (cells.size() < at.whole()) return "";
  std::string raw;
  for (std::size_t i = 0; i < at.blob_count; ++i) {
    if (!unpack_blob(*this, i, &raw)) return std::string(blob_name(place, i)) + ": checksum mismatch";
  }
  return "";
}

Record record_of(const KernelRow& row) {
  Record record{Place::kKernels, {}};
  record.cells = {row.key,
                  row.closure,
                  row.arch,
                  row.compiler,
                  row.family,
                  std::int64_t{row.abi},
                  row.launch,
                  row.problem,
                  row.candidate,
                  std::int64_t{row.registers},
                  std::int64_t{row.spill_bytes},
                  std::int64_t{row.static_smem},
                  row.created,
                  row.used};
  seal(&record, {row.source, row.ptx, row.cubin, row.log});
  return record;
}

Record record_of(const WinnerRow& row) {
  Record record{Place::kWinners, {}};
  const WinnerKey& key = row.key;
  record.cells = {row.id(),      key.signature, key.device,
                  key.search,    row.compiler,  row.families,
                  row.kernel,    row.candidate, std::int64_t{row.provisional},
                  row.median_us, row.spread_us, row.clock_mhz,
                  row.error,     row.bound,     row.driver,
                  row.created,   row.used};
  seal(&record, {row.evidence});
  return record;
}

KernelRow kernel_of(const Record& record) {
  const Cells& cells = record.cells;
  KernelRow row;
  row.key = text(cells, 0);
  row.closure = text(cells, 1);
  row.arch = text(cells, kKernelArch);
  row.compiler = text(cells, kKernelCompiler);
  row.family = text(cells, kKernelFamily);
  row.abi = small(cells, 5);
  row.launch = text(cells, 6);
  row.problem = text(cells, 7);
  row.candidate = text(cells, 8);
  row.registers = small(cells, 9);
  row.spill_bytes = small(cells, 10);
  row.static_smem = small(cells, 11);
  row.created = record.created();
  row.used = record.used();
  row.source = blob_or_empty(record, 0);
  row.ptx = blob_or_empty(record, 1);
  row.cubin = blob_or_empty(record, 2);
  row.log = blob_or_empty(record, 3);
  return row;
}

WinnerRow winner_of(const Record& record) {
  const Cells& cells = record.cells;
  WinnerRow row;
  row.key = key_of(cells);
  row.compiler = text(cells, kWinnerCompiler);
  row.families = text(cells, 5);
  row.kernel = text(cells, kWinnerKernel);
  row.candidate = text(cells, 7);
  row.provisional = integer(cells, 8) != 0;
  row.median_us = real(cells, 9);
  row.spread_us = real(cells, 10);
  row.clock_mhz = real(cells, 11);
  row.error = real(cells, 12);
  row.bound = real(cells, 13);
  row.driver = text(cells, 14);
  row.created = record.created();
  row.used = record.used();
  row.evidence = blob_or_empty(record, 0);
  return row;
}

bool select_record(Database& db, Place place, const std::string& key, Part part, Record* record) {
  const Layout& at = layout(place);
  Statement statement = db.prepare("SELECT " + columns(place, part) + " FROM " + at.table + " WHERE " + at.key + "=?");
  if (!statement.bind(key).step()) return false;
  *record = {place, statement.cells()};
  return true;
}

std::vector<Record> select_of_all_compilers(Database& db, Place place, const std::string& key, Part part) {
  const Layout& at = layout(place);
  const std::string shared = key.substr(0, kKeyDigits), name(at.key);
  Statement statement =
      db.prepare("SELECT " + columns(place, part) + " FROM " + at.table + " WHERE " + name + ">=? AND " + name + "<?");
  statement.bind(shared).bind(shared + "~");  // '~' sorts after every digit
  std::vector<Record> records;
  while (statement.step()) records.push_back({place, statement.cells()});
  return records;
}

void each_record(Database& db, Place place, Part part, const std::function<void(const Record&)>& visit) {
  Statement statement = db.prepare("SELECT " + columns(place, part) + " FROM " + layout(place).table);
  while (statement.step()) visit({place, statement.cells()});
}

void insert_record(Database& db, const Record& record) {
  const Layout& at = layout(record.place);
  std::string marks = "?";
  for (std::size_t i = 1; i < at.whole(); ++i) marks += ",?";
  const std::string into = columns(record.place, Part::kWhole);
  db.prepare(std::string("INSERT OR REPLACE INTO ") + at.table + "(" + into + ") VALUES(" + marks + ")")
      .bind_all(record.cells)
      .run();
  forget_notes(db, record.place, record.key());
}

bool delete_record(Database& db, Place place, const Cell& key) {
  const Layout& at = layout(place);
  forget_notes(db, place, key);
  db.prepare(std::string("DELETE FROM ") + at.table + " WHERE " + at.key + " IS ?").bind(key).run();
  if (db.changes() > 0) return true;
  // A damaged key lies where the b-tree does not look for it; a scan does.
  db.prepare(std::string("DELETE FROM ") + at.table + " WHERE +" + at.key + " IS ?").bind(key).run();
  return db.changes() > 0;
}

bool yields_to_tuned(Database& db, const Record& record) {
  if (record.place != Place::kWinners || !winner_of(record).provisional) return false;
  Record present;
  if (!select_record(db, record.place, record.key_text(), Part::kScalars, &present) || !present.complaint().empty())
    return false;
  const WinnerRow row = winner_of(present);
  return !row.provisional && row.families == winner_of(record).families;
}

bool has_kernel(Database& db, const std::string& key) {
  return db.prepare("SELECT 1 FROM kernels WHERE key=?").bind(key).step();
}

std::string missing_kernel(Database& db, const Record& winner) {
  for (const std::string& key : winner.kernels()) {
    if (!has_kernel(db, key)) return key;
  }
  return "";
}

void touch(Database& db, const Record& record, std::int64_t now) {
  const Layout& at = layout(record.place);
  Cells cells(record.cells.begin(), record.cells.begin() + static_cast<std::ptrdiff_t>(at.checksum()));
  cells[at.used] = now;
  // The old checksum in the condition: a row that was put again meanwhile is left alone.
  db.prepare(std::string("UPDATE ") + at.table + " SET used=?, checksum=? WHERE " + at.key + "=? AND checksum=?")
      .bind(now)
      .bind(row_checksum(cells, cells.size()))
      .bind(record.key())
      .bind(record.cells[at.checksum()])
      .run();
}

void note_unverified(Database& db, const Record& winner, std::int64_t now) {
  note(db, kUnverified, winner.key_text(), "imported", now);
}

bool is_unverified(Database& db, const Record& winner) {
  return db.prepare("SELECT 1 FROM quarantine WHERE place=? AND key=?").bind(kUnverified).bind(winner.key()).step();
}

std::int64_t quarantined(Database& db) {
  Statement statement = db.prepare("SELECT count(*) FROM quarantine WHERE place<>?");
  return statement.bind(kUnverified).step() ? statement.integer(0) : 0;
}

void forget_quarantined(Database& db, std::int64_t until) {
  db.prepare("DELETE FROM quarantine WHERE created<=? AND place<>?").bind(until).bind(kUnverified).run();
}

void quarantine(Database& db, const Record& record, const std::string& what, std::int64_t now) {
  delete_record(db, record.place, record.key());
  note(db, table_name(record.place), record.key_text(), what, now);
}

}  // namespace gqa::cache
