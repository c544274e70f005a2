// live_workspaces.cc: see live_workspaces.h.
#include "runtime/cuda/workspace/live_workspaces.h"

#include "runtime/cuda/driver/capture.h"

namespace gqa {
namespace {

constexpr int kChangingHands = -(1 << 30);  // added to a slot's pins

}  // namespace

void WorkspaceSlot::publish() {
  partials.store(memory.get().partials, std::memory_order_relaxed);
  first_counter.store(memory.get().counters, std::memory_order_relaxed);
  partial_floats.store(memory.partial_floats(), std::memory_order_release);
  counters.store(memory.counters(), std::memory_order_release);
}

void WorkspacePin::hold(const Driver& driver, CUstream stream, WorkspaceSlot* slot) {
  driver_ = &driver;
  stream_ = stream;
  slot_ = slot;
}

// A use that cannot be recorded keeps its slot for good: nobody would know when it is done.
void WorkspacePin::release() {
  if (driver_->cuEventRecord(slot_->last_use, stream_) == CUDA_SUCCESS)
    slot_->pins.fetch_sub(1, std::memory_order_release);
}

Status LiveWorkspaces::take(CUstream stream, std::uint64_t number, const LaunchPlan& plan, WorkspacePin* pin) {
  const WorkspaceSlot* slot = find(stream, number, pin);
  if (slot == nullptr || !slot->holds(plan)) return take_new(stream, number, plan, pin);
  pin->workspace = {slot->partials.load(std::memory_order_relaxed),
                    slot->first_counter.load(std::memory_order_relaxed)};
  return {};
}

// The stream's slot, pinned where it may change hands; null if it has none.
WorkspaceSlot* LiveWorkspaces::find(CUstream stream, std::uint64_t number, WorkspacePin* pin) {
  for (Block* block = first_.get(); block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    for (std::size_t at = 0; at < kBlock; ++at) {
      const std::uint64_t owner = block->streams[at].load(std::memory_order_acquire);
      if (owner == 0) return nullptr;
      if (owner != number) continue;
      WorkspaceSlot* const slot = &block->slots[at];
      if (block == first_.get() || pin->slot_ == slot) return slot;
      // Pinned first and looked at again after: who changes a slot's hands looks in the other order.
      const bool held = slot->pins.fetch_add(1, std::memory_order_acq_rel) >= 0;
      if (held && block->streams[at].load(std::memory_order_acquire) == number) {
        pin->hold(driver_, stream, slot);
        return slot;
      }
      slot->pins.fetch_sub(1, std::memory_order_release);
      return nullptr;
    }
  }
  return nullptr;
}

Status LiveWorkspaces::take_new(CUstream stream, std::uint64_t number, const LaunchPlan& plan, WorkspacePin* pin) {
  const std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed(driver_);
  WorkspaceSlot* slot = find(stream, number, pin);
  if (slot == nullptr)
    if (Status s = add(stream, number, pin, &slot); !s.ok()) return s;
  if (!slot->holds(plan)) {
    if (Status s = slot->memory.grow(driver_, stream, plan); !s.ok()) return s;
    slot->publish();
  }
  pin->workspace = slot->memory.get();
  return {};
}

// A slot for a stream that has none: one of the first block, one that is done, a new one.
Status LiveWorkspaces::add(CUstream stream, std::uint64_t number, WorkspacePin* pin, WorkspaceSlot** slot) {
  for (std::size_t at = 0; at < kBlock; ++at) {
    if (first_->streams[at].load(std::memory_order_relaxed) != 0) continue;
    first_->streams[at].store(number, std::memory_order_release);
    *slot = &first_->slots[at];
    return {};
  }
  Status status;
  Block* last = first_.get();
  for (const auto& block : late_) {
    last = block.get();
    status = take_over(last, stream, number, slot);
    if (!status.ok() || *slot != nullptr) break;
  }
  if (status.ok() && *slot == nullptr) status = add_late(extend(last), number, slot);
  if (status.ok()) pin->hold(driver_, stream, *slot);
  return status;
}

// Leaves *slot null where none of the block's is done.
Status LiveWorkspaces::take_over(Block* block, CUstream stream, std::uint64_t number, WorkspaceSlot** slot) const {
  for (std::size_t at = 0; at < kBlock && block->streams[at].load(std::memory_order_relaxed) != 0; ++at) {
    WorkspaceSlot& old = block->slots[at];
    int pins = 0;
    if (!old.pins.compare_exchange_strong(pins, kChangingHands, std::memory_order_acq_rel)) continue;
    const bool done = driver_.cuEventQuery(old.last_use) == CUDA_SUCCESS;
    if (done) old.memory.drop_outgrown();
    const Status zeroed = done ? old.memory.zero_counters(driver_, stream) : Status();
    const bool taken = done && zeroed.ok();
    if (taken) block->streams[at].store(number, std::memory_order_release);
    old.pins.fetch_add(taken ? 1 - kChangingHands : -kChangingHands, std::memory_order_acq_rel);
    if (taken) *slot = &old;
    if (taken || !zeroed.ok()) return zeroed;
  }
  return {};
}

// The block, or a new one after it where it is full or the one of streams that keep theirs.
LiveWorkspaces::Block* LiveWorkspaces::extend(Block* last) {
  if (last != first_.get() && last->streams.back().load(std::memory_order_relaxed) == 0) return last;
  Block* const fresh = late_.emplace_back(std::make_unique<Block>()).get();
  last->next.store(fresh, std::memory_order_release);
  return fresh;
}

Status LiveWorkspaces::add_late(Block* block, std::uint64_t number, WorkspaceSlot** slot) const {
  std::size_t at = 0;
  while (block->streams[at].load(std::memory_order_relaxed) != 0) ++at;
  WorkspaceSlot& fresh = block->slots[at];
  if (fresh.last_use == nullptr) {
    const CUresult result = driver_.cuEventCreate(&fresh.last_use, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) return driver_.error("cuEventCreate", result);
  }
  fresh.pins.store(1, std::memory_order_relaxed);
  block->streams[at].store(number, std::memory_order_release);
  *slot = &fresh;
  return {};
}

void LiveWorkspaces::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& block : late_)
    for (const WorkspaceSlot& slot : block->slots)
      if (slot.last_use != nullptr) driver_.cuEventDestroy(slot.last_use);
  late_.clear();
  first_.reset();
}

}  // namespace gqa
