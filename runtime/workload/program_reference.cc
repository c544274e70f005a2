// program_reference.cc: see program_reference.h: inputs and the reference. program_judgement.cc judges.
#include "runtime/workload/program_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "search/graph/prove/evaluate.h"
#include "search/graph/prove/hiding.h"

namespace gqa {
namespace {

constexpr int kMostHalvings = 6;
constexpr std::int64_t kMostInputBytes = std::int64_t{1} << 30;
constexpr int kMostSets = 16;
constexpr std::size_t kMostHiddenTrials = 3;  // of an input

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// ---- inputs

// The distribution of inputs: near normal, a sum of four uniform numbers; never 0, so that one may divide by it. Eight
// significant bits and no finer than 2^-9, so that each, also times 1/64, is exact in every type.
constexpr std::size_t kDraws = 4096;

std::array<float, kDraws> draws(double magnitude) {
  std::array<float, kDraws> values = {};
  for (std::size_t at = 0; at < kDraws; ++at) {
    const std::uint64_t bits = mix(at);
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xffff) / 65536;
    const double near_normal = (std::floor((sum - 2) * std::sqrt(3.0) * 256) + 0.5) / 256;
    values[at] = static_cast<float>(round_to(near_normal, ElementType::kBF16) * magnitude);
  }
  return values;
}

// ---- the reference

struct ScaledRun {
  std::vector<std::vector<double>> outputs;
  std::int64_t nonfinite = 0;  // elements on the way to them
};

ReferenceOutput compare(std::vector<double> values, const std::vector<double>& naive) {
  ReferenceOutput output;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (!std::isfinite(values[at])) continue;
    output.largest = std::max(output.largest, std::abs(values[at]));
    if (std::isfinite(naive[at])) output.naive_error = std::max(output.naive_error, std::abs(values[at] - naive[at]));
  }
  for (const double value : values) output.anything.push_back(std::isnan(value));
  output.values = std::move(values);
  return output;
}

std::vector<ReferenceOutput> compare(ScaledRun exact, const ScaledRun& naive) {
  std::vector<ReferenceOutput> outputs;
  for (std::size_t at = 0; at < exact.outputs.size(); ++at)
    outputs.push_back(compare(std::move(exact.outputs[at]), naive.outputs[at]));
  return outputs;
}

// ---- hidden keys

float hidden_value(HidesBy by) {
  constexpr auto kInfinite = std::numeric_limits<float>::infinity();
  return by == HidesBy::kLowest ? -kInfinite : by == HidesBy::kHighest ? kInfinite : 0;
}

// An input as it was, but for what is hidden.
TensorBytes hidden_bytes(const TensorSpec& spec, const Hiding& hiding, std::size_t first, TensorBytes bytes) {
  std::vector<bool> hidden(static_cast<std::size_t>(elements(spec.dims)));
  for_hidden(spec.dims, hiding.key_dim, first, [&](std::int64_t at) { hidden[static_cast<std::size_t>(at)] = true; });
  visit_elements(spec, [&](std::int64_t index, std::int64_t offset) {
    if (hidden[static_cast<std::size_t>(index)])
      store_element(spec.type, hidden_value(hiding.by), bytes.data() + offset);
  });
  return bytes;
}

// A pattern a row: an input of few rows is tried several times.
std::vector<HiddenTrial> hidden_trials(const KernelGraph& graph, const std::vector<TensorBytes>& inputs) {
  std::vector<HiddenTrial> trials;
  for (const Hiding& hiding : find_hidings(graph)) {
    const TensorSpec& spec = graph.spec(graph.inputs()[hiding.input]);
    const auto rows = static_cast<std::size_t>(hidden_rows(spec.dims, hiding.key_dim));
    const std::size_t most = hiding.key_dim < 0 ? 1 : std::min(kMostHiddenTrials, (kHiddenPatterns + rows - 1) / rows);
    for (std::size_t at = 0; at < most; ++at)
      trials.push_back({hiding.input, hidden_bytes(spec, hiding, at * rows, inputs[hiding.input]), {}});
  }
  return trials;
}

// ---- runs

// Inputs of one magnitude, as bytes; as numbers only while they are computed with, since a layer's weights are large.
class Inputs {
 public:
  Inputs(const KernelGraph& graph, std::uint64_t seed) : graph_(graph), seed_(seed) {}

  Status run(double magnitude, Rounding rounding, ScaledRun* made) {
    if (magnitude != magnitude_) draw(magnitude);
    return evaluate(graph_, values(), &made->outputs, rounding, &made->nonfinite);
  }

