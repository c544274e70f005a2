// program_judgement.cc: see program_reference.h: outputs held against the reference.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>

#include "runtime/verify/program_reference.h"
#include "runtime/verify/sampled_places.h"
#include "search/graph/prove/evaluate.h"

namespace gqa {
namespace {

// The yardstick may be exact by chance (a copy, a sum of one), so some rounding is always allowed: half a unit in the
// last place of a 16-bit type, as verify.cc has it. In float32, where the operators' own approximations show (an exp of
// 10 loses three bits), thirty-two units.
double rounding(ElementType type) {
  constexpr double kRounding[] = {0x1p-12, 0x1p-9, 0x1p-19};
  return kRounding[static_cast<int>(type)];
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

// One output's comparison. Elements by their row-major numbers; -1: none.
struct Element {
  std::int64_t index = -1;
  double expected = 0;
};
struct Findings {
  std::int64_t unwritten = 0, first_unwritten = -1;
  std::int64_t first_nonfinite = -1;  // of all elements
  Element differs;                    // sampled; finite in the reference and not here, or the other way
  Element worst;                      // sampled
  double error = 0;
};

// NaN where keys are hidden is a row that has none: 0 stands for it too.
bool differs_in_kind(double found, double expected, ElementType type) {
  const double rounded = round_to(expected, type);
  if (std::isnan(expected)) return !std::isnan(found) && found != 0;
  return std::isinf(rounded) ? found != rounded : !std::isfinite(found);
}

// An element's bits: the poison has all of them, what is not finite those of the exponent.
template <typename Bits>
void scan_row(const std::byte* row, std::int64_t step, std::int64_t size, Bits exponent, std::int64_t* unwritten,
              std::int64_t* nonfinite) {
  for (std::int64_t j = 0; j < size; ++j) {
    Bits bits = 0;
    std::memcpy(&bits, row + j * step, sizeof bits);
    *unwritten += bits == static_cast<Bits>(~Bits{0});
    *nonfinite += (bits & exponent) == exponent;
  }
}

// All elements of a row that hold the poison, and all that are neither that nor finite.
void scan_row(ElementType type, const std::byte* row, std::int64_t step, std::int64_t size, std::int64_t* unwritten,
              std::int64_t* nonfinite) {
  *unwritten = *nonfinite = 0;
  if (type == ElementType::kF32)
    scan_row<std::uint32_t>(row, step, size, 0x7f800000U, unwritten, nonfinite);
  else
    scan_row<std::uint16_t>(row, step, size, type == ElementType::kBF16 ? 0x7f80 : 0x7c00, unwritten, nonfinite);
  *nonfinite -= *unwritten;
}

// Every element of the output.
void scan(const TensorSpec& spec, const std::byte* data, Findings* findings) {
  const Dims strides = strides_of(spec);
  const std::int64_t bytes = element_bytes(spec.type), step = strides.back() * bytes;
  std::int64_t index = 0, unwritten = 0, nonfinite = 0;
  walk_rows<1>(spec.dims, {strides}, [&](const auto& at, std::int64_t size) {
    const std::byte* row = data + at[0] * bytes;
    scan_row(spec.type, row, step, size, &unwritten, &nonfinite);
    const bool news =
        (unwritten > 0 && findings->first_unwritten < 0) || (nonfinite > 0 && findings->first_nonfinite < 0);
    findings->unwritten += unwritten;
    for (std::int64_t j = 0; news && j < size; ++j) {
      scan_row(spec.type, row + j * step, step, 1, &unwritten, &nonfinite);
      if (unwritten > 0 && findings->first_unwritten < 0) findings->first_unwritten = index + j;
      if (nonfinite > 0 && findings->first_nonfinite < 0) findings->first_nonfinite = index + j;
    }
    index += size;
  });
}

// A sampled element; what holds the poison is scan()'s to find.
void compare(ElementType type, const Element& element, double found, Findings* findings) {
  const double error = std::abs(found - element.expected);
  if (error <= findings->error) return;  // neither NaN nor infinity comes past here
  if (differs_in_kind(found, element.expected, type)) {
    if (findings->differs.index < 0) findings->differs = element;
  } else if (std::isfinite(error)) {
    findings->error = error;
    findings->worst = element;
  }
}

Findings examine(const TensorSpec& spec, const ReferenceOutput& expected, const std::byte* data) {
  Findings findings;
  scan(spec, data, &findings);
  const SampledPlaces places(spec.dims, row_major_strides(spec.dims), expected.at);
  const SampledPlaces bytes(spec.dims, strides_of(spec), expected.at);
  std::vector<std::int64_t> indices;
  std::size_t at = 0;
  for (std::int64_t row = 0; row < places.rows(); ++row) {
    indices.clear();
    places.visit_row(row, [&](std::int64_t index) { indices.push_back(index); });
    auto index = indices.begin();
    bytes.visit_row(row, [&](std::int64_t offset) {
      const Element element = {*index++, expected.values[at]};
      if (expected.anything[at++]) return;
      const float found = load_element(spec.type, data + offset * element_bytes(spec.type));
      compare(spec.type, element, static_cast<double>(found), &findings);
    });
  }
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
    } else if (findings_.differs.index >= 0) {
      describe(findings_.differs, &out);
    } else if (expected_.finite && findings_.first_nonfinite >= 0) {
      describe(findings_.first_nonfinite, &out);
      out << "a finite number, as the " << expected_.values.size() << " elements are that were sampled";
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
    const Dims strides = strides_of(spec_), row_major = row_major_strides(spec_.dims);
    std::int64_t offset = 0, rest = index;
    for (std::size_t at = 0; at < strides.size(); ++at) {
      offset += rest / row_major[at] * strides[at];
      rest %= row_major[at];
    }
    *out << "element " << place(spec_.dims, index) << " is "
         << load_element(spec_.type, data_ + offset * element_bytes(spec_.type)) << ", expected ";
  }

  void describe(const Element& element, std::ostringstream* out) const {
    describe(element.index, out);
    if (std::isnan(element.expected))
      *out << "nan or 0";
    else
      *out << element.expected;
  }

  const KernelTensor& tensor_;
  const TensorSpec& spec_;
  const ReferenceOutput& expected_;
  const std::byte* guarded_;
  const std::byte* data_;
  const Findings findings_;
};

}  // namespace

Verdict judge(const KernelGraph& graph, const std::vector<ReferenceOutput>& expected,
              const std::vector<OutputBytes>& outputs) {
  Verdict verdict;
  verdict.passed = true;
  double worst = -1;
  const std::vector<int> tensors = graph.outputs();
  for (std::size_t at = 0; at < tensors.size(); ++at) {
    const OutputJudge output(graph.tensor(tensors[at]), expected[at], outputs[at].guarded);
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

Verdict verify(const KernelGraph& graph, const ProgramReference& reference, const RunTrial& run) {
  Verdict worst;
  for (std::size_t trial = 0; trial <= reference.hidden.size(); ++trial) {
    Verdict verdict;
    std::vector<OutputBytes> outputs;
    if (Status status = run(trial, &outputs); !status.ok())
      verdict = {false, 0, 0, status.message(), status.code() == Code::kOutOfMemory};
    else
      verdict = judge(graph, trial == 0 ? reference.outputs : reference.hidden[trial - 1].outputs, outputs);
    if (!verdict.passed) {
      if (trial > 0) {
        const int input = graph.inputs()[reference.hidden[trial - 1].input];
        verdict.reason = "where input '" + graph.tensor(input).name + "' hides keys: " + verdict.reason;
      }
      return verdict;
    }
    if (trial == 0 || verdict.error * worst.bound > worst.error * verdict.bound) worst = verdict;
  }
  return worst;
}

}  // namespace gqa
