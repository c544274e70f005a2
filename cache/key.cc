// key.cc: how a winner is named, and where the file lies when nobody says.
// Owns: WinnerKey's text and digest, Store::default_path. Never: touches the file.
// Threads: pure, apart from reading the environment.
#include <unistd.h>

#include <cstdlib>

#include "cache/store.h"

namespace gqa::cache {
namespace {

// "" when unset: an empty variable means the same as none.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string WinnerKey::text() const {
  std::string text;
  for (const std::string* part : {&signature, &device, &compiler, &generator, &timing}) text += *part + '\n';
  return text;
}

std::string WinnerKey::digest() const { return hash128(text()); }

std::string Store::default_path() {
  if (const std::string path = environment("GQA_CACHE"); !path.empty()) return path;
  // The XDG rule: a relative path there is invalid and ignored.
  if (const std::string base = environment("XDG_CACHE_HOME"); base.starts_with('/')) return base + "/gqa/cache.db";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.cache/gqa/cache.db";
  return "/tmp/gqa-" + std::to_string(geteuid()) + "/cache.db";
}

}  // namespace gqa::cache
