// live_workspaces.h: the workspaces of streams that are not being captured, found by the stream's number.
// Owns: blocks of slots, each a stream's, filled in order and never removed, so that a reader needs no lock.
// The first streams keep theirs for good: a launch there leaves no trace. Nobody tells when a stream is destroyed, so
// slots past the first block record an event after each use, and a stream that comes new takes over one whose event is
// done. Memory is thus bounded by the first block and by what was in use at once.
// Never: synchronises.
// Threads: take() from many threads at once; a lock only where a stream is new or its workspace too small.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/workspace/workspace_memory.h"

namespace gqa {

// A stream's workspace as lock-free readers see it.
struct WorkspaceSlot {
  std::atomic<std::int64_t> partial_floats{0}, counters{0};
  std::atomic<float*> partials{nullptr};
  std::atomic<unsigned int*> first_counter{nullptr};
  CUevent last_use = nullptr;  // of slots past the first block; set before the slot's stream is
  std::atomic<int> pins{0};    // likewise: uses whose event is not recorded yet; negative: changing hands
  WorkspaceMemory memory;      // under the mutex

  bool holds(const LaunchPlan& plan) const {  // sizes are published after what they are sizes of
    return partial_floats.load(std::memory_order_acquire) >= plan.partial_floats &&
           counters.load(std::memory_order_acquire) >= plan.counters;
  }
  void publish();
};

// What take() gives: a workspace for launches on one stream, until the pin is destroyed.
class WorkspacePin {
 public:
  WorkspacePin() = default;
  ~WorkspacePin() {
    if (slot_ != nullptr) release();
  }
  WorkspacePin(const WorkspacePin&) = delete;
  WorkspacePin& operator=(const WorkspacePin&) = delete;

  Workspace workspace;

 private:
  friend class LiveWorkspaces;
  void hold(const Driver& driver, CUstream stream, WorkspaceSlot* slot);
  void release();

  const Driver* driver_ = nullptr;
  CUstream stream_ = nullptr;
  WorkspaceSlot* slot_ = nullptr;  // of those that change hands
};

class LiveWorkspaces {
 public:
  explicit LiveWorkspaces(const Driver& driver) : driver_(driver) {}
  ~LiveWorkspaces() { clear(); }

  // `number` is the stream's; the pin is a fresh one.
  Status take(CUstream stream, std::uint64_t number, const LaunchPlan& plan, WorkspacePin* pin);
  // Frees everything; take() no more after it.
  void clear();

 private:
  static constexpr std::size_t kBlock = 16;
  struct Block {
    std::array<std::atomic<std::uint64_t>, kBlock> streams{};  // numbers; 0 from the first unused slot on
    std::array<WorkspaceSlot, kBlock> slots;
    std::atomic<Block*> next{nullptr};
  };
  WorkspaceSlot* find(CUstream stream, std::uint64_t number, WorkspacePin* pin);
  Status take_new(CUstream stream, std::uint64_t number, const LaunchPlan& plan, WorkspacePin* pin);
  Status add(CUstream stream, std::uint64_t number, WorkspacePin* pin, WorkspaceSlot** slot);
  Status take_over(Block* block, CUstream stream, std::uint64_t number, WorkspaceSlot** slot) const;
  Status add_late(Block* block, std::uint64_t number, WorkspaceSlot** slot) const;
  Block* extend(Block* last);

  const Driver& driver_;
  std::mutex mutex_;
  std::unique_ptr<Block> first_ = std::make_unique<Block>();
  std::vector<std::unique_ptr<Block>> late_;  // under the mutex
};

}  // namespace gqa
