// kernel_store.cc: see kernel_store.h.
#include "tests/simt/emulator/kernel_store.h"

#include <xxhash.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/runtime/temporary_folder.h"
#include "tests/simt/emulator/rewrite.h"

namespace gqa::simt {
namespace {

constexpr const char* kFirstHeader = "cuda_on_cpu.h";

// Language and warnings as NVRTC has them; checks that trap, since a GPU faults on misaligned vectors and reads other
// memory past an array's end; calls before every access to memory, which access_hooks.cc answers.
constexpr const char* kOptions =
    "-std=c++17 -O1 -c -fPIC -w -fno-strict-aliasing -fno-exceptions -fno-threadsafe-statics -ffp-contract=off "
    "-fvisibility=hidden -fsanitize=alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero,thread "
    "-fsanitize-undefined-trap-on-error -D__CUDA_ARCH__=900";

std::string text_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void write(const test::TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
  std::ofstream(folder.file(name)) << text;
}

// A text and all that it includes by quoted names, out of the device headers and the emulator's.
class Closure {
 public:
  explicit Closure(const std::vector<EmbeddedHeader>& headers) {
    for (const EmbeddedHeader& header : headers) texts_[header.name] = &header.text;
  }

  void add(const std::string& text) {
    whole_ += text + '\0';
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t include = line.find("#include \""), name = include + 10;
      if (include == line.npos || line.find('"', name) == line.npos) continue;
      add_header(line.substr(name, line.find('"', name) - name));
    }
  }

  void add_header(const std::string& name) {
    if (!seen_.insert(name).second) return;
    whole_ += name + '\0';
    const auto embedded = texts_.find(name);
    add(embedded != texts_.end() ? *embedded->second : text_of(std::filesystem::path(GQA_SIMT_DIR) / name));
  }

  const std::string& whole() const { return whole_; }

 private:
  std::map<std::string, const std::string*> texts_;
  std::set<std::string> seen_;
  std::string whole_;
};

std::string quoted(const std::string& text) { return "'" + text + "'"; }

bool compile(const test::TemporaryFolder& folder, std::string* why) {
  const std::string compiler = quoted(GQA_SIMT_COMPILER) + " ", log = folder.file("log");
  const std::string object = compiler + kOptions + " -I " + quoted(folder.file("")) + " -I " + quoted(GQA_SIMT_DIR) +
                             " -include " + kFirstHeader + " -o " + quoted(folder.file("kernel.o")) + " " +
                             quoted(folder.file("kernel.cc"));
  // Linked without the sanitizers: their libraries stay out.
  const std::string link = compiler + "-shared -o " + quoted(folder.file("kernel.so")) + " " +
                           quoted(folder.file("kernel.o")) + " " + quoted(GQA_SIMT_HOOKS_OBJECT);
  if (std::system(("(" + object + " && " + link + ") > " + quoted(log) + " 2>&1").c_str()) == 0) return true;
  *why = "the host's compiler refuses the kernel:\n" + text_of(log).substr(0, 4000);
  return false;
}

}  // namespace

bool compiler_works() {
  static const bool works = std::system((quoted(GQA_SIMT_COMPILER) + " --version > /dev/null 2>&1").c_str()) == 0;
  return works;
}

std::string kernel_digest(const std::string& text, const std::vector<EmbeddedHeader>& headers) {
  Closure closure(headers);
  closure.add(std::string(__VERSION__ " ") + kOptions);
  closure.add(text_of(GQA_SIMT_DIR "/access_hooks.cc"));
  closure.add_header(kFirstHeader);
  closure.add(text);
  const XXH128_hash_t hash = XXH3_128bits(closure.whole().data(), closure.whole().size());
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return digits;
}

std::string library_of(const std::string& text, const std::vector<EmbeddedHeader>& headers, std::string* why) {
  const std::filesystem::path store(GQA_SIMT_KERNELS);
  const std::filesystem::path library = store / (kernel_digest(text, headers) + ".so");
  std::error_code error;
  if (std::filesystem::exists(library, error)) return library;
  std::filesystem::create_directories(store, error);
  const test::TemporaryFolder folder(store);
  for (const EmbeddedHeader& header : headers) write(folder, header.name, rewrite(header.text));
  write(folder, "kernel.cc", text);
  if (!compile(folder, why)) return {};
  std::filesystem::rename(folder.file("kernel.so"), library, error);
  if (!error) return library;
  *why = "cannot keep " + library.string() + ": " + error.message();
  return {};
}

}  // namespace gqa::simt
