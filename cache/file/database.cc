// database.cc: the only place that calls SQLite.
// Owns: see database.h.
// Never: swallows an error, except where a rollback or a close could not do better.
// Threads: see database.h.
#include "cache/file/database.h"

#include <algorithm>

namespace gqa::cache {
namespace {

Fault meaning(int code) {
  if (code == SQLITE_IOERR_CORRUPTFS) return Fault::kDamaged;
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_TOOBIG:  // only a damaged length asks for more than SQLite's limit
      return Fault::kDamaged;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return Fault::kReadOnly;
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return Fault::kFull;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Fault::kBusy;
    default:
      return Fault::kOther;
  }
}

[[noreturn]] void fail(sqlite3* db, int code) {
  const int extended = db ? sqlite3_extended_errcode(db) : code;
  const bool same = (extended & 0xff) == (code & 0xff);
  std::string what = db && same ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  throw Error(meaning(same ? extended : code), what + " (SQLite " + std::to_string(same ? extended : code) + ")");
}

void check(sqlite3* db, int code) {
  if (code != SQLITE_OK) fail(db, code);
}

// As a URI, so that immutable can be said; the three characters that mean something in one are escaped.
std::string uri(const std::string& path, bool immutable) {
  std::string text = "file:";
  for (const char c : path) {
    if (c == '%')
      text += "%25";
    else if (c == '?')
      text += "%3f";
    else if (c == '#')
      text += "%23";
    else
      text += c;
  }
  return immutable ? text + "?immutable=1" : text;
}

int flags(Database::Open how) {
  // NOMUTEX: file.h's mutex is the only one needed.
  const int common = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW;
  if (how == Database::Open::kReadWrite) return common | SQLITE_OPEN_READWRITE;
  return common | SQLITE_OPEN_READONLY;
}

}  // namespace

Statement::~Statement() {
  sqlite3_reset(statement_);  // its error was thrown by step() already
  sqlite3_clear_bindings(statement_);
}

Statement& Statement::bind(const Cell& value) {
  const int at = ++bound_;
  int code = SQLITE_MISUSE;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    code = sqlite3_bind_int64(statement_, at, *integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    code = sqlite3_bind_double(statement_, at, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    code = sqlite3_bind_text64(statement_, at, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  } else if (const auto* bytes = std::get_if<Bytes>(&value)) {
    // An empty std::string has a non-null data(), so an empty BLOB stays a BLOB and does not become NULL.
    code = sqlite3_bind_blob64(statement_, at, bytes->data.data(), bytes->data.size(), SQLITE_TRANSIENT);
  } else {
    code = sqlite3_bind_null(statement_, at);
  }
  check(db_, code);
  return *this;
}

Statement& Statement::bind_all(const Cells& values) {
  for (const Cell& value : values) bind(value);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail(db_, code);
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return data ? std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))) : std::string();
}

Cell Statement::cell(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement_, column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement_, column);
    case SQLITE_TEXT:
      return text(column);
    case SQLITE_BLOB: {
      const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
      return Bytes{data ? std::string(data, size) : std::string()};
    }
    default:
      return std::monostate{};
  }
}

Cells Statement::cells() const {
  Cells all;
  const int count = sqlite3_column_count(statement_);
  all.reserve(static_cast<std::size_t>(count));
  for (int column = 0; column < count; ++column) all.push_back(cell(column));
  return all;
}

Database::Database(const std::string& path, Open how) {
  const int code = sqlite3_open_v2(uri(path, how == Open::kImmutable).c_str(), &db_, flags(how), nullptr);
  if (code != SQLITE_OK) {
    const std::string what = sqlite3_errstr(code);
    sqlite3_close(db_);
    throw Error(meaning(code), what + " (SQLite " + std::to_string(code) + ")");
  }
  sqlite3_busy_timeout(db_, kBusyMilliseconds);
  // The file may be damaged or hostile: no views or triggers of its own, and b-tree cells checked as they are read.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_exec(db_, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", nullptr, nullptr, nullptr);
}

Database::~Database() {
  if (!db_) return;
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

Statement Database::prepare(std::string_view sql) {
  auto [at, fresh] = statements_.try_emplace(std::string(sql), nullptr);
  if (fresh) {
    const int code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                        &at->second, nullptr);
    if (code != SQLITE_OK) {
      statements_.erase(at);
      fail(db_, code);
    }
  }
  return {db_, at->second};
}

void Database::execute(const char* sql) { check(db_, sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }

std::int64_t Database::integer(const char* sql) {
  Statement statement = prepare(sql);
  return statement.step() ? statement.integer(0) : 0;
}

std::string Database::read(std::size_t most) const {
  sqlite3_file* file = nullptr;
  check(db_, sqlite3_file_control(db_, "main", SQLITE_FCNTL_FILE_POINTER, &file));
  sqlite3_int64 size = 0;
  check(nullptr, file->pMethods->xFileSize(file, &size));
  std::string bytes(most, '\0');
  const int code = file->pMethods->xRead(file, bytes.data(), static_cast<int>(most), 0);
  if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) check(nullptr, code);
  // A file of the kernel's may say that it has no bytes and give some; SQLite fills up with zeros.
  const std::size_t end = size > 0 ? static_cast<std::size_t>(size) : bytes.find_last_not_of('\0') + 1;
  bytes.resize(std::min(most, end));
  return bytes;
}

void Database::forget_path() { sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr); }

Transaction::Transaction(Database& db, const char* begin) : db_(db) { db_.prepare(begin).run(); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    db_.prepare("ROLLBACK").run();
  } catch (const Error&) {
    // SQLite rolls back by itself on the errors that matter (full, I/O); then there is nothing left to do.
  }
}

void Transaction::commit() {
  db_.prepare("COMMIT").run();
  open_ = false;
}

}  // namespace gqa::cache
