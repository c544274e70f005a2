// equivalence.cc: see equivalence.h.
#include "search/graph/prove/equivalence.h"

#include "search/graph/ir/canonical.h"
#include "search/graph/prove/field.h"
#include "search/graph/prove/hiding.h"
#include "search/graph/prove/interpreter.h"
#include "search/graph/prove/shrink.h"
#include "search/text.h"

namespace gqa {
namespace {

using Tensor = DenseTensor<FieldValue>;

constexpr int kRounds = 2;
constexpr double kMostWork = 1e7;  // field operations of a graph in a round: about a second

Status told_to_stop() { return {Code::kCancelled, "the proof was told to stop"}; }

Status check_pairs(const char* what, const KernelGraph& a, const std::vector<int>& of_a, const KernelGraph& b,
                   const std::vector<int>& of_b) {
  if (of_a.size() != of_b.size()) {
    return Status(Code::kShape, "graphs of " + std::to_string(of_a.size()) + " and " + std::to_string(of_b.size()) +
                                    " " + what + "s: expected as many in both");
  }
  for (std::size_t at = 0; at < of_a.size(); ++at) {
    const TensorSpec &x = a.spec(of_a[at]), &y = b.spec(of_b[at]);
    if (x.dims == y.dims && x.type == y.type) continue;
    return Status(Code::kShape, std::string(what) + " " + std::to_string(at) + " is " + to_text(x) + " and " +
                                    to_text(y) + ": expected one shape and type");
  }
  return {};
}

double work_of(const std::vector<Dims>& operands, const Dims& result, Op op) {
  double work = static_cast<double>(elements(result));
  if (op == Op::kMatmul) return work * static_cast<double>(operands[0].back());
  for (const Dims& dims : operands) work += static_cast<double>(elements(dims));
  return work;
}

double work_of(const BlockGraph& block) {
  double once = 0, each_step = 0;
  for (const BlockNode& node : block.nodes) {
    std::vector<Dims> operands;
    for (const int input : node.inputs)
      operands.push_back(tile_dims(block.nodes[static_cast<std::size_t>(input)].axes));
    (node.phase == Phase::kLoop ? each_step : once) += work_of(operands, tile_dims(node.axes), node.op);
  }
  return static_cast<double>(blocks(block)) * (once + each_step * static_cast<double>(block.steps));
}

double work_of(const KernelGraph& graph) {
  double work = 0;
  for (const int input : graph.inputs()) work += static_cast<double>(elements(graph.spec(input).dims));
  for (const KernelNode& node : graph.nodes()) {
    std::vector<Dims> operands;
    for (const int input : node.inputs) operands.push_back(graph.spec(input).dims);
    work += node.block ? work_of(*node.block) : work_of(operands, graph.spec(node.outputs[0]).dims, node.op);
  }
  return work;
}

Status check_work(const KernelGraph& graph) {
  const double work = work_of(graph);
  if (work <= kMostWork) return {};
  return Status(Code::kSize, "a graph of " + grouped(static_cast<std::int64_t>(work)) +
                                 " operations that has no small twin: expected at most " +
                                 grouped(static_cast<std::int64_t>(kMostWork)) + " to prove anything of it");
}

std::vector<Tensor> random_inputs(const KernelGraph& graph, Field* field) {
  std::vector<Tensor> inputs;
  for (const int input : graph.inputs()) {
    inputs.emplace_back(graph.spec(input).dims);
    for (FieldValue& value : inputs.back().data) value = field->random();
  }
  return inputs;
}

std::string index_text(const Dims& dims, std::int64_t at) {
  Dims index(dims.size());
  for (std::size_t k = dims.size(); k-- > 0; at /= dims[k]) index[k] = at % dims[k];
  return to_text(index);
}

std::string place_text(const KernelGraph& graph, std::size_t output, const Tensor& tensor, std::size_t at) {
  return "output " + std::to_string(output) + " " + quote(graph.tensor(graph.outputs()[output]).name) + " at " +
         index_text(tensor.dims, static_cast<std::int64_t>(at)) + " of " + to_text(tensor.dims);
}

bool is_known(const FieldValue& x) { return x.state == FieldState::kNumber || x.state == FieldState::kLowest; }

// Hides keys in all inputs that do so by an infinity; false: there are none.
bool hide_keys(const KernelGraph& graph, std::vector<Tensor>* inputs, const Field& field) {
  bool any = false;
  for (const Hiding& hiding : find_hidings(graph)) {
    if (hiding.by == HidesBy::kZero || hiding.key_dim < 0) continue;
    Tensor& mask = (*inputs)[hiding.input];
    const HiddenElements hidden(mask.dims, hiding.key_dim, 0);
    for (std::size_t at = 0; at < mask.data.size(); ++at) {
      if (!hidden(static_cast<std::int64_t>(at))) continue;
      mask.data[at] = hiding.by == HidesBy::kLowest ? field.lowest() : field.highest();
      any = true;
    }
  }
  return any;
}

bool agree(const FieldValue& x, const FieldValue& y) {
  return x.state == y.state && (x.state != FieldState::kNumber || x.p == y.p);
}

// Where keys are hidden, the graph's own number or -inf must come out; of anything else nothing is asked.
Status compare_hidden(const KernelGraph& graph, std::size_t output, const Tensor& a, const Tensor& b,
                      EquivalenceReport* report) {
  for (std::size_t at = 0; at < a.data.size(); ++at) {
    const FieldValue &x = a.data[at], &y = b.data[at];
    if (!is_known(x) || agree(x, y)) continue;
    report->difference = place_text(graph, output, a, at);
    return Status(Code::kNoCandidate, "the graphs differ where keys are hidden: " + report->difference);
  }
  return {};
}

Status compare(const KernelGraph& graph, std::size_t output, const Tensor& a, const Tensor& b,
               EquivalenceReport* report) {
  std::int64_t undefined = 0;
  for (std::size_t at = 0; at < a.data.size(); ++at) {
    const FieldValue &x = a.data[at], &y = b.data[at];
    if (x.state == FieldState::kUndefined || y.state == FieldState::kUndefined) {
      return Status(Code::kOption, place_text(graph, output, a, at) + " comes of -inf where no rule says what that " +
                                       "gives: expected masks under exp, softmax or max");
    }
    ++report->elements;
    undefined += x.state == FieldState::kNan;
    if (agree(x, y)) continue;
    report->difference = place_text(graph, output, a, at);
    return Status(Code::kNoCandidate, "the graphs differ: " + report->difference);
  }
  report->undefined += undefined;
  if (undefined < static_cast<std::int64_t>(a.data.size())) return {};
  return Status(Code::kOption, "output " + std::to_string(output) + " of " + to_text(a.dims) +
                                   " divides by zero everywhere: expected a value somewhere");
}

Status run_hidden(const KernelGraph& a, const KernelGraph& b, const std::vector<Tensor>& inputs, Field* of_a,
                  Field* of_b, const Workers& workers, EquivalenceReport* report) {
  const std::vector<Tensor> x = interpret(a, *of_a, inputs, workers), y = interpret(b, *of_b, inputs, workers);
  if (workers.stopped()) return told_to_stop();
  for (std::size_t output = 0; output < x.size(); ++output) {
    if (Status status = compare_hidden(a, output, x[output], y[output], report); !status.ok()) return status;
  }
  return {};
}

Status run_round(const KernelGraph& a, const KernelGraph& b, std::uint64_t seed, const Workers& workers,
                 EquivalenceReport* report) {
  for (const KernelGraph* graph : {&a, &b}) {
    if (Status status = check_work(*graph); !status.ok()) return status;
  }
  Field of_a(seed, seed + 1), of_b(seed, seed + 2);  // one base and the same functions, running maxima of their own
  std::vector<Tensor> inputs = random_inputs(a, &of_a);
  const std::vector<Tensor> x = interpret(a, of_a, inputs, workers), y = interpret(b, of_b, inputs, workers);
  if (workers.stopped()) return told_to_stop();
  ++report->rounds;
  for (std::size_t output = 0; output < x.size(); ++output) {
    if (Status status = compare(a, output, x[output], y[output], report); !status.ok()) return status;
  }
  return hide_keys(a, &inputs, of_a) ? run_hidden(a, b, inputs, &of_a, &of_b, workers, report) : Status();
}

Status prove(const KernelGraph& a, const KernelGraph& b, std::uint64_t seed, const Workers& workers,
             EquivalenceReport* report) {
  if (Status status = check_pairs("input", a, a.inputs(), b, b.inputs()); !status.ok()) return status;
  if (Status status = check_pairs("output", a, a.outputs(), b, b.outputs()); !status.ok()) return status;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t round_seed = (seed * kRounds + static_cast<std::uint64_t>(round)) * 4;
    ShrunkPair small;
    const bool shrunk = shrink(a, b, round, &small).ok();
    report->sizes = shrunk ? small.sizes : "";
    Status status = shrunk ? run_round(small.a, small.b, round_seed, workers, report)
                           : run_round(a, b, round_seed, workers, report);
    if (!status.ok()) return status;
  }
  report->equal = true;
  return {};
}

}  // namespace

Status prove_equal(const KernelGraph& a, const KernelGraph& b, std::uint64_t seed, EquivalenceReport* report,
                   const Stop& stop) {
  EquivalenceReport own;
  Status status = prove(a, b, seed, {stop, {}}, &own);
  if (report) *report = std::move(own);
  return status;
}

bool proves(const KernelGraph& graph, const KernelGraph& program, std::uint64_t seed, const Stop& stop) {
  return same_graph(graph, program) || prove_equal(graph, program, seed, nullptr, stop).ok();
}

}  // namespace gqa
