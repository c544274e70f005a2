// database.h: SQLite with C++ lifetimes.
// Owns: one connection, its prepared statements (made once, reused), transactions, and what an error code means to us.
// Never: knows a table, decides what to do about an error, or outlives its maker's lock.
// Threads: one thread at a time; file.h holds the mutex.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace gqa::cache {

// What an SQLite result asks of us.
enum class Fault {
  kDamaged,   // the file's content is not what we wrote: set it aside
  kReadOnly,  // cannot be written
  kFull,      // no space, a size limit, or the device failed
  kBusy,      // somebody else held it for too long
  kOther,     // anything else: report it
};

class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& what) : std::runtime_error(what), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

inline constexpr int kBusyMilliseconds = 5000;  // how long a statement waits for another process's

// One value of a row. kNull never appears in what we write; a damaged record may hold it.
struct Bytes {
  std::string data;  // a BLOB, where std::string is TEXT
};
using Cell = std::variant<std::monostate, std::int64_t, double, std::string, Bytes>;
using Cells = std::vector<Cell>;

// A prepared statement borrowed from its connection: reset when it goes.
class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(const Cell& value);  // the next parameter
  Statement& bind_all(const Cells& values);
  bool step();  // true: a row is there
  void run();   // steps to the end

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const;
  Cell cell(int column) const;
  Cells cells() const;

 private:
  sqlite3* db_;
  sqlite3_stmt* statement_;
  int bound_ = 0;
};

class Database {
 public:
  enum class Open {
    kReadWrite,  // a file that is there: guard.h makes it
    kReadOnly,   // may take part in WAL
    kImmutable,  // no locks, no WAL: for media that cannot change
  };
  // Touches nothing but the file itself, and reads only its header: what lies beside it waits for the first statement.
  // No link is followed; resolve the path first (guard.h).
  Database(const std::string& path, Open how);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Statement prepare(std::string_view sql);  // cached by its text
  void execute(const char* sql);            // once; for PRAGMA and DDL
  std::int64_t integer(const char* sql);    // the first column of the first row, 0 if there is none
  int changes() const { return sqlite3_changes(db_); }
  void set_busy_timeout(int milliseconds) { sqlite3_busy_timeout(db_, milliseconds); }
  bool read_only() const { return sqlite3_db_readonly(db_, "main") == 1; }

  // The first bytes of the file, at most so many, as they lie there: no statement has to run for it. They are read
  // through SQLite's own descriptor: it is the file that will be used whatever its name leads to by now, and closing
  // another descriptor of the same file would drop this process's POSIX locks on it.
  std::string read(std::size_t most) const;

  std::string path() const { return sqlite3_db_filename(db_, "main"); }

  // The file no longer lies under its name: closing must neither checkpoint nor remove "-wal", which is another's now.
  void forget_path();
  // After fork(): a child may not even close what its parent opened. The handle is leaked on purpose.
  void abandon() { db_ = nullptr; }

 private:
  sqlite3* db_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
};

// BEGIN IMMEDIATE, so that a writer waits at its start and never deadlocks on an upgrade; rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& db, const char* begin = "BEGIN IMMEDIATE");
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& db_;
  bool open_ = true;
};

}  // namespace gqa::cache
