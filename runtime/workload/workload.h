// workload.h: what may be asked of a device, as the tuner and the session see it.
// Owns: Workload (an attention problem, a user's graph or an operation on its way through a miss), Option (one way to
// compute it), Part, and Reference (what its numbers are held against). Never: compiles, runs or remembers. Threads: a
// Workload belongs to one thread; programs are made on it.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/effort.h"
#include "runtime/program.h"
#include "search/device_spec.h"
#include "search/graph/ir/kernel_graph.h"
#include "search/problem/problem.h"
#include "search/status.h"

namespace gqa {

struct Reference {
  std::variant<Problem, KernelGraph, Operation> of;
};

// One launch of a program by itself, and what it computes.
struct Part {
  KernelGraph graph;
  Program program;
};

// One way to compute a workload.
struct Option {
  std::string name;                  // in evidence and messages
  double predicted_us = 0;           // the cost model's
  double moved_bytes = 0;            // of two that take equally long the one that moves less wins
  bool exact_first = false;          // and before that the one whose error is clearly smaller
  bool safe = true;                  // no exponential can overflow
  std::vector<std::string> kernels;  // options that name the same share it
  std::string notes;                 // told in its evidence: a JSON object, or nothing
  std::function<Status(Program*)> make;
  // The launches of what others are held against, where nothing else passed: they are judged one by one if it does not
  // pass as a whole.
  std::vector<Part> parts;
};

struct Rejection {
  std::string name, reason;
};

// How far a search is, for progress.
struct SearchCounts {
  std::int64_t enumerated = 0, pruned = 0, proved = 0;
};

struct Options {
  std::vector<Option> ranked;  // best first
  bool more = false;           // a further round has others
  std::vector<Rejection> rejected;
  SearchCounts counts;
  std::string evidence;  // of the search, told with the winner: a JSON object, or nothing
  std::string report;    // the same for people, where nothing can be used
};

class Workload {
 public:
  virtual ~Workload() = default;
  // What a winner is kept under: the question's canonical text.
  virtual std::string signature() const = 0;
  // In messages: "b=1,hq=32,...", "this graph".
  virtual std::string name() const = 0;
  virtual const Reference& reference() const = 0;
  // The options of a round, from 0 on. Further rounds are asked for only where nothing of those before was right.
  // `told`: after each step of a long search.
  virtual Status options(int round, const DeviceSpec& device, const Effort& effort,
                         const std::function<void(const SearchCounts&)>& told, Options* options) = 0;
  // The program that a cached winner's text stands for. Refuses what does not compute this workload or cannot run here.
  virtual Status program(const std::string& text, const DeviceSpec& device, Program* program) = 0;
  // What an option that cannot be made is called in evidence: "not proved".
  virtual const char* unmade() const { return "not made"; }
};

}  // namespace gqa
