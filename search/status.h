// status.h: how a step that can fail says so, inside the library.
// Owns: Status, a code and a message (what was given, what was expected, what to do).
// Never: throws, prints. The numbers are gqa.h's gqa_status numbers; runtime/api/gqa.cc checks that they agree.
// Threads: a value.
#pragma once

#include <string>
#include <utility>

namespace gqa {

enum class Code : int {
  kOk = 0,
  kNullArgument = 1,
  kStructSize = 2,
  kRank = 3,
  kDtype = 4,
  kDevice = 5,
  kShape = 6,
  kSize = 7,
  kHeadDim = 8,
  kHeads = 9,
  kStride = 10,
  kAlignment = 11,
  kAlias = 12,
  kOption = 13,
  kNoDevice = 20,
  kNoCompiler = 21,
  kNotCached = 22,
  kCapturing = 23,
  kNoCandidate = 24,
  kOutOfMemory = 25,
  kDeviceFailed = 26,
  kInternal = 27,
  kCancelled = 28,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

}  // namespace gqa
