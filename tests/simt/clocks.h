// clocks.h: what each thread of a cluster knows to be over of what the others did.
// Owns: a vector clock a thread (Mattern, "Virtual time and global states of distributed systems", 1989): for every
// thread how many of its steps are known. A step ends where its thread tells others of it.
// Never: knows where threads meet: those places keep a Gate, through which clocks pass.
// Threads: those of one launch, by their numbers in the cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gqa::simt {

using Clock = std::vector<std::uint32_t>;  // steps, by thread; empty: nothing is known

// Of a barrier: what those who have come so far know, and what those who pass may know.
struct Gate {
  Clock coming, passed;

  void open();  // all have come
};

class Clocks {
 public:
  void begin(std::size_t threads);
  std::uint32_t step(int thread) const { return of(thread)[static_cast<std::size_t>(thread)]; }
  const Clock& of(int thread) const { return clocks_[static_cast<std::size_t>(thread)]; }
  // All that the thread did and knows goes to `to`; its next step begins.
  void tell(int thread, Clock* to);
  void learn(int thread, const Clock& from);

 private:
  std::vector<Clock> clocks_;
};

}  // namespace gqa::simt
