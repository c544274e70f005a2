// golden_version.h: numbers that somebody raises on purpose, each held against a hash of what it stands for.
// Owns: a file of lines "name version hash", and saying which number is to be raised, or that the line is to be
// written.
// Never: writes a line whose number was not raised.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace gqa {

class GoldenVersions {
 public:
  explicit GoldenVersions(std::string path) : path_(std::move(path)) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string name;
      Line read;
      if (words >> name >> read.version >> read.hash) lines_[name] = read;
    }
  }

  // `number`: where the version is written down.
  void expect(const std::string& name, int version, const std::string& hash, const std::string& number) {
    const auto at = lines_.find(name);
    const int held = at == lines_.end() ? 0 : at->second.version;
    if (version == held) {
      EXPECT_EQ(at->second.hash, hash) << "what " << number << " stands for has changed (" << name << "): raise it to "
                                       << version + 1 << ", so that what was tuned under " << version
                                       << " is tuned anew. Where times and machine code are the same,"
                                       << " as after a renaming, delete the line " << name << " of " << path_
                                       << " instead. Then write the new line: " << how_to_write();
    } else if (version < held) {
      ADD_FAILURE() << number << " is " << version << " and was " << held << " (" << path_ << "): it only ever rises";
    } else if (std::getenv("GQA_UPDATE_GOLDEN") == nullptr) {
      ADD_FAILURE() << path_ << " has no line for " << name << " of version " << version
                    << ". Write it: " << how_to_write();
    } else {
      lines_[name] = {version, hash};
      write();
    }
  }

 private:
  struct Line {
    int version = 0;
    std::string hash;
  };

  static std::string how_to_write() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return std::string("GQA_UPDATE_GOLDEN=1 and --gtest_filter=") + test->test_suite_name() + "." + test->name();
  }

  void write() const {
    std::ofstream file(path_);
    for (const auto& [name, line] : lines_) file << name << " " << line.version << " " << line.hash << "\n";
  }

  const std::string path_;
  std::map<std::string, Line> lines_;
};

}  // namespace gqa
