// program_reference.cc: see program_reference.h.
#include "runtime/program_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>

#include "search/graph/evaluate.h"

namespace gqa {
namespace {

constexpr int kMostHalvings = 6;
constexpr std::int64_t kMostInputBytes = std::int64_t{1} << 30;
constexpr int kMostSets = 16;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// ---- inputs

// What inputs are drawn from: near normal, a sum of four uniform numbers; never 0, so that one may divide by it. Eight
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

struct Attempt {
  std::vector<std::vector<double>> outputs;
  std::int64_t nonfinite = 0;  // elements on the way to them
};

// Inputs of one magnitude, as bytes; as numbers only while they are computed with, since a layer's weights are large.
class Inputs {
 public:
  Inputs(const KernelGraph& graph, std::uint64_t seed) : graph_(graph), seed_(seed) {}

  Status run(double magnitude, Rounding rounding, Attempt* made) {
    if (magnitude != magnitude_) draw(magnitude);
    return evaluate(graph_, values(), &made->outputs, rounding, &made->nonfinite);
  }

  double magnitude() const { return magnitude_; }
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
  double magnitude_ = 0;  // none drawn yet
  std::vector<TensorBytes> bytes_;
};

// The largest magnitude at which the yardstick has no more infinities and NaNs than the reference, or the fewest.
Status choose_magnitude(std::int64_t allowed, Inputs* inputs, Attempt* naive) {
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

ReferenceOutput compare(std::vector<double> values, const std::vector<double>& naive) {
  ReferenceOutput output;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (!std::isfinite(values[at])) continue;
    output.largest = std::max(output.largest, std::abs(values[at]));
    if (std::isfinite(naive[at])) output.naive_error = std::max(output.naive_error, std::abs(values[at] - naive[at]));
  }
  output.values = std::move(values);
  return output;
}

// ---- the judgement

// The yardstick may be exact by chance (a copy, a sum of one), so some rounding is always allowed: half a unit in the
// last place of a 16-bit type, as verify.cc has it. In float32, where the operators' own approximations show (an exp of
// 10 loses three bits), thirty-two units.
double rounding(ElementType type) {
  constexpr double kRounding[] = {0x1p-12, 0x1p-9, 0x1p-19};
  return kRounding[static_cast<int>(type)];
}

bool is_poison(ElementType type, const std::byte* at) {
  return std::all_of(at, at + element_bytes(type), [](std::byte byte) { return byte == std::byte{kPoison}; });
}

std::int64_t written(const std::byte* begin, std::int64_t bytes) {
  return bytes - std::count(begin, begin + bytes, std::byte{kPoison});
}

// The offset of the first byte written between an output's guards that is none of its elements; -1: none.
std::int64_t stray_in_gaps(const TensorSpec& spec, const std::byte* data) {
  if (spec.strides.empty()) return -1;
  std::vector<bool> owned(static_cast<std::size_t>(tensor_bytes(spec)));
  visit_elements(spec, [&](std::int64_t, std::int64_t offset) {
    for (int i = 0; i < element_bytes(spec.type); ++i) owned[static_cast<std::size_t>(offset + i)] = true;
  });
  for (std::size_t at = 0; at < owned.size(); ++at) {
    if (!owned[at] && data[at] != std::byte{kPoison}) return static_cast<std::int64_t>(at);
  }
  return -1;
}

std::string place(const Dims& dims, std::int64_t index) {
  Dims at;
  for (const std::int64_t stride : row_major_strides(dims)) {
    at.push_back(index / stride);
    index %= stride;
  }
  return to_text(at);
}

// One output's comparison.
struct Findings {
  std::int64_t unwritten = 0, first_unwritten = -1;
  std::int64_t nonfinite = -1;  // an element that is finite in the reference and not here, or the other way
  std::int64_t worst = 0;
  double error = 0;
};

bool differs_in_kind(double found, double expected, ElementType type) {
  const double rounded = round_to(expected, type);
  if (std::isnan(expected)) return false;
  return std::isinf(rounded) ? found != rounded : !std::isfinite(found);
}

Findings examine(const TensorSpec& spec, const ReferenceOutput& expected, const std::byte* data) {
  Findings findings;
  visit_elements(spec, [&](std::int64_t index, std::int64_t offset) {
    const double value = expected.values[static_cast<std::size_t>(index)];
    const double found = static_cast<double>(load_element(spec.type, data + offset));
    const double error = std::abs(found - value);
    if (error <= findings.error) return;  // neither NaN nor infinity comes past here, poison is a NaN
    if (is_poison(spec.type, data + offset)) {
      if (findings.unwritten++ == 0) findings.first_unwritten = index;
    } else if (differs_in_kind(found, value, spec.type)) {
      if (findings.nonfinite < 0) findings.nonfinite = index;
    } else if (std::isfinite(error)) {
      findings.error = error;
      findings.worst = index;
    }
  });
  return findings;
}

// One output's judgement, as the words of a failure: "" if it passes.
class OutputJudge {
 public:
  OutputJudge(const KernelTensor& tensor, const ReferenceOutput& expected, const std::byte* guarded)
      : tensor_(tensor),
        spec_(tensor.spec),
        expected_(expected),
        guarded_(guarded),
        data_(guarded + kGuardBytes),
        findings_(examine(spec_, expected, data_)) {}

