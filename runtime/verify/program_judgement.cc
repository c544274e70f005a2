// program_judgement.cc: see program_reference.h: outputs held against the reference.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "runtime/workload/program_reference.h"
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

// NaN where keys are hidden is a row that has none: 0 stands for it too.
bool differs_in_kind(double found, double expected, ElementType type) {
  const double rounded = round_to(expected, type);
  if (std::isnan(expected)) return !std::isnan(found) && found != 0;
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
    } else if (expected.anything[static_cast<std::size_t>(index)]) {
      return;
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
    const double expected = expected_.values[static_cast<std::size_t>(index)];
    *out << "element " << place(spec_.dims, index) << " is "
         << load_element(spec_.type, data_ + offset * element_bytes(spec_.type)) << ", expected ";
    if (std::isnan(expected))
      *out << "nan or 0";
    else
      *out << expected;
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
      verdict.reason = status.message();
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
