// status.h: how a step that can fail says so, inside the library.
// Owns: Status, a code and a message (what was given, what was expected, what to do).
// Never: throws, prints. The numbers are gqa.h's gqa_status numbers; runtime/api/gqa.cc checks that they agree.
// Threads: a value.
#pragma once

#include <memory>
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

// A pointer: success, which a hot path returns dozens of times, costs nothing but a null.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : failure_(code == Code::kOk ? nullptr : std::make_unique<Failure>(Failure{code, std::move(message)})) {}
  Status(const Status& other) : failure_(copy(other)) {}
  Status& operator=(const Status& other) {
    if (this != &other) failure_ = copy(other);
    return *this;
  }
  Status(Status&&) = default;
  Status& operator=(Status&&) = default;
  ~Status() = default;

  bool ok() const { return failure_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : failure_->code; }
  const std::string& message() const {
    static const std::string none;
    return ok() ? none : failure_->message;
  }

 private:
  struct Failure {
    Code code;
    std::string message;
  };
  static std::unique_ptr<Failure> copy(const Status& other) {
    return other.ok() ? nullptr : std::make_unique<Failure>(*other.failure_);
  }
  std::unique_ptr<Failure> failure_;
};

}  // namespace gqa
