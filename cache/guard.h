// guard.h: who else could have written what we are about to run.
// Owns: the check of owners and write bits, of the file, what SQLite keeps beside it, and the folders above.
// Never: changes an existing permission. Import is not guarded: whoever names a file to import trusts it.
// Threads: pure functions of the filesystem.
#pragma once

#include <string>

namespace gqa::cache {

// What SQLite keeps beside a database.
inline constexpr const char* kSidecars[] = {"-wal", "-shm", "-journal"};

// "" if nobody but this user and root can have written the file or can replace it; else what is wrong and what to do.
// A folder that all may write is accepted when it is sticky (/tmp) and what lies in it is ours. Absent files pass.
std::string guard_complaint(const std::string& path);

// The path with its folder resolved, so that a later change of a link above it changes nothing.
std::string resolved(const std::string& path);

// Makes the missing folders above the file, 0700. "" or what failed.
std::string make_folders(const std::string& path);

// Makes an empty file, 0600, unless one is there. "" or what failed.
std::string make_file(const std::string& path);

}  // namespace gqa::cache
