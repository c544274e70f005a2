// kind.h: what a file is, in words for whoever named it by mistake.
// Owns: the names of kinds, by what stat() says and by a file's first bytes.
// Never: opens a file, or decides whether a file is ours (origin.h does).
// Threads: pure functions.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

namespace gqa::cache {

inline constexpr std::string_view kSqliteMagic("SQLite format 3\0", 16);
inline constexpr std::string_view kWalMagic("\x37\x7f\x06", 3);  // the fourth byte says in which order the sums are
inline constexpr std::string_view kJournalMagic("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8);

// "a directory", "a device node", "a pipe", "a socket", "a link", "an empty file", "a file".
std::string kind_of(const struct stat& at);

// "a text file", "an ELF binary", "an SQLite database", ...; "a binary file" if none of those that are known here.
std::string kind_of(std::string_view bytes);

bool is_unknown_binary(std::string_view bytes);  // of no known kind, zeros included

}  // namespace gqa::cache
