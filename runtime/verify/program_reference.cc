// program_reference.cc: see program_reference.h: what is tried, and the reference. program_check.cc compares.
#include "runtime/verify/program_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "runtime/parallel.h"
#include "runtime/verify/program_inputs.h"
#include "runtime/verify/sampled_places.h"
#include "search/graph/prove/evaluate.h"
#include "search/graph/prove/sample.h"

namespace gqa {
namespace {

constexpr int kMostHalvings = 6;
constexpr std::int64_t kMostInputBytes = std::int64_t{1} << 30;
constexpr int kMostSets = 16;
constexpr std::size_t kMostHiddenTrials = 3;  // of an input
constexpr std::int64_t kFewestElements = 64;  // that are judged together
constexpr double kFarApart = 4096;            // how many times larger or smaller inputs far apart in size are
constexpr double kNearly = 0x1p-5;            // the deviation of inputs nearly equal to 1
constexpr const char* kLarger = " is 2^12 ";
constexpr const char* kSmaller = " is 2^-12 ";

// What all runs together may cost, in multiply-adds: a share of the budget at the speed of an ordinary core.
constexpr double kBudgetShare = 0.2, kWorkASecond = 4e8, kLeastWork = 4e7, kMostWork = 4e9;
constexpr std::size_t kRunsATrial = 3;   // the reference and the yardstick, this twice
constexpr std::size_t kRunsOfFirst = 5;  // the first two once more where the magnitude changes
// The yardstick's second run is exact but for so much of each operator's results: as much as sums of some dozen float32
// numbers in another order differ. Where that shows, it is the graph that makes much of little: what cancels.
constexpr double kDisturbance = 0x1p-22;

// ---- the reference

enum class Arithmetic : std::uint8_t { kExact, kNaive, kDisturbed };

// An output of a run, and how many elements on the way to it were not finite.
struct ScaledRun {
  std::vector<std::vector<double>> outputs;
  std::int64_t nonfinite = 0;
};

// Each row's unit is at least what the yardstick's errors are on average, relative to the rows: numbers far apart make
// of a row the work of one key or two, and its own error is then chance.
void even_out(const std::vector<RowError>& sizes, std::vector<RowUnit>* units) {
  double norms = 0, elements = 0, rows = 0;
  for (std::size_t row = 0; row < units->size(); ++row) {
    const double size = sizes[row].norm();
    if (size == 0) continue;
    norms += std::pow((*units)[row].norm / size, 2);
    elements += std::pow((*units)[row].element / size, 2);
    ++rows;
  }
  for (std::size_t row = 0; row < units->size() && rows > 0; ++row) {
    RowUnit& unit = (*units)[row];
    unit.norm = std::max(unit.norm, std::sqrt(norms / rows) * sizes[row].norm());
    unit.element = std::max(unit.element, std::sqrt(elements / rows) * sizes[row].norm());
  }
}

RowUnit larger(const RowUnit& a, const RowUnit& b) {
  return {std::max(a.norm, b.norm), std::max(a.element, b.element)};
}

// One output of the graph, run in three ways on the same inputs.
struct Outputs {
  std::vector<double> exact;
  const std::vector<double>&naive, &disturbed;
};

ReferenceOutput compare(Outputs runs, const Dims& dims, ElementType type, bool far) {
  ReferenceOutput output;
  const auto together = static_cast<std::size_t>(rows_together(dims.back()) * dims.back());
  std::vector<RowError> sizes((runs.exact.size() + together - 1) / together), naive(sizes.size()), disturbed(naive);
  for (std::size_t at = 0; at < runs.exact.size(); ++at) {
    const double exact = runs.exact[at], rounded = runs.naive[at], other = runs.disturbed[at];
    const bool overflows =
        !std::isnan(exact) && (differs_in_kind(rounded, exact, type) || differs_in_kind(other, exact, type));
    output.finite = output.finite && std::isfinite(exact) && std::isfinite(rounded) && !overflows;
    output.anything.push_back(std::isnan(exact) || overflows);
    if (!std::isfinite(exact) || overflows) continue;
    sizes[at / together].add(exact, 0);
    if (!std::isfinite(rounded)) continue;
    naive[at / together].add(rounded - exact, 0);
    disturbed[at / together].add(other - exact, 0);
  }
  for (std::size_t row = 0; row < sizes.size(); ++row)
    output.units.push_back(larger(row_unit(naive[row], sizes[row], rounding_of(type)),
                                  row_unit(disturbed[row], sizes[row], rounding_of(type))));
  if (far) even_out(sizes, &output.units);
  output.values = std::move(runs.exact);
  return output;
}

// ---- hidden keys

// As masks are written: an infinity, or the largest number that the type has.
float hidden_value(HidesBy by, ElementType type, bool infinite) {
  const float most = infinite ? std::numeric_limits<float>::infinity() : static_cast<float>(largest_of(type));
  return by == HidesBy::kLowest ? -most : by == HidesBy::kHighest ? most : 0;
}

// What one trial hides of one input.
struct Hidden {
  std::size_t input;
  HiddenInput what;
};

// A pattern a row: an input of few rows is tried several times. Once more with the largest number, where an infinity
// hides.
std::vector<Hidden> hidden_trials(const KernelGraph& graph) {
  std::vector<Hidden> trials;
  for (const Hiding& hiding : find_hidings(graph)) {
    const TensorSpec& spec = graph.spec(graph.inputs()[hiding.input]);
    if (overlaps(spec)) continue;
    const Dims dims = stored_dims(spec);
    const auto rows = static_cast<std::size_t>(hidden_rows(dims, hiding.key_dim));
    const std::size_t most = hiding.key_dim < 0 ? 1 : std::min(kMostHiddenTrials, (kHiddenPatterns + rows - 1) / rows);
    const auto add = [&](std::size_t first, bool infinite) {
      const float value = hidden_value(hiding.by, spec.type, infinite);
      trials.push_back({hiding.input, {{dims, hiding.key_dim, first}, value}});
    };
    for (std::size_t at = 0; at < most; ++at) add(at * rows, true);
    if (hiding.by != HidesBy::kZero) add(0, false);
  }
  return trials;
}

// ---- runs

// Which inputs are large where all are far apart in size: every other one, the others; and every other two.
std::vector<std::vector<bool>> far_trials(std::size_t inputs) {
  std::vector<std::vector<bool>> trials;
  for (const std::size_t neighbours : {1, 2})
    for (const bool first : {true, false}) {
      if (neighbours >= inputs && neighbours > 1) continue;
      std::vector<bool>& larger = trials.emplace_back();
      for (std::size_t at = 0; at < inputs; ++at) larger.push_back((at / neighbours % 2 == 0) == first);
    }
  return trials;
}

// The graph on inputs of one magnitude, at the sampled places. Numbers are made as they are needed: a layer's weights
// are large, and few of them may be in the sample.
class Runs {
 public:
  Runs(const KernelGraph& graph, std::uint64_t seed, const Effort& effort, int threads)
      : graph_(graph),
        seed_(seed),
        effort_(effort),
        threads_(threads),
        workers_(workers_of(effort, threads)),
        hidden_(hidden_trials(graph)),
        far_(far_trials(graph.inputs().size())),
        sample_(sample(graph, work_a_run())) {
    if (sample_.whole) return;
    far_.clear();
    nearly_equal_ = false;
    sample_ = sample(graph, work_a_run());
  }

