// clocks.h: what each thread of a cluster knows to be over of what the others did, and of what clusters did before it.
// Owns: a vector clock a thread (Mattern, "Virtual time and global states of distributed systems", 1989): for every
// thread how many of its steps are known. A step ends where its thread tells others of it.
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

// Clocks of other clusters, by the number of their first block.
using Heard = std::map<unsigned, std::shared_ptr<const Clock>>;

struct Knowledge {
  Clock steps;  // of the cluster's own threads
  Heard heard;  // of other clusters
};

// A barrier's: what those who have come so far know, and what those who pass may know.
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
  // An atomic operation of a thread of `cluster` that releases: all that the thread did and knows goes to its address;
  // one that acquires: what is there is known to the thread.
  void release(int thread, unsigned cluster, Heard* there);
  void acquire(int thread, const Heard& there);

 private:
  std::vector<Knowledge> known_;
};

}  // namespace gqa::simt
