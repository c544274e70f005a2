// page_pool.cc: see page_pool.h.
#include "runtime/pages/page_pool.h"

#include <string>

namespace gqa {

std::int64_t PagePool::add() {
  const std::lock_guard lock(mutex_);
  return numbers_.add();
}

Status PagePool::share(std::int64_t sequence, std::int64_t tokens, std::int64_t* copy) {
  const std::lock_guard lock(mutex_);
  return numbers_.share(sequence, tokens, copy);
}

Status PagePool::append(std::span<const std::int64_t> sequences, const std::int32_t* tokens, void* stream,
                        std::int64_t most) {
  const std::lock_guard lock(mutex_);
  if (Status status = numbers_.append(sequences, tokens, &growths_, most); !status.ok()) return status;
  Status status = copy_shared(stream);
  if (!status.ok()) numbers_.undo(growths_);
  return status;
}

// What a capture holds happens at each replay, when the pages are others' perhaps.
Status PagePool::copy_shared(void* stream) const {
  bool asked = false;
  for (const PageGrowth& growth : growths_) {
    if (growth.shared < 0) continue;
    bool captured = false;
    if (Status status = asked ? Status() : device_.capturing(stream, &captured); !status.ok()) return status;
    if (captured)
      return {Code::kCapturing, "sequence " + std::to_string(growth.sequence) +
                                    " needs a copy of a shared page, and the stream is being captured: append before "
                                    "the capture begins, or on another stream"};
    asked = true;
    if (Status status = memory_.copy(growth.shared, growth.own, stream); !status.ok()) return status;
  }
  return {};
}

Status PagePool::truncate(std::int64_t sequence, std::int64_t tokens) {
  const std::lock_guard lock(mutex_);
  return numbers_.truncate(sequence, tokens);
}

Status PagePool::free(std::span<const std::int64_t> sequences) {
  const std::lock_guard lock(mutex_);
  return numbers_.free(sequences);
}

Status PagePool::tokens(std::int64_t sequence, std::int64_t* tokens) {
  const std::lock_guard lock(mutex_);
  return numbers_.tokens(sequence, tokens);
}

Status PagePool::table(std::span<const std::int64_t> sequences, std::int64_t columns, std::int32_t* table,
                       std::int32_t* tokens) {
  const std::lock_guard lock(mutex_);
  return numbers_.table(sequences, columns, table, tokens);
}

std::int32_t PagePool::free_pages() {
  const std::lock_guard lock(mutex_);
  return numbers_.free_pages();
}

}  // namespace gqa
