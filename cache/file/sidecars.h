// sidecars.h: what SQLite keeps beside a database, before SQLite sees it.
// Owns: their names, and whether those that lie beside a path are another program's.
// Never: changes them. SQLite deletes or overwrites what it finds under these names, so they are looked at first.
// Threads: pure functions of the filesystem.
#pragma once

#include <string>

namespace gqa::cache {

inline constexpr const char* kSidecars[] = {"-wal", "-shm", "-journal"};

enum class Beside { kOurFile, kNothing };  // what lies under the path itself; an empty file is nothing

// "", or which of them is not ours and what it is.
std::string sidecar_complaint(const std::string& path, Beside beside);

// The first that is there, whatever it is; "" if none is.
std::string any_sidecar(const std::string& path);

}  // namespace gqa::cache