  Status make(ProgramReference* made) {
    Trio runs;
    Status status = run(numbers(1), Arithmetic::kExact, &runs.exact);
    if (status.ok()) status = choose_magnitude(runs.exact.nonfinite, &runs.naive);
    const std::vector<InputNumbers> chosen = numbers(magnitude_);
    if (status.ok() && magnitude_ != 1) status = run(chosen, Arithmetic::kExact, &runs.exact);
    if (status.ok()) status = run(chosen, Arithmetic::kDisturbed, &runs.disturbed);
    if (!status.ok()) return status;
    made->magnitude = magnitude_;
    made->outputs = compare_all(std::move(runs), false);
    for (const InputNumbers& input : chosen) made->inputs.push_back(laid_out(input));
    for (const Hidden& hidden : hidden_)
      if (status = add_hidden(hidden, made); !status.ok()) return status;
    for (const std::vector<bool>& larger : far_)
      if (status = add_far(larger, made); !status.ok()) return status;
    if (nearly_equal_)
      if (status = add_nearly_equal(made); !status.ok()) return status;
    return effort_.check();
  }

 private:
  double work_a_run() const {
    const std::size_t runs = kRunsOfFirst + kRunsATrial * (hidden_.size() + far_.size() + (nearly_equal_ ? 1 : 0));
    const double work = kBudgetShare * effort_.budget() * kWorkASecond * threads_;
    return std::clamp(work, kLeastWork, kMostWork) / static_cast<double>(runs);
  }

