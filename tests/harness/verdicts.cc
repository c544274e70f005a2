// verdicts.cc: see verdicts.h.
#include "tests/harness/verdicts.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace gqa::test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::string digest_of(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return digits;
}

// ---- what decides a test's verdicts beside their subjects

// Files of the source tree: a text, the headers that it includes by quoted names, directly or through others, and the
// code behind each. What makes kernels' text has its headers only: the text itself is in the subject.
class SourceFiles {
 public:
  void add_with_includes(const fs::path& file) {
    if (!files_.insert(file).second) return;
    std::istringstream lines(text_of(root() / file));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t include = line.find("#include \""), name = include + 10;
      if (include == line.npos || line.find('"', name) == line.npos) continue;
      add_header(file.parent_path(), line.substr(name, line.find('"', name) - name));
    }
  }

  void add_folder(const fs::path& folder) {
    for (const auto& entry : fs::recursive_directory_iterator(root() / folder))
      if (const std::string kind = entry.path().extension(); kind == ".h" || kind == ".cc")
        files_.insert(entry.path().lexically_relative(root()));
  }

  std::string text() const {
    std::string all;
    for (const fs::path& file : files_) all += file.string() + '\0' + text_of(root() / file) + '\0';
    return all;
  }

  static fs::path root() { return GQA_SOURCE_DIR; }

 private:
  void add_header(const fs::path& beside, const std::string& name) {
    for (const fs::path& folder : {beside, fs::path(), fs::path("runtime/api"), fs::path("jit/device")}) {
      const fs::path header = (folder / name).lexically_normal();
      if (!fs::is_regular_file(root() / header)) continue;
      add_with_includes(header);
      const fs::path code = fs::path(header).replace_extension(".cc");
      if (*header.begin() != "jit" && fs::is_regular_file(root() / code)) files_.insert(code);
      return;
    }
  }

  std::set<fs::path> files_;
};

// As compilers name a file, from the root of the tree.
fs::path in_tree(const std::string& file) {
  for (std::size_t at = file.find("tests/"); at != file.npos; at = file.find("tests/", at + 1))
    if (fs::is_regular_file(SourceFiles::root() / file.substr(at))) return file.substr(at);
  return {};
}

const std::string& digest_of_test_file(const std::string& file) {
  static std::map<std::string, std::string> digests;
  std::string& digest = digests[file];
  if (!digest.empty()) return digest;
  SourceFiles files;
  const fs::path test = in_tree(file);
  EXPECT_FALSE(test.empty()) << file << " is not in " << SourceFiles::root();
  files.add_with_includes(test);
  for (const char* folder : {"tests/simt/emulator", "runtime/verify", "runtime/cuda/launch", "search/families"})
    files.add_folder(folder);
  return digest = digest_of(files.text());
}

// ---- the lists

// Empty where GQA_VERDICTS names none.
const std::map<std::string, std::string>& listed() {
  static const std::map<std::string, std::string> list = [] {
    std::map<std::string, std::string> read;
    const char* const path = std::getenv("GQA_VERDICTS");
    std::ifstream file(path != nullptr ? path : "");
    for (std::string name, digest; file >> name >> digest;) read[name] = digest;
    return read;
  }();
  return list;
}

// Writes what a suite's tests asked for, but for those that failed.
class Seen : public ::testing::EmptyTestEventListener {
 public:
  static Seen& the() {
    static Seen* const seen = [] {
      auto* made = new Seen;  // GoogleTest owns it
      ::testing::UnitTest::GetInstance()->listeners().Append(made);
      return made;
    }();
    return *seen;
  }

  int count() { return ++count_; }
  void add(const std::string& name, const std::string& digest) { of_test_[name] = digest; }

  void OnTestStart(const ::testing::TestInfo&) override {
    of_test_.clear();
    count_ = 0;
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (test.result()->Passed()) of_suite_.insert(of_test_.begin(), of_test_.end());
  }
  void OnTestSuiteEnd(const ::testing::TestSuite& suite) override {
    const char* const folder = std::getenv("GQA_VERDICTS_SEEN");
    if (folder != nullptr && !of_suite_.empty()) {
      std::string name = suite.name();
      std::replace(name.begin(), name.end(), '/', '.');
      std::ofstream file(fs::path(folder) / name);
      for (const auto& [verdict, digest] : of_suite_) file << verdict << ' ' << digest << '\n';
    }
    of_suite_.clear();
  }

 private:
  std::map<std::string, std::string> of_test_, of_suite_;
  int count_ = 0;
};

[[maybe_unused]] const Seen& kListensFromTheStart = Seen::the();

const ::testing::TestInfo& this_test() { return *::testing::UnitTest::GetInstance()->current_test_info(); }

std::string name_of(const std::string& name) {
  std::string whole = std::string(this_test().test_suite_name()) + '.' + this_test().name();
  if (!name.empty()) whole += '#' + name;
  std::replace(whole.begin(), whole.end(), ' ', '_');
  return whole;
}

bool is_listed(const std::string& name, const std::string& digest) {
  const auto found = listed().find(name);
  return found != listed().end() && found->second == digest;
}

std::string digest_for(const std::string& subject, const std::string& outcome) {
  return digest_of(digest_of_test_file(this_test().file()) + '\0' + subject + '\0' + outcome);
}

}  // namespace

bool listed_right(const std::string& subject, const std::string& name) {
  return is_listed(name_of(name), digest_for(subject, "right"));
}

::testing::AssertionResult verdict(const std::string& subject, const std::function<::testing::AssertionResult()>& judge,
                                   const std::string& says, const std::string& name) {
  const int count = Seen::the().count();
  const std::string called = name_of(name.empty() && count > 1 ? std::to_string(count) : name);
  const std::string right = digest_for(subject, "right"), wrong = digest_for(subject, "wrong" + says);
  if (is_listed(called, right)) {
    Seen::the().add(called, right);
    return ::testing::AssertionSuccess();
  }
  if (is_listed(called, wrong)) {
    Seen::the().add(called, wrong);
    return ::testing::AssertionFailure() << says << " (so it was listed)";
  }
  ::testing::AssertionResult result = judge();
  if (result)
    Seen::the().add(called, right);
  else if (std::string(result.message()).find(says) != std::string::npos)
    Seen::the().add(called, wrong);
  return result;
}

::testing::AssertionResult no_failure_of(const std::function<void()>& judge) {
  const bool failed = ::testing::Test::HasFailure();
  judge();
  if (!failed && ::testing::Test::HasFailure()) return ::testing::AssertionFailure() << "see above";
  return ::testing::AssertionSuccess();
}

}  // namespace gqa::test
