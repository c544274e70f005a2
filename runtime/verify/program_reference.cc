// program_reference.cc: see program_reference.h: inputs and the reference. program_check.cc compares.
#include "runtime/verify/program_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/parallel.h"
#include "runtime/verify/sampled_places.h"
#include "search/graph/prove/evaluate.h"
#include "search/graph/prove/hiding.h"
#include "search/graph/prove/sample.h"

namespace gqa {
namespace {

constexpr int kMostHalvings = 6;
constexpr std::int64_t kMostInputBytes = std::int64_t{1} << 30;
constexpr int kMostSets = 16;
constexpr std::size_t kMostHiddenTrials = 3;  // of an input
constexpr std::int64_t kPiece = 1 << 14;      // elements that are worth a turn of a thread
constexpr std::int64_t kFewestElements = 64;  // that are judged together

// What all runs together may cost, in multiply-adds: a share of the budget at the speed of an ordinary core.
constexpr double kBudgetShare = 0.2, kWorkASecond = 4e8, kLeastWork = 4e7, kMostWork = 4e9;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Calls visit(row, offsets) for each row of dims, many rows a turn of a thread.
template <std::size_t N, typename Visit>
void each_row(const Dims& dims, const std::array<Dims, N>& strides, const Workers& workers, const Visit& visit) {
  const Dims outer = outer_dims(dims);
  const std::int64_t rows = elements(outer), piece = std::max<std::int64_t>(1, kPiece / dims.back());
  workers.each((rows + piece - 1) / piece, [&](std::int64_t at) {
    std::int64_t row = at * piece;
    walk_part<N>(outer, strides, row, std::min(piece, rows - row), [&](const auto& offsets) { visit(row++, offsets); });
  });
}

// ---- inputs

// The distribution of inputs: near normal, a sum of four uniform numbers; never 0, so that one may divide by it. Eight
// significant bits and no finer than 2^-9, so that each, also times 1/64, is exact in every type.
constexpr std::uint64_t kDraws = 4096, kDrawBits = 12, kDrawsAWord = 5;

const std::array<float, kDraws>& draws() {
  static const std::array<float, kDraws> values = [] {
    std::array<float, kDraws> made = {};
    for (std::size_t at = 0; at < kDraws; ++at) {
      const std::uint64_t bits = mix(at);
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xffff) / 65536;
      const double near_normal = (std::floor((sum - 2) * std::sqrt(3.0) * 256) + 0.5) / 256;
      made[at] = static_cast<float>(round_to(near_normal, ElementType::kBF16));
    }
    return made;
  }();
  return values;
}

// Which of the draws stands at an index of a tensor of this seed.
std::size_t draw_at(std::uint64_t seed, std::int64_t index) {
  const auto at = static_cast<std::uint64_t>(index);
  return (mix(seed + at / kDrawsAWord) >> (kDrawBits * (at % kDrawsAWord))) % kDraws;
}

// ---- the reference

// An output of a run, and how many elements on the way to it were not finite.
struct ScaledRun {
  std::vector<std::vector<double>> outputs;
  std::int64_t nonfinite = 0;
};

ReferenceOutput compare(std::vector<double> values, const std::vector<double>& naive, const Dims& dims,
                        ElementType type) {
  ReferenceOutput output;
  const auto together = static_cast<std::size_t>(rows_together(dims.back()) * dims.back());
  std::vector<RowError> errors((values.size() + together - 1) / together), sizes(errors.size());
  for (std::size_t at = 0; at < values.size(); ++at) {
    output.finite = output.finite && std::isfinite(values[at]);
    output.anything.push_back(std::isnan(values[at]));
    if (!std::isfinite(values[at])) continue;
    sizes[at / together].add(values[at], 0);
    if (std::isfinite(naive[at])) errors[at / together].add(naive[at] - values[at], 0);
  }
  for (std::size_t row = 0; row < errors.size(); ++row)
    output.units.push_back(row_unit(errors[row], sizes[row], rounding_of(type)));
  output.values = std::move(values);
  return output;
}

// ---- hidden keys

float hidden_value(HidesBy by) {
  constexpr auto kInfinite = std::numeric_limits<float>::infinity();
  return by == HidesBy::kLowest ? -kInfinite : by == HidesBy::kHighest ? kInfinite : 0;
}

// What one trial hides of one input.
struct Hidden {
  std::size_t input;
  HiddenElements elements;
  float value;
};

// A pattern a row: an input of few rows is tried several times.
std::vector<Hidden> hidden_trials(const KernelGraph& graph) {
  std::vector<Hidden> trials;
  for (const Hiding& hiding : find_hidings(graph)) {
    const Dims& dims = graph.spec(graph.inputs()[hiding.input]).dims;
    const auto rows = static_cast<std::size_t>(hidden_rows(dims, hiding.key_dim));
    const std::size_t most = hiding.key_dim < 0 ? 1 : std::min(kMostHiddenTrials, (kHiddenPatterns + rows - 1) / rows);
    for (std::size_t at = 0; at < most; ++at)
      trials.push_back({hiding.input, {dims, hiding.key_dim, at * rows}, hidden_value(hiding.by)});
  }
  return trials;
}

// ---- runs

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
        sample_(sample(graph, work_a_run())) {}

