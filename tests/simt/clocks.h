// clocks.h: what each thread of a cluster knows to be over of what the others did, and of what clusters did before it.
// Owns: a vector clock a thread (Mattern, "Virtual time and global states of distributed systems", 1989): for every
// thread how many of its steps are known. A step ends where its thread tells others of it, or fences it.
// Never: knows where threads meet: those places keep a Gate, or what was Heard, through which clocks pass.
// Threads: those of one launch, by their numbers in the cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace gqa::simt {

// Steps, by thread; empty: nothing is known.
using Clock = std::vector<std::uint32_t>;

// Of other clusters, by the number of their first block.
using Heard = std::map<unsigned, std::shared_ptr<const Clock>>;

struct Knowledge {
  Clock steps;        // of the cluster's own threads
  Clock fenced;       // of these, what was known before a fence: others may hear of it through an atomic
  Heard heard, sure;  // of other clusters: through an atomic; and before a fence since
};

// Of a barrier: what those who have come so far know, and what those who pass may know.
struct Gate {
  Knowledge coming, passed;

  void open();  // all have come
};

class Clocks {
 public:
  void begin(std::size_t threads);
  std::uint32_t step(int thread) const { return of(thread)[static_cast<std::size_t>(thread)]; }
  const Clock& of(int thread) const { return known_[static_cast<std::size_t>(thread)].steps; }
  // What the thread may rely on of another cluster; null: nothing.
  const Clock* of_cluster(int thread, unsigned cluster) const;
  // All that the thread did and knows goes to `to`; its next step begins.
  void tell(int thread, Knowledge* to);
  void learn(int thread, const Knowledge& from);
  // fence.acq_rel.gpu, as cumulative as it is: whoever knew of a write may fence it, for whoever hears of the fence.
  void fence(int thread);
  // An atomic operation of a thread of `cluster`: `there` is what was heard at its address.
  void meet(int thread, unsigned cluster, Heard* there);

 private:
  std::vector<Knowledge> known_;
};

}  // namespace gqa::simt
