// operation_case.h: what the kernels that serve all shapes are held against: calls made on the host, with what each
// must leave behind. Owns: OperationCase, the cases of each operation, how they are judged; TrialMemory, what that asks
// of a device. Never: launches by itself or owns device memory; trials do. Threads: a case belongs to one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/effort.h"
#include "runtime/program.h"
#include "runtime/verify/judgement.h"

namespace gqa {

inline std::size_t nth(std::int64_t number) { return static_cast<std::size_t>(number); }

// Where a case lies on a device.
class TrialMemory {
 public:
  virtual ~TrialMemory() = default;
  // A copy of so many bytes, good until the memory goes. `what`: for messages.
  virtual Status put(const char* what, const void* from, std::size_t bytes, void** at) = 0;
  // Once all that is queued is done.
  virtual Status get(const void* at, std::size_t bytes, void* to) = 0;
  virtual void* stream() const { return nullptr; }  // CUstream
};
using MakeMemory = std::function<std::unique_ptr<TrialMemory>()>;

template <typename Number>
Status put(const char* what, const std::vector<Number>& numbers, TrialMemory* memory, void** at) {
  return memory->put(what, numbers.data(), numbers.size() * sizeof(Number), at);
}
template <typename Number>
Status get(const void* at, std::size_t count, TrialMemory* memory, std::vector<Number>* numbers) {
  numbers->resize(count);
  return memory->get(at, count * sizeof(Number), numbers->data());
}

class OperationCase {
 public:
  virtual ~OperationCase() = default;
  virtual std::string inputs() const = 0;  // in words
  // Its tensors on the device, where the memory must outlive what is launched.
  virtual Status place(TrialMemory* memory) = 0;
  virtual Status launch(const LoadedProgram& program) const = 0;
  // Launches it, once it is placed, and reads what that left.
  virtual Status run(const LoadedProgram& program, TrialMemory* memory) = 0;
  virtual std::vector<Measured> measured() const = 0;
};

std::size_t case_count(Operation operation);
std::unique_ptr<OperationCase> make_case(Operation operation, std::size_t number);

// One case, placed, run and judged.
Verdict verify(OperationCase* one, const LoadedProgram& program, TrialMemory* memory);
// All of them, each in memory of its own.
Verdict verify(Operation operation, const LoadedProgram& program, const Effort& effort, const MakeMemory& make_memory);

}  // namespace gqa
