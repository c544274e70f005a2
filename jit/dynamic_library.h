// dynamic_library.h: a shared library loaded at run time.
// Owns: the dlopen handle and symbol look-up.
// Never: searches (nvrtc.cc and runtime/cuda/driver/driver.cc do), or unloads, which no driver survives.
// Threads: symbol() from any thread.
#pragma once

#include <memory>
#include <string>

namespace gqa {

class DynamicLibrary {
 public:
  // Null if it cannot be loaded; *why then says so in the loader's words.
  static std::unique_ptr<DynamicLibrary> open(const std::string& path, std::string* why);

  void* symbol(const char* name) const;
  // The file it was loaded from, as the loader tells.
  std::string path(void* symbol_in_it) const;

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// The folder of the library (or program) that holds this code.
std::string own_folder();

}  // namespace gqa
