// key.cc: how kernels and winners are named, and where the file lies when nobody says.
// Owns: kernel_key, WinnerKey's text and digest, WinnerRow::id, Store::default_path and Store::expanded.
// Never: touches the file.
// Threads: pure, apart from reading the environment.
#include <unistd.h>

#include <cstdlib>

#include "cache/layer_paths.h"
#include "cache/rows.h"
#include "cache/store.h"

namespace gqa::cache {
namespace {

// "" when unset: an empty variable means the same as none.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Rows of several compilers differ in this alone.
std::string compiler_digits(std::string_view compiler) { return hash128(compiler).substr(0, kIdDigits - kKeyDigits); }

}  // namespace

std::string WinnerKey::text() const {
  std::string text;
  for (const std::string* part : {&signature, &device, &search}) text += *part + '\n';
  return text;
}

std::string WinnerKey::digest() const { return hash128(text()); }

std::string WinnerRow::id() const { return key.digest() + compiler_digits(compiler); }

std::string kernel_key(std::string_view closure, std::string_view arch, std::string_view compiler) {
  // The length first: no two pairs run together to the same bytes.
  std::string made = std::to_string(closure.size()) + ":";
  made.append(closure).append(arch);
  return hash128(made) + compiler_digits(compiler);
}

std::string Store::default_path() {
  if (environment("GQA_CACHE").find_first_not_of(':') != std::string::npos) return layer_paths("").front();
  // The XDG rule: a relative path there is invalid and ignored.
  if (const std::string base = environment("XDG_CACHE_HOME"); base.starts_with('/')) return base + "/gqa/cache.db";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.cache/gqa/cache.db";
  return "/tmp/gqa-" + std::to_string(geteuid()) + "/cache.db";
}

std::string Store::expanded(const std::string& path) {
  const std::string home = environment("HOME");
  if (home.empty() || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

}  // namespace gqa::cache
