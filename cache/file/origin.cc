// origin.cc: SQLite's file format, as far as finding our marks in it needs.
// Owns: see origin.h.
// Threads: see origin.h.
#include "cache/file/origin.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "cache/file/kind.h"
#include "cache/rows.h"
#include "cache/schema.h"

namespace gqa::cache {
namespace {

constexpr std::size_t kPage = 4096, kHash = 32, kApplicationAt = 68;
constexpr std::size_t kWalHeader = 32, kWalFrame = 24, kJournalSectorAt = 20, kJournalNumber = 4, kJournalSum = 4;
constexpr char kLeaf = 0x0a, kInner = 0x02;  // pages of WITHOUT ROWID tables

// Reads forward through bytes that may be anything; past their end it gives zeros and is no longer good().
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool good() const { return good_; }
  std::size_t at() const { return at_; }

  std::string_view take(std::size_t size) {
    good_ = good_ && size <= bytes_.size() - at_;
    if (!good_) return {};
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (const char c : take(size)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t byte = number(1);
      value = value << 7 | (byte & 0x7f);
      if (byte < 0x80) return value;
    }
    return value << 8 | number(1);
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

std::int64_t signed_number(Reader* body, std::size_t size) {
  const auto shift = static_cast<int>(64 - 8 * size);
  return static_cast<std::int64_t>(body->number(size) << shift) >> shift;
}

// A value by its serial type; none if it does not lie on this page.
std::optional<Cell> value_of(std::uint64_t type, Reader* body) {
  static constexpr std::size_t kIntegerBytes[] = {0, 1, 2, 3, 4, 6, 8};
  Cell cell;
  if (type >= 1 && type <= 6) {
    cell = signed_number(body, kIntegerBytes[type]);
  } else if (type == 7) {
    cell = std::bit_cast<double>(body->number(8));
  } else if (type == 8 || type == 9) {
    cell = static_cast<std::int64_t>(type - 8);
  } else if (type >= 12) {
    std::string data(body->take((type - 12) / 2));
    if (type % 2 == 1)
      cell = std::move(data);
    else
      cell = Bytes{std::move(data)};
  }
  if (!body->good()) return std::nullopt;
  return cell;
}

// Whether one of the record's values is our checksum of those before it. Winners are not found, where a REAL that is
// whole is kept as an integer; but each of them has a kernel, which is.
bool is_our_record(std::string_view record) {
  Reader header(record);
  const std::uint64_t header_size = header.varint();
  if (!header.good() || header_size > record.size()) return false;
  Reader body(record.substr(header_size));
  Cells cells;
  while (header.good() && header.at() < header_size) {
    std::optional<Cell> value = value_of(header.varint(), &body);
    if (!value) return false;
    const auto* text = std::get_if<std::string>(&*value);
    if (text && text->size() == kHash && !cells.empty() && *text == row_checksum(cells, cells.size())) return true;
    cells.push_back(std::move(*value));
  }
  return false;
}

bool holds_our_row(std::string_view page) {
  if (page.size() < kPage || (page[0] != kLeaf && page[0] != kInner)) return false;
  const bool inner = page[0] == kInner;
  const std::uint64_t count = Reader(page.substr(3)).number(2);
  Reader pointers(page.substr(inner ? 12 : 8));
  for (std::uint64_t i = 0; i < count && pointers.good(); ++i) {
    const std::uint64_t at = pointers.number(2);
    if (at >= page.size()) continue;
    Reader cell(page.substr(at));
    if (inner) cell.take(4);  // the child to its left
    cell.varint();            // its length
    if (cell.good() && is_our_record(page.substr(at + cell.at()))) return true;
  }
  return false;
}

// The magic may be damaged, if fields that every file of ours has the same are not: no text has such bytes.
bool has_our_header(std::string_view page) {
  if (page.size() < kApplicationAt + 4 || header_word(page, kApplicationAt) != kApplicationId) return false;
  return begins_as_sqlite(page) || (page.substr(16, 2) == std::string_view("\x10\0", 2) && page.substr(21, 3) == "@  ");
}

// The first table's schema is the first that was put on the first page, and a page is filled from its end.
bool has_our_schema(std::string_view page) {
  return page.size() >= kPage && page.substr(0, kPage).ends_with(first_schema_record());
}

bool is_our_page(std::string_view page) { return has_our_header(page) || holds_our_row(page); }

}  // namespace

std::uint32_t header_word(std::string_view header, std::size_t at) {
  return static_cast<std::uint32_t>(Reader(header.substr(std::min(at, header.size()))).number(4));
}

bool begins_as_sqlite(std::string_view bytes) {
  return bytes.size() >= kApplicationAt + 4 && bytes.starts_with(kSqliteMagic);
}

bool bears_our_mark(std::string_view start) {
  if (has_our_header(start) || has_our_schema(start)) return true;
  for (std::size_t at = kPage; at < start.size(); at += kPage) {
    if (holds_our_row(start.substr(at, kPage))) return true;
  }
  return false;
}

bool log_bears_our_mark(std::string_view log) {
  const bool journal = log.starts_with(kJournalMagic);
  const std::size_t before = journal ? kJournalNumber : kWalFrame, after = journal ? kJournalSum : 0;
  const std::size_t header = journal ? header_word(log, kJournalSectorAt) : kWalHeader;
  for (std::size_t at = header + before; at < log.size(); at += kPage + after + before) {
    if (is_our_page(log.substr(at, kPage))) return true;
  }
  return false;
}

}  // namespace gqa::cache