  Status make(ProgramReference* made) {
    ScaledRun exact, naive;
    Status status = run(1, Rounding::kNone, nullptr, &exact);
    if (status.ok()) status = choose_magnitude(exact.nonfinite, &naive);
    if (status.ok() && magnitude_ != 1) status = run(magnitude_, Rounding::kNone, nullptr, &exact);
    if (!status.ok()) return status;
    made->magnitude = magnitude_;
    made->outputs = compare_all(std::move(exact), naive);
    fill_inputs(made);
    for (const Hidden& hidden : hidden_) {
      if (status = add_hidden(hidden, made); !status.ok()) return status;
    }
    return effort_.check();
  }

 private:
  // The reference and the yardstick, each once more where the magnitude changes, and both for each that hides keys.
  double work_a_run() const {
    const double runs = 4 + 2 * static_cast<double>(hidden_.size());
    const double work = kBudgetShare * effort_.budget() * kWorkASecond * threads_;
    return std::clamp(work, kLeastWork, kMostWork) / runs;
  }

  Status run(double magnitude, Rounding rounding, const Hidden* hidden, ScaledRun* made) {
    return rounding == Rounding::kNone ? run_in<double>(magnitude, rounding, hidden, made)
                                       : run_in<float>(magnitude, rounding, hidden, made);
  }

  // On inputs of the type that it computes in.
  template <typename Real>
  Status run_in(double magnitude, Rounding rounding, const Hidden* hidden, ScaledRun* made) {
    EvaluateOptions options;
    options.rounding = rounding;
    options.nonfinite = &made->nonfinite;
    options.near_overflow = !sample_.whole && rounding == Rounding::kResults;
    options.places = sample_.places;
    options.workers = workers_;
    std::vector<std::vector<Real>> inputs;
    for (std::size_t at = 0; at < graph_.inputs().size(); ++at)
      inputs.push_back(values<Real>(at, magnitude, hidden != nullptr && hidden->input == at ? hidden : nullptr));
    if (Status status = effort_.check(); !status.ok()) return status;
    Status status = evaluate(sample_.graph, std::move(inputs), &made->outputs, options);
    return status.code() == Code::kCancelled ? effort_.check() : status;
  }

  std::uint64_t seed_of(std::size_t input) const { return mix(seed_ + input + 1); }

  // An input's numbers at the sampled places.
  template <typename Real>
  std::vector<Real> values(std::size_t input, double magnitude, const Hidden* hidden) const {
    const Dims& whole = graph_.spec(graph_.inputs()[input]).dims;
    const SampledPlaces places(whole, row_major_strides(whole), sample_.inputs[input]);
    std::vector<Real> read(static_cast<std::size_t>(elements(places.dims())));
    const std::uint64_t seed = seed_of(input);
    const auto scale = static_cast<Real>(magnitude);
    each_row<1>(places.dims(), {Dims(whole.size(), 0)}, workers_, [&](std::int64_t row, const auto&) {
      Real* to = read.data() + row * places.dims().back();
      places.visit_row(row, [&](std::int64_t index) {
        *to++ = hidden != nullptr && hidden->elements(index) ? static_cast<Real>(hidden->value)
                                                             : static_cast<Real>(draws()[draw_at(seed, index)]) * scale;
      });
    });
    return read;
  }

