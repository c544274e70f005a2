// foreign_support.h: somebody else's files, and seeing that nothing happened to them.
// Owns: a snapshot of a folder, one file of each kind that is not ours, what a killed program leaves beside its
// database.
// Never: knows what is done to them.
// Threads: none.
#pragma once

#include <algorithm>
#include <ostream>

#include "support.h"

namespace gqa::cache {

// Everything in a folder: names, bytes and identities.
struct Entry {
  std::string name, bytes;
  ino_t inode;
  mode_t mode;
  timespec modified;
  bool operator==(const Entry& other) const {
    return name == other.name && bytes == other.bytes && inode == other.inode && mode == other.mode &&
           modified.tv_sec == other.modified.tv_sec && modified.tv_nsec == other.modified.tv_nsec;
  }
};
inline std::ostream& operator<<(std::ostream& out, const Entry& entry) {
  return out << entry.name << " (" << entry.bytes.size() << " bytes)";
}

inline std::vector<Entry> snapshot(const std::string& folder) {
  std::vector<Entry> entries;
  for (const std::string& path : files_in(folder, "")) {
    struct stat at;
    EXPECT_EQ(lstat(path.c_str(), &at), 0);
    const std::string bytes = S_ISREG(at.st_mode) ? read_bytes(path) : "";
    entries.push_back({path, bytes, at.st_ino, at.st_mode, at.st_mtim});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

struct Kind {
  std::string bytes, what;
};

inline std::vector<Kind> foreign_kinds() {
  return {
      {"dear diary\n", "it is a text file"},
      {"x", "it is a text file"},
      {std::string(9000, 'a'), "it is a text file"},
      {"gr\xc3\xbc\xc3\x9f dich", "it is a text file"},
      {std::string(68, '-') + "gqac" + std::string(5000, '-'), "it is a text file"},
      {"\x7f"
       "ELF" +
           noise(5000, 3),
       "it is an ELF binary"},
      {"#!/bin/sh\nexit 0\n", "it is a script"},
      {"\x1f\x8b" + noise(300, 3), "it is a gzip file"},
      {std::string("PK\x03\x04") + noise(300, 3), "it is a zip archive"},
      {noise(20000, 9), "it is a binary file"},
      {std::string(8192, '\0'), "it is a file of zeros"},
      {std::string("SQLite format 3\0", 16), "it is an SQLite database"},
  };
}

// A program that is killed, so that what SQLite had beside its database stays: a "-wal", or a hot "-journal".
inline void leave_behind(const std::string& path, const std::string& sql) {
  exit_code(spawn([&] {
    sqlite3* db = nullptr;
    sqlite3_open(path.c_str(), &db);
    sqlite3_exec(db, "PRAGMA cache_size=1; PRAGMA synchronous=OFF", nullptr, nullptr, nullptr);
    sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    kill(getpid(), SIGKILL);
    return 0;
  }));
  chmod(path.c_str(), 0600);
}

inline const std::string kMail = "CREATE TABLE mail(body TEXT); INSERT INTO mail VALUES(hex(randomblob(20000)));";

}  // namespace gqa::cache
