// program_reference.h: what a user's graph must give, and what a program's outputs are beside it; the same everywhere.
// Owns: which inputs are tried: of one size, with keys hidden by those that can (hiding.h), nearly equal, and far apart
// in size; the reference (evaluate() in double, of a sample of rows where the whole would take too long), the yardstick
// (evaluate() with results rounded to their types) and its error, the guards around outputs, the comparison. Never:
// runs a program or touches a device; devices allocate, launch and hand the bytes back. Threads: pure functions;
// make_reference() computes on several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/effort.h"
#include "runtime/verify/judgement.h"
#include "runtime/verify/tensor_bytes.h"
#include "search/graph/ir/kernel_graph.h"
#include "search/graph/prove/operators.h"

namespace gqa {

// One output of the graph at the elements that were sampled: row-major over the indices taken of each dimension.
struct ReferenceOutput {
  std::vector<Indices> at;  // a dimension each; empty: all of its indices
  std::vector<double> values;
  std::vector<bool> anything;  // may stand there: what is NaN with no key hidden, or overflows in the yardstick alone
  std::vector<RowUnit> units;  // what the errors of rows_together() rows are measured in (judgement.h), beside the
                               // yardstick, where both are finite
  bool finite = true;          // all of them, in both, so that every element of the output must be
};

// So many rows of the sample are judged as one: those of few elements together, since chance has too much of a share in
// the errors of a few.
std::int64_t rows_together(std::int64_t columns);

// The graph on the reference's inputs but for some. One hides keys, by infinities or by the least number of its type:
// first, last and middle tiles, whole rows. Or all numbers of all inputs are nearly 1: keys weigh alike, and what is
// subtracted cancels. Or inputs are 2^12 and 2^-12 large, in turns, and the other way: the yardstick overflows or loses
// bits there, and a program may no sooner.
struct InputTrial {
  struct Replaced {
    std::size_t input;  // of graph.inputs()
    TensorBytes bytes;  // in its place
  };
  std::string where;  // before an output's name in a refusal
  std::vector<Replaced> inputs;
  std::vector<ReferenceOutput> outputs;
};

struct ProgramReference {
  double magnitude = 1;                  // of the inputs
  std::vector<TensorBytes> inputs;       // in the order of graph.inputs()
  std::vector<ReferenceOutput> outputs;  // in the order of graph.outputs()
  std::vector<InputTrial> trials;        // on other inputs
};

// Programs as users write them overflow in float16 (exp without a maximum, sums of thousands), and then bound nothing:
// x / inf is a fine 0. So inputs are near normal with a deviation of 1, then 1/2, 1/4, .. 1/64, until no operator of
// the yardstick gives an infinity or a NaN where the reference gives none (nor, in a sample, comes near an infinity);
// where that never comes, of those tried the one with the fewest. Where the yardstick alone is not finite, anything may
// stand.
//
// All runs together take about a fifth of the effort's budget on so many threads. Where the whole graph would take
// longer, rows are sampled (sample.h), and inputs nearly equal or far apart in size are left out; where none can be
// sampled, as in a sum over everything, it takes what it takes. kCancelled: within some milliseconds of being told.
Status make_reference(const KernelGraph& graph, std::uint64_t seed, const Effort& effort, int threads,
                      ProgramReference* reference);

// ---- inputs

// Sets of inputs that rotation needs so that none is in a cache of so many bytes when its turn comes: 1 to 16, at most
// a gigabyte in all.
int rotated_sets(const KernelGraph& graph, std::int64_t cache_bytes);

// ---- outputs

// An output lies between guards: allocate guarded_bytes(spec), set all of it to kPoison, hand the program the address
// kGuardBytes into it. The poison is a NaN in every type; kGuardBytes keeps an alignment of 4096.
inline constexpr std::int64_t kGuardBytes = 8192;
inline constexpr unsigned char kPoison = 0xff;
inline std::int64_t guarded_bytes(const TensorSpec& spec) { return tensor_bytes(spec) + 2 * kGuardBytes; }

// What lies there after the run, in host memory: guarded_bytes() of the output.
struct OutputBytes {
  const std::byte* guarded = nullptr;
};

// In the order of graph.outputs(). What the reference has as infinite must be; where it has NaN anything may stand, but
// where only hidden keys make it NaN, NaN or 0 must. Each element that was not sampled must be written, and finite
// where all that were are. `where` comes before each output's name.
std::vector<Measured> measured(const KernelGraph& graph, const std::vector<ReferenceOutput>& expected,
                               const std::vector<OutputBytes>& outputs, const std::string& where = {});

// Poisons the outputs, runs the program and hands them over: trial 0 on the reference's inputs, trial i with those of
// trials[i - 1] in their places.
using RunTrial = std::function<Status(std::size_t trial, std::vector<OutputBytes>* outputs)>;

// All trials, judged (judgement.h).
Verdict verify(const KernelGraph& graph, const ProgramReference& reference, const RunTrial& run);

}  // namespace gqa
