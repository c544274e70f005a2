// guard.h: who else could have written what we are about to run.
// Owns: the check of owners and write bits, of the file, what SQLite keeps beside it, and the folders above.
// Never: changes an existing permission. Import is not guarded: whoever names a file to import trusts it.
// Threads: pure functions of the filesystem.
#pragma once

#include <string>

namespace gqa::cache {

// "" if nobody but this user and root can have written the file or can replace it; else what is wrong and what to do.
// A folder that all may write is accepted when it is sticky (/tmp) and what lies in it is ours. Absent files pass.
std::string guard_complaint(const std::string& path);

// The path without links in it, so that a later change of one changes nothing. A link that leads to no file yet is
// followed to where the file would be.
std::string resolved(const std::string& path);

// "" if a file could be there: else what lies there instead ("a directory", "a device node", a file of the kernel's).
std::string not_a_file(const std::string& path);

// Why a path is refused for what lies there: "... is left untouched: it is a text file; expected ...".
std::string left_untouched(const std::string& path, const std::string& why);

// Makes the missing folders above the file, 0700. "" or what failed.
std::string make_folders(const std::string& path);

// Makes an empty file, 0600, unless one is there. "" or what failed.
std::string make_file(const std::string& path);

}  // namespace gqa::cache