  // ---- inputs

  const TensorSpec& spec_of(std::size_t input) const { return graph_.spec(graph_.inputs()[input]); }
  const std::string& name_of(std::size_t input) const { return graph_.tensor(graph_.inputs()[input]).name; }
  InputNumbers numbers(std::size_t input, double magnitude) const {
    return {spec_of(input), seed_ + input + 1, magnitude};
  }
  std::vector<InputNumbers> numbers(double magnitude) const {
    std::vector<InputNumbers> all;
    for (std::size_t at = 0; at < graph_.inputs().size(); ++at) all.push_back(numbers(at, magnitude));
    return all;
  }
  // Gaps between elements are zero.
  TensorBytes laid_out(const InputNumbers& input) const {
    const TensorSpec& spec = input.spec();
    const auto bytes = static_cast<std::size_t>(tensor_bytes(spec));
    const bool gaps = tensor_bytes(spec) != elements(spec.dims) * element_bytes(spec.type);
    TensorBytes made = gaps ? TensorBytes(bytes, std::byte{0}) : TensorBytes(bytes);
    input.fill(workers_, made.data());
    return made;
  }

  // ---- one run

  struct Trio {
    ScaledRun exact, naive, disturbed;
  };

  Status run(const std::vector<InputNumbers>& numbers, Arithmetic arithmetic, ScaledRun* made) {
    return arithmetic == Arithmetic::kNaive ? run_in<float>(numbers, arithmetic, made)
                                            : run_in<double>(numbers, arithmetic, made);
  }

  // On inputs of the type that it computes in.
  template <typename Real>
  Status run_in(const std::vector<InputNumbers>& numbers, Arithmetic arithmetic, ScaledRun* made) {
    *made = {};
    EvaluateOptions options;
    options.rounding = arithmetic == Arithmetic::kNaive ? Rounding::kResults : Rounding::kNone;
    options.disturbance = arithmetic == Arithmetic::kDisturbed ? kDisturbance : 0;
    options.nonfinite = &made->nonfinite;
    options.near_overflow = !sample_.whole && arithmetic == Arithmetic::kNaive;
    options.places = sample_.places;
    options.workers = workers_;
    std::vector<std::vector<Real>> inputs;
    for (std::size_t at = 0; at < numbers.size(); ++at)
      inputs.push_back(numbers[at].at<Real>(sample_.inputs[at], workers_));
    if (Status status = effort_.check(); !status.ok()) return status;
    Status status = evaluate(sample_.graph, std::move(inputs), &made->outputs, options);
    return status.code() == Code::kCancelled ? effort_.check() : status;
  }

  Status run_all(const std::vector<InputNumbers>& numbers, Trio* made) {
    Status status = run(numbers, Arithmetic::kExact, &made->exact);
    if (status.ok()) status = run(numbers, Arithmetic::kNaive, &made->naive);
    return status.ok() ? run(numbers, Arithmetic::kDisturbed, &made->disturbed) : status;
  }

  // The largest magnitude at which the yardstick has no more infinities and NaNs than the reference, or the fewest.
  Status choose_magnitude(std::int64_t allowed, ScaledRun* naive) {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    double magnitude = 1;
    for (int halvings = 0; halvings <= kMostHalvings; ++halvings, magnitude /= 2) {
      Status status = run(numbers(magnitude), Arithmetic::kNaive, naive);
      if (!status.ok()) return status;
      if (naive->nonfinite >= fewest) continue;
      magnitude_ = magnitude;
      fewest = naive->nonfinite;
      if (fewest <= allowed) return {};
    }
    return run(numbers(magnitude_), Arithmetic::kNaive, naive);
  }