  // The graph with one input replaced. What is NaN without that too stays free.
  Status run_hidden(const std::vector<ReferenceOutput>& unhidden, HiddenTrial* trial) {
    ScaledRun exact, naive;
    std::swap(bytes_[trial->input], trial->bytes);
    Status status = run(magnitude_, Rounding::kNone, &exact);
    if (status.ok()) status = run(magnitude_, Rounding::kResults, &naive);
    std::swap(bytes_[trial->input], trial->bytes);
    if (!status.ok()) return status;
    trial->outputs = compare(std::move(exact), naive);
    for (std::size_t at = 0; at < unhidden.size(); ++at) trial->outputs[at].anything = unhidden[at].anything;
    return {};
  }

  double magnitude() const { return magnitude_; }
  const std::vector<TensorBytes>& bytes() const { return bytes_; }
  std::vector<TensorBytes> take_bytes() { return std::move(bytes_); }

 private:
  void draw(double magnitude) {
    magnitude_ = magnitude;
    bytes_.clear();
    for (const int input : graph_.inputs()) {
      const TensorSpec& spec = graph_.spec(input);
      bytes_.emplace_back(static_cast<std::size_t>(tensor_bytes(spec)));
      fill_input(spec, mix(seed_ + bytes_.size()), magnitude, bytes_.back().data());
    }
  }

  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> read;
    for (std::size_t at = 0; at < bytes_.size(); ++at)
      read.push_back(read_tensor(graph_.spec(graph_.inputs()[at]), bytes_[at].data()));
    return read;
  }

  const KernelGraph& graph_;
  const std::uint64_t seed_;
  double magnitude_ = 0;  // no inputs yet
  std::vector<TensorBytes> bytes_;
};

// The largest magnitude at which the yardstick has no more infinities and NaNs than the reference, or the fewest.
Status choose_magnitude(std::int64_t allowed, Inputs* inputs, ScaledRun* naive) {
  double best = 1;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (int halvings = 0; halvings <= kMostHalvings; ++halvings) {
    const double magnitude = std::ldexp(1, -halvings);
    Status status = inputs->run(magnitude, Rounding::kResults, naive);
    if (!status.ok() || naive->nonfinite <= allowed) return status;
    if (naive->nonfinite >= fewest) continue;
    best = magnitude;
    fewest = naive->nonfinite;
  }
  return inputs->run(best, Rounding::kResults, naive);
}

}  // namespace

void fill_input(const TensorSpec& spec, std::uint64_t seed, double magnitude, std::byte* to) {
  const std::array<float, kDraws> values = draws(magnitude);
  std::array<std::array<std::byte, 4>, kDraws> bytes;
  for (std::size_t at = 0; at < kDraws; ++at) store_element(spec.type, values[at], bytes[at].data());
  constexpr std::int64_t kDrawBits = 12, kDrawsAWord = 5;
  const auto size = static_cast<std::size_t>(element_bytes(spec.type));
  std::uint64_t word = 0;
  std::int64_t left = 0;
  std::uint64_t count = 0;
  visit_elements(spec, [&](std::int64_t, std::int64_t offset) {
    if (left-- == 0) {
      word = mix(seed + count++);
      left = kDrawsAWord - 1;
    }
    std::memcpy(to + offset, bytes[word % kDraws].data(), size);
    word >>= kDrawBits;
  });
}

int rotated_sets(const KernelGraph& graph, std::int64_t cache_bytes) {
  std::int64_t bytes = 1;
  for (const int input : graph.inputs()) bytes += tensor_bytes(graph.spec(input));
  const std::int64_t sets = std::min(2 * cache_bytes, kMostInputBytes) / bytes + 1;
  return static_cast<int>(std::clamp<std::int64_t>(sets, 1, kMostSets));
}

Status make_reference(const KernelGraph& graph, std::uint64_t seed, ProgramReference* reference) {
  Inputs inputs(graph, seed);
  ScaledRun exact, naive;
  Status status = inputs.run(1, Rounding::kNone, &exact);
  if (status.ok()) status = choose_magnitude(exact.nonfinite, &inputs, &naive);
  if (status.ok() && inputs.magnitude() != 1) status = inputs.run(inputs.magnitude(), Rounding::kNone, &exact);
  if (!status.ok()) return status;
  ProgramReference made;
  made.magnitude = inputs.magnitude();
  made.outputs = compare(std::move(exact), naive);
  made.hidden = hidden_trials(graph, inputs.bytes());
  for (HiddenTrial& trial : made.hidden)
    if (status = inputs.run_hidden(made.outputs, &trial); !status.ok()) return status;
  made.inputs = inputs.take_bytes();
  *reference = std::move(made);
  return {};
}

}  // namespace gqa
