// enumerate.h: all the programs of a rewritten graph: which operators are one kernel, which dimensions go to the grid,
// which one the loop walks along, in tiles of how many elements.
// Owns: SearchConfig and the table of configs; Program; Enumerator, which remembers what it made of a section
// (schedule.h), so that rewritten graphs that share parts share the work.
// Never: knows attention or any other graph by name; proves.
// Threads: one enumerator a thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/device_spec.h"
#include "search/graph/enumerate/estimate.h"
#include "search/graph/enumerate/lower.h"
#include "search/graph/rewrite/rewrite.h"
#include "search/graph/workers.h"

namespace gqa {

// Tile sizes to try, by the role of a dimension, and bounds on the search. Whole dimensions are tried where they fit.
struct SearchConfig {
  std::string_view name;
  std::vector<std::int64_t> rows, columns, steps, packs, splits;
  std::vector<std::int64_t> rows_alone;  // of a kernel without a product, which gains nothing by many
  std::int64_t most_whole_columns;       // a column dimension up to this size may stay whole
  std::size_t most_graphs;               // rewritten
};

// "" is for any graph; null: no such config.
const SearchConfig* find_config(std::string_view name);
std::string config_names();

struct FoundProgram {
  KernelGraph graph;
  double seconds = 0;              // predicted
  int unsafe = 0;                  // unsafe_exponents()
  bool safe = true;                // no other program that was found has fewer
  bool as_given = false;           // the user's graph, operator by operator
  std::string kind;                // of its largest part: "loop+running_maximum+splits", "plain among others"
  std::vector<std::string> rules;  // that led to its graph
};

// How many exponentials are of what has no maximum, running or not, taken off, so that a score may overflow them. Those
// that no quotient undoes, as a user may mean them, count in all programs alike.
int unsafe_exponents(const KernelGraph& graph);

// Some operators as one or two kernels, or each as its own.
struct Choice {
  KernelGraph graph;
  double seconds = 0;
  std::string kind;
};

class Enumerator {
 public:
  // Once told to stop it looks at no further kernel: programs are made of those that it has.
  Enumerator(const SearchConfig& config, const DeviceSpec& device, AbstractSpace* abstract, SearchReport* report,
             Stop stop = {})
      : config_(config), device_(device), abstract_(*abstract), report_(*report), stop_(std::move(stop)) {}

  // Divides the graph into kernels in all the ways that pay. `rewritten` must outlive the enumerator.
  void add(const Rewritten& rewritten);

  // The best program of each kind, then the best whatever their kind, `most` in all; those of the fewest unsafe
  // exponentials first, of them the fastest.
  std::vector<FoundProgram> take(std::size_t most);

 private:
  struct Part {  // of a draft: nodes of the rewritten graph, and what they become
    std::vector<int> inputs, outputs;
    std::vector<bool> wide;  // outputs that a kernel stores as float32, whatever their type
    const Choice* choice;
  };
  struct Draft {
    const Rewritten* rewritten;
    std::vector<Part> parts;
    double seconds;
    int unsafe;
    std::string kind;
  };

  const std::vector<Choice>& choices_of(const KernelGraph& part, const std::vector<AbstractSpace::Id>& inputs,
                                        bool unit);
  std::vector<Choice> make_choices(const KernelGraph& part, const std::vector<AbstractSpace::Id>& inputs, bool unit);
  void add_drafts(const Rewritten& rewritten, const std::vector<std::vector<Part>>& parts, int unsafe);
  static std::string kind_of(const Draft& draft);
  std::vector<const Draft*> ordered() const;
  std::optional<FoundProgram> assemble(const Draft& draft, Reason* reason) const;
  bool fits_widened(const Draft& draft, Reason* reason, FoundProgram* program) const;

  const SearchConfig& config_;
  const DeviceSpec& device_;
  AbstractSpace& abstract_;
  SearchReport& report_;
  const Stop stop_;
  std::map<std::string, std::vector<Choice>> known_;
  std::vector<Draft> drafts_;
};

}  // namespace gqa