  double error() const { return findings_.error; }
  double bound() const { return 2 * std::max(expected_.naive_error, rounding(spec_.type) * expected_.largest); }

  std::string fault() const {
    const std::int64_t bytes = tensor_bytes(spec_);
    const std::int64_t before = written(guarded_, kGuardBytes), after = written(data_ + bytes, kGuardBytes);
    std::ostringstream out;
    out << "output '" << tensor_.name << "': ";
    if (findings_.unwritten > 0) {
      out << findings_.unwritten << " elements were not written, the first at "
          << place(spec_.dims, findings_.first_unwritten) << ": expected each written";
    } else if (before + after > 0) {
      out << before << " bytes before and " << after << " after it were written: expected none";
    } else if (const std::int64_t stray = stray_in_gaps(spec_, data_); stray >= 0) {
      out << "byte " << stray << ", between its rows, was written: expected it untouched";
    } else if (findings_.nonfinite >= 0) {
      describe(findings_.nonfinite, &out);
    } else if (!(error() <= bound())) {
      describe(findings_.worst, &out);
      out << "; the error " << error() << " is over the bound " << bound();
    } else {
      return "";
    }
    return out.str();
  }

 private:
  void describe(std::int64_t index, std::ostringstream* out) const {
    const Dims strides = strides_of(spec_);
    std::int64_t offset = 0, rest = index;
    const Dims row_major = row_major_strides(spec_.dims);
    for (std::size_t at = 0; at < strides.size(); ++at) {
      offset += rest / row_major[at] * strides[at];
      rest %= row_major[at];
    }
    *out << "element " << place(spec_.dims, index) << " is "
         << load_element(spec_.type, data_ + offset * element_bytes(spec_.type)) << ", expected "
         << expected_.values[static_cast<std::size_t>(index)];
  }

  const KernelTensor& tensor_;
  const TensorSpec& spec_;
  const ReferenceOutput& expected_;
  const std::byte* guarded_;
  const std::byte* data_;
  const Findings findings_;
};

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
  Attempt exact, naive;
  Status status = inputs.run(1, Rounding::kNone, &exact);
  if (status.ok()) status = choose_magnitude(exact.nonfinite, &inputs, &naive);
  if (status.ok() && inputs.magnitude() != 1) status = inputs.run(inputs.magnitude(), Rounding::kNone, &exact);
  if (!status.ok()) return status;
  ProgramReference made;
  made.magnitude = inputs.magnitude();
  made.inputs = inputs.take_bytes();
  for (std::size_t at = 0; at < exact.outputs.size(); ++at)
    made.outputs.push_back(compare(std::move(exact.outputs[at]), naive.outputs[at]));
  *reference = std::move(made);
  return {};
}

Verdict judge(const KernelGraph& graph, const ProgramReference& reference, const std::vector<OutputBytes>& outputs) {
  Verdict verdict;
  verdict.passed = true;
  double worst = -1;
  const std::vector<int> tensors = graph.outputs();
  for (std::size_t at = 0; at < tensors.size(); ++at) {
    const OutputJudge output(graph.tensor(tensors[at]), reference.outputs[at], outputs[at].guarded);
    if (const std::string fault = output.fault(); verdict.passed && !fault.empty()) {
      verdict.passed = false;
      verdict.reason = fault;
    }
    const double share = output.bound() > 0 ? output.error() / output.bound() : output.error();
    if (share <= worst) continue;
    worst = share;
    verdict.error = output.error();
    verdict.bound = output.bound();
  }
  return verdict;
}

}  // namespace gqa
