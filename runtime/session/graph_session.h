// graph_session.h: from a user's graph to the program that runs it; session.h is the same for an attention call.
// Owns: the programs that are ready, by the graph's canonical digest and config, and who searches for which: graph ->
// look-up -> (miss) cache -> search, compile, verify, time -> keep. Device, store and options are the session's.
// Never: runs a program, or knows in which order a user built the graph: all here is in canonical order.
// Threads: many at once. Those that ask for one graph search once: the others wait. Two processes: the cache's lease.
#pragma once

#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/session/session.h"
#include "runtime/tuner/graph_tuner.h"
#include "search/graph/ir/canonical.h"

namespace gqa {

// A program of a graph, loaded; inputs and outputs in canonical order.
struct ReadyGraph {
  KernelGraph program;
  std::unique_ptr<LoadedProgram> loaded;
  cache::WinnerRow winner;
};

struct GraphRequest {
  KernelGraph graph;  // as the user built it
  std::string config;
  std::uint64_t seed = 1;
  double budget_seconds = 0;  // 0: the session's
  GraphProgressFn progress;   // may be empty
};

enum class GraphSource { kSearched, kCache, kMemory };

struct GraphAnswer {
  std::shared_ptr<const ReadyGraph> ready;
  Canonical canonical;  // which of the user's inputs and outputs are which of the program's
  GraphSource source = GraphSource::kSearched;
};

class GraphSession {
 public:
  explicit GraphSession(Session& session) : session_(session) {}
  ~GraphSession();  // waits for threads that are searching
  GraphSession(const GraphSession&) = delete;
  GraphSession& operator=(const GraphSession&) = delete;

  Status superoptimize(const GraphRequest& request, GraphAnswer* answer);
  Device& device() { return session_.device(); }

 private:
  // What threads that ask for one graph share. A failure is everybody's who waited for it; the next call tries again.
  struct Found {
    Status status;
    std::shared_ptr<const ReadyGraph> ready;
    GraphSource source = GraphSource::kSearched;
  };
  // A request on its way.
  struct Miss {
    const GraphRequest& request;
    const Effort effort;
    GraphQuestion question;
    cache::WinnerKey key;
  };
  class Visit;
  Status find(const Miss& miss, Found* found);
  Status make_ready(const Miss& miss, Found* found);
  std::shared_ptr<const ReadyGraph> from_cache(const Miss& miss);
  Status load(const Miss& miss, const cache::WinnerRow& winner, ReadyGraph* ready);
  Status search_under_lease(const Miss& miss, Found* found);
  Status search_here(const Miss& miss, Found* found);

  Session& session_;
  std::mutex mutex_;                 // guards what follows; never held while searching or waiting
  std::condition_variable changed_;  // a visit ended
  std::map<std::string, std::shared_future<Found>> found_;  // by the key's text
  int visits_ = 0;
};

}  // namespace gqa
