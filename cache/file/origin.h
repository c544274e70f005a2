// origin.h: whether bytes were written by us, damaged or not.
// Owns: our marks: the application id in the header, the first table as its schema lies on the first page, and rows
// that carry our checksum.
// Never: asks SQLite, which might roll back, check-point or delete what lies beside another program's database.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace gqa::cache {

inline constexpr std::size_t kMarkBytes = 65536;       // of a database; its tables' roots are in the first five pages
inline constexpr std::size_t kLogMarkBytes = 1 << 20;  // of a "-wal" or a "-journal"

// A field of the header, most significant byte first.
std::uint32_t header_word(std::string_view header, std::size_t at);

// The magic, whole, and the fields up to the application id.
bool begins_as_sqlite(std::string_view bytes);

// Whether the first bytes of a file show that it was a cache of ours. Each mark is looked for where a file of ours has
// it and nowhere else: a dump, an archive or a text that holds the same bytes is not ours.
bool bears_our_mark(std::string_view start);

// The same of a log that SQLite kept beside a database: whether a page in it is one of ours.
bool log_bears_our_mark(std::string_view log);

}  // namespace gqa::cache
