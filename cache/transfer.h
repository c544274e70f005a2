// transfer.h: rows between files.
// Owns: export to one self-contained file, import all or nothing, salvage of what can still be read.
// Never: heals. A damaged source is reported, not moved.
// Threads: as database.h.
#pragma once

#include <cstdint>
#include <string>

#include "cache/file/database.h"

namespace gqa::cache {

// Into a new file or over an older export, see export_file.h. Rows that fail their checksum stay behind, counted in
// `skipped`. Throws Error.
void export_rows(Database& from, const std::string& path, int* skipped);

// "" or why nothing was taken. An older winner never replaces a newer one. Those taken are noted as unverified.
std::string import_rows(Database& to, const std::string& path, std::int64_t now);

// Takes every row that still holds from a file that was set aside; gives their number. Winners are to be verified
// again.
int salvage_rows(Database& to, const std::string& path, std::int64_t now);

}  // namespace gqa::cache
