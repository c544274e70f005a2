// kernel.cc: see kernel.h.
#include "tests/simt/kernel.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/simt/rewrite.h"

namespace gqa::simt {
namespace {

// Language and warnings as NVRTC has them; checks that trap, since a GPU faults on misaligned vectors and reads other
// memory past an array's end; calls before every access to memory, which access_hooks.cc answers.
constexpr const char* kOptions =
    "-std=c++17 -O1 -c -fPIC -w -fno-strict-aliasing -fno-exceptions -fno-threadsafe-statics -ffp-contract=off "
    "-fvisibility=hidden -fsanitize=alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero,thread "
    "-fsanitize-undefined-trap-on-error -D__CUDA_ARCH__=900";

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gqa-simt-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(file(name)) << text; }
  std::string read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(file(name)).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

std::string quoted(const std::string& text) { return "'" + text + "'"; }

// What the emulator needs of a kernel, behind its own text.
std::string binding_of(const std::string& entry) {
  return "\nextern \"C\" __attribute__((visibility(\"default\"))) const ::gqa::simt::Binding " + std::string(kBinding) +
         " = {&::gqa::simt::machine, &::gqa::simt::self, &::gqa::simt::shared_begin, &::gqa::simt::shared_bytes, "
         "&::gqa::simt::workspace_begin, &::gqa::simt::workspace_bytes, "
         "[](void** arguments) { ::gqa::simt::call(&" +
         entry + ", arguments); }};\n";
}

bool build(const TemporaryFolder& folder, std::string* why) {
  const std::string compiler = quoted(GQA_SIMT_COMPILER) + " ", emulator = quoted(GQA_SIMT_DIR),
                    log = folder.file("log");
  const std::string compile = compiler + kOptions + " -I " + quoted(folder.file("")) + " -I " + emulator +
                              " -include cuda_on_cpu.h -o " + quoted(folder.file("kernel.o")) + " " +
                              quoted(folder.file("kernel.cc"));
  // Linked without the sanitizers: their libraries stay out.
  const std::string link = compiler + "-std=c++17 -O1 -shared -fPIC -w -fvisibility=hidden -o " +
                           quoted(folder.file("kernel.so")) + " " + quoted(folder.file("kernel.o")) + " " +
                           quoted(std::string(GQA_SIMT_DIR) + "/access_hooks.cc");
  if (std::system(("(" + compile + " && " + link + ") > " + quoted(log) + " 2>&1").c_str()) == 0) return true;
  *why = "the host's compiler refuses the kernel:\n" + folder.read("log").substr(0, 4000);
  return false;
}

}  // namespace

const char* unavailable() {
#ifdef GQA_SIMT_SANITIZED
  return "emulated kernels run on fibers, which this sanitizer does not follow";
#else
  static const bool works = std::system((quoted(GQA_SIMT_COMPILER) + " --version > /dev/null 2>&1").c_str()) == 0;
  return works ? nullptr : "the compiler that built the tests, " GQA_SIMT_COMPILER ", is not here to compile kernels";
#endif
}

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> all = {{Order::kAscending, Copies::kLate, 1},
                                            {Order::kDescending, Copies::kEarly, 1},
                                            {Order::kRandom, Copies::kLate, 1}};
  return all;
}

const std::vector<Schedule>& cluster_schedules() {
  static const std::vector<Schedule> all = [] {
    std::vector<Schedule> made = schedules();
    made.push_back({Order::kDescending, Copies::kLate, 1});
    made.push_back({Order::kAscending, Copies::kEarly, 1});
    made.push_back({Order::kRandom, Copies::kEarly, 2});
    return made;
  }();
  return all;
}

std::unique_ptr<Kernel> Kernel::compile(const std::string& source, const std::string& entry, std::string* why,
                                        const std::vector<EmbeddedHeader>& headers) {
  const TemporaryFolder folder;
  for (const EmbeddedHeader& header : headers) folder.write(header.name, rewrite(header.text));
  folder.write("kernel.cc", rewrite(source) + binding_of(entry));
  if (!build(folder, why)) return nullptr;
  std::unique_ptr<Kernel> kernel(new Kernel);
  kernel->library_ = dlopen(folder.file("kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  const void* binding = kernel->library_ != nullptr ? dlsym(kernel->library_, kBinding) : nullptr;
  if (binding == nullptr) {
    const char* error = dlerror();
    *why = error != nullptr ? error : "the compiled kernel exports no binding";
    return nullptr;
  }
  kernel->binding_ = *static_cast<const Binding*>(binding);
  return kernel;
}

Kernel::~Kernel() {
  if (library_ != nullptr) dlclose(library_);
}

Status Kernel::launch(const Launch& launch, const Schedule& schedule) const {
  const Status status = Emulator(binding_, launch, schedule).run();
  if (!status.ok()) return status;
  const std::string damage = Buffer::damage_of_all();
  return damage.empty() ? Status() : Status{Code::kDeviceFailed, damage};
}

}  // namespace gqa::simt
