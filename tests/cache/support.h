// support.h: what the cache's tests share.
// Owns: a folder that goes away, sample rows, raw access to a cache file behind the store's back, child processes.
// Never: knows what a test is about.
// Threads: none; fork() only while there are none.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "cache/store.h"

namespace gqa::cache {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gqa-cache-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name = "cache.db") const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::unique_ptr<Store> open_store(const std::string& path, Mode mode = Mode::kReadWrite, double lease = 10) {
  return Store::open({path, mode, lease});
}

inline std::string noise(std::size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return bytes;
}

inline constexpr const char* kCompiler = "nvrtc 13.0";  // of the sample rows

inline KernelRow sample_kernel(const std::string& name, std::size_t cubin_bytes = 3000) {
  KernelRow row;
  row.key = hash128(name);
  row.closure = hash128("closure of " + name);
  row.arch = "sm_90a";
  row.compiler = kCompiler;
  row.family = "warpgroup";
  row.abi = 3;
  row.launch = "grid tiles threads 384 " + name;
  row.problem = "problem of " + name;
  row.candidate = "tile 128x128 " + name;
  row.source = "// source of " + name + std::string(500, 'x');
  row.ptx = ".version 8.0 // " + name;
  row.cubin = noise(cubin_bytes, static_cast<unsigned>(name.size() * 7 + static_cast<unsigned char>(name.back())));
  row.registers = 168;
  row.spill_bytes = 4;
  row.static_smem = 1024;
  return row;
}

inline WinnerKey sample_key(const std::string& name) {
  return {"b=1,hq=32 " + name, "sm_90a 132", "search 1, graph replay"};
}

inline WinnerRow sample_winner(const std::string& name, double median_us = 12.5) {
  WinnerRow row;
  row.key = sample_key(name);
  row.compiler = kCompiler;
  row.families = "warpgroup=3";
  row.kernel = hash128(name);
  row.candidate = "tile 128x128 splits 1 " + name;
  row.median_us = median_us;
  row.spread_us = 0.25;
  row.clock_mhz = 1980;
  row.error = 0.001;
  row.bound = 0.002;
  row.driver = "580.1";
  row.evidence = "{\"attempts\": [\"" + name + "\"]}";
  return row;
}

// Both rows, as a session puts them.
inline bool put_both(Store& store, const std::string& name, double median_us = 12.5) {
  return store.put_kernel(sample_kernel(name)) && store.put_winner(sample_winner(name, median_us));
}

inline std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  chmod(path.c_str(), 0600);
}

// Runs SQL on a file no store has open; the first value of the first row.
inline std::string raw_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  std::string answer;
  EXPECT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  const auto take = [](void* to, int, char** values, char**) {
    if (static_cast<std::string*>(to)->empty() && values[0]) *static_cast<std::string*>(to) = values[0];
    return 0;
  };
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), take, &answer, &error), SQLITE_OK) << (error ? error : "");
  sqlite3_free(error);
  sqlite3_close(db);
  return answer;
}

inline std::vector<std::string> files_in(const std::string& folder, const std::string& part) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (contains(entry.path().filename().string(), part)) found.push_back(entry.path().string());
  }
  return found;
}

// Files that were set aside, without what lies beside them.
inline std::vector<std::string> set_aside_in(const std::string& folder) {
  std::vector<std::string> found = files_in(folder, ".damaged-");
  std::erase_if(found, [](const std::string& file) { return file.ends_with("-wal") || file.ends_with("-shm"); });
  return found;
}

// A child that runs `body` and exits with its value. Always reaped or killed by whoever starts it.
inline pid_t spawn(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

inline int exit_code(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline void kill_and_reap(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace gqa::cache