  std::vector<ReferenceOutput> compare_all(Trio runs, bool far) const {
    std::vector<ReferenceOutput> outputs;
    for (std::size_t at = 0; at < runs.exact.outputs.size(); ++at) {
      const TensorSpec& spec = graph_.spec(graph_.outputs()[at]);
      const SampledPlaces places(spec.dims, row_major_strides(spec.dims), sample_.outputs[at]);
      Outputs output = {std::move(runs.exact.outputs[at]), runs.naive.outputs[at], runs.disturbed.outputs[at]};
      outputs.push_back(compare(std::move(output), places.dims(), spec.type, far));
      outputs.back().at = sample_.outputs[at];
    }
    return outputs;
  }

  // ---- other inputs

  Status add_trial(const std::vector<InputNumbers>& numbers, const std::vector<std::size_t>& replaced, bool far,
                   InputTrial* trial) {
    Trio runs;
    if (Status status = run_all(numbers, &runs); !status.ok()) return status;
    trial->outputs = compare_all(std::move(runs), far);
    for (const std::size_t input : replaced) trial->inputs.push_back({input, laid_out(numbers[input])});
    return {};
  }
  std::vector<std::size_t> every_input() const {
    std::vector<std::size_t> all(graph_.inputs().size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }

  // What is NaN with no key hidden stays free; what infinities alone make NaN is NaN or 0. Rows that were not sampled
  // may be NaN.
  Status add_hidden(const Hidden& hidden, ProgramReference* made) {
    std::vector<InputNumbers> others = numbers(magnitude_);
    others[hidden.input].hide(hidden.what);
    InputTrial& trial = made->trials.emplace_back();
    trial.where = "where input '" + name_of(hidden.input) + "' hides keys: ";
    if (Status status = add_trial(others, {hidden.input}, false, &trial); !status.ok()) return status;
    for (std::size_t at = 0; at < trial.outputs.size(); ++at) {
      ReferenceOutput& output = trial.outputs[at];
      const std::vector<bool>& free = made->outputs[at].anything;
      for (std::size_t i = 0; i < output.anything.size(); ++i)
        if (std::isnan(output.values[i]) && std::isinf(hidden.what.value)) output.anything[i] = free[i];
      output.finite = false;
    }
    return {};
  }

  Status add_nearly_equal(ProgramReference* made) {
    std::vector<InputNumbers> others;
    for (const std::size_t at : every_input()) others.emplace_back(spec_of(at), seed_ + at + 1, kNearly, 1);
    InputTrial& trial = made->trials.emplace_back();
    trial.where = "where all inputs are nearly 1: ";
    return add_trial(others, every_input(), true, &trial);
  }

  Status add_far(const std::vector<bool>& larger, ProgramReference* made) {
    std::vector<InputNumbers> others;
    InputTrial& trial = made->trials.emplace_back();
    trial.where = "where ";
    for (std::size_t at = 0; at < larger.size(); ++at) {
      others.push_back(numbers(at, larger[at] ? kFarApart : 1 / kFarApart));
      trial.where +=
          "'" + name_of(at) + "'" + (larger[at] ? kLarger : kSmaller) + (at + 1 < larger.size() ? "and " : "large: ");
    }
    return add_trial(others, every_input(), true, &trial);
  }

  const KernelGraph& graph_;
  const std::uint64_t seed_;
  const Effort& effort_;
  const int threads_;
  const Workers workers_;
  const std::vector<Hidden> hidden_;
  std::vector<std::vector<bool>> far_;  // none where rows are sampled,
  bool nearly_equal_ = true;            // nor these
  SampledGraph sample_;
  double magnitude_ = 1;
};

}  // namespace

std::int64_t rows_together(std::int64_t columns) { return (kFewestElements + columns - 1) / columns; }

int rotated_sets(const KernelGraph& graph, std::int64_t cache_bytes) {
  std::int64_t bytes = 1;
  for (const int input : graph.inputs()) bytes += tensor_bytes(graph.spec(input));
  const std::int64_t sets = std::min(2 * cache_bytes, kMostInputBytes) / bytes + 1;
  return static_cast<int>(std::clamp<std::int64_t>(sets, 1, kMostSets));
}

Status make_reference(const KernelGraph& graph, std::uint64_t seed, const Effort& effort, int threads,
                      ProgramReference* reference) {
  ProgramReference made;
  Status status = Runs(graph, seed, effort, threads).make(&made);
  if (status.ok()) *reference = std::move(made);
  return status;
}

}  // namespace gqa