  // The largest magnitude at which the yardstick has no more infinities and NaNs than the reference, or the fewest.
  Status choose_magnitude(std::int64_t allowed, ScaledRun* naive) {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    double magnitude = 1;
    for (int halvings = 0; halvings <= kMostHalvings; ++halvings, magnitude /= 2) {
      Status status = run(magnitude, Rounding::kResults, nullptr, naive);
      if (!status.ok()) return status;
      if (naive->nonfinite >= fewest) continue;
      magnitude_ = magnitude;
      fewest = naive->nonfinite;
      if (fewest <= allowed) return {};
    }
    return run(magnitude_, Rounding::kResults, nullptr, naive);
  }

  std::vector<ReferenceOutput> compare_all(ScaledRun exact, const ScaledRun& naive) const {
    std::vector<ReferenceOutput> outputs;
    for (std::size_t at = 0; at < exact.outputs.size(); ++at) {
      const TensorSpec& spec = graph_.spec(graph_.outputs()[at]);
      const SampledPlaces places(spec.dims, row_major_strides(spec.dims), sample_.outputs[at]);
      outputs.push_back(compare(std::move(exact.outputs[at]), naive.outputs[at], places.dims(), spec.type));
      outputs.back().at = sample_.outputs[at];
    }
    return outputs;
  }

  void fill_inputs(ProgramReference* made) const {
    for (std::size_t at = 0; at < graph_.inputs().size(); ++at) {
      const TensorSpec& spec = graph_.spec(graph_.inputs()[at]);
      made->inputs.emplace_back(static_cast<std::size_t>(tensor_bytes(spec)));
      fill_input(spec, seed_of(at), magnitude_, threads_, made->inputs.back().data());
    }
  }

  // The graph with one input replaced. What is NaN without that too stays free; rows that were not sampled may be NaN.
  Status add_hidden(const Hidden& hidden, ProgramReference* made) {
    ScaledRun exact, naive;
    Status status = run(magnitude_, Rounding::kNone, &hidden, &exact);
    if (status.ok()) status = run(magnitude_, Rounding::kResults, &hidden, &naive);
    if (!status.ok()) return status;
    HiddenTrial& trial = made->hidden.emplace_back();
    trial.input = hidden.input;
    trial.outputs = compare_all(std::move(exact), naive);
    for (std::size_t at = 0; at < trial.outputs.size(); ++at) {
      trial.outputs[at].anything = made->outputs[at].anything;
      trial.outputs[at].finite = false;
    }
    trial.bytes = made->inputs[hidden.input];
    hide(hidden, graph_.spec(graph_.inputs()[hidden.input]), &trial.bytes);
    return {};
  }

  void hide(const Hidden& hidden, const TensorSpec& spec, TensorBytes* bytes) const {
    const Dims strides = strides_of(spec);
    const std::int64_t size = element_bytes(spec.type), columns = spec.dims.back();
    each_row<1>(spec.dims, {strides}, workers_, [&](std::int64_t row, const auto& at) {
      for (std::int64_t j = 0; j < columns; ++j) {
        if (hidden.elements(row * columns + j))
          store_element(spec.type, hidden.value, bytes->data() + (at[0] + j * strides.back()) * size);
      }
    });
  }

  const KernelGraph& graph_;
  const std::uint64_t seed_;
  const Effort& effort_;
  const int threads_;
  const Workers workers_;
  const std::vector<Hidden> hidden_;
  const SampledGraph sample_;
  double magnitude_ = 1;
};

}  // namespace

std::int64_t rows_together(std::int64_t columns) { return (kFewestElements + columns - 1) / columns; }

void fill_input(const TensorSpec& spec, std::uint64_t seed, double magnitude, int threads, std::byte* to) {
  std::array<std::array<std::byte, 4>, kDraws> bytes;
  for (std::size_t at = 0; at < kDraws; ++at)
    store_element(spec.type, static_cast<float>(static_cast<double>(draws()[at]) * magnitude), bytes[at].data());
  const Dims strides = strides_of(spec);
  const std::int64_t size = element_bytes(spec.type), columns = spec.dims.back();
  each_row<1>(spec.dims, {strides}, workers_of(Effort(0), threads), [&](std::int64_t row, const auto& at) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::byte* from = bytes[draw_at(seed, row * columns + j)].data();
      std::byte* element = to + (at[0] + j * strides.back()) * size;
      if (size == 2)
        std::memcpy(element, from, 2);
      else
        std::memcpy(element, from, 4);
    }
  });
}

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
