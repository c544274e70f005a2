// program_check.cc: see program_reference.h: outputs compared with the reference.
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
  RowErrors rows;                     // by the first of their sampled elements
};

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
void compare(ElementType type, const Element& element, double found, std::int64_t at, RowError* row,
             Findings* findings) {
  if (differs_in_kind(found, element.expected, type)) {
    if (findings->differs.index < 0) findings->differs = element;
  } else if (const double error = found - element.expected; std::isfinite(error)) {
    row->add(error, at);
  }
}

Findings examine(const TensorSpec& spec, const ReferenceOutput& expected, const std::byte* data) {
  Findings findings;
  scan(spec, data, &findings);
  const SampledPlaces places(spec.dims, row_major_strides(spec.dims), expected.at);
  const SampledPlaces bytes(spec.dims, strides_of(spec), expected.at);
  const std::int64_t together = rows_together(places.dims().back());
  std::vector<std::int64_t> indices;
  RowError errors;
  std::size_t at = 0, first = 0;
  for (std::int64_t row = 0; row < places.rows(); ++row) {
    indices.clear();
    places.visit_row(row, [&](std::int64_t index) { indices.push_back(index); });
    auto index = indices.begin();
    bytes.visit_row(row, [&](std::int64_t offset) {
      const Element element = {*index++, expected.values[at]};
      if (expected.anything[at++]) return;
      const float found = load_element(spec.type, data + offset * element_bytes(spec.type));
      compare(spec.type, element, static_cast<double>(found), static_cast<std::int64_t>(at - 1), &errors, &findings);
    });
    if ((row + 1) % together != 0 && row + 1 < places.rows()) continue;
    findings.rows.add(static_cast<std::int64_t>(first), expected.units[static_cast<std::size_t>(row / together)],
                      errors);
    errors = {};
    first = at;
  }
  return findings;
}

// One output's comparison, in words.
class OutputCheck {
 public:
  OutputCheck(const KernelTensor& tensor, const ReferenceOutput& expected, const std::byte* guarded)
      : tensor_(tensor),
        spec_(tensor.spec),
        expected_(expected),
        guarded_(guarded),
        data_(guarded + kGuardBytes),
        findings_(examine(spec_, expected, data_)) {}

  Measured measured(const std::string& where) const {
    Measured output;
    output.output = where + "output '" + tensor_.name + "'";
    output.unwritten = findings_.unwritten;
    if (findings_.unwritten > 0) output.first_unwritten = place(spec_.dims, findings_.first_unwritten);
    output.stray = stray();
    if (findings_.differs.index >= 0)
      output.other_kind = describe(findings_.differs);
    else if (expected_.finite && findings_.first_nonfinite >= 0)
      output.other_kind = describe(findings_.first_nonfinite) + "a finite number, as the " +
                          std::to_string(expected_.values.size()) + " elements are that were sampled";
    output.errors = judged_rows(findings_.rows, describe_row(findings_.rows.worst_row),
                                describe(sampled(findings_.rows.worst_element_at)));
    return output;
  }

 private:
  std::string stray() const {
    const std::int64_t before = written(guarded_, kGuardBytes);
    const std::int64_t after = written(data_ + tensor_bytes(spec_), kGuardBytes);
    std::ostringstream out;
    if (before + after > 0)
      out << before << " bytes before and " << after << " after it were written: expected none";
    else if (const std::int64_t at = stray_in_gaps(spec_, data_); at >= 0)
      out << "byte " << at << ", between its rows, was written: expected it untouched";
    return out.str();
  }

  // An element of the sample, by its number in it.
  Element sampled(std::int64_t at) const {
    const SampledPlaces places(spec_.dims, row_major_strides(spec_.dims), expected_.at);
    const std::int64_t columns = places.dims().back();
    std::vector<std::int64_t> indices;
    places.visit_row(at / columns, [&](std::int64_t index) { indices.push_back(index); });
    return {indices[static_cast<std::size_t>(at % columns)], expected_.values[static_cast<std::size_t>(at)]};
  }

  std::string describe_row(std::int64_t first) const {
    return "row of element " + place(spec_.dims, sampled(first).index);
  }

  std::string describe(std::int64_t index) const {
    const Dims strides = strides_of(spec_), row_major = row_major_strides(spec_.dims);
    std::int64_t offset = 0, rest = index;
    for (std::size_t at = 0; at < strides.size(); ++at) {
      offset += rest / row_major[at] * strides[at];
      rest %= row_major[at];
    }
    std::ostringstream out;
    out << "element " << place(spec_.dims, index) << " is "
        << load_element(spec_.type, data_ + offset * element_bytes(spec_.type)) << ", expected ";
    return out.str();
  }

  std::string describe(const Element& element) const {
    std::ostringstream out;
    out << describe(element.index);
    if (std::isnan(element.expected))
      out << "nan or 0";
    else
      out << element.expected;
    return out.str();
  }

  const KernelTensor& tensor_;
  const TensorSpec& spec_;
  const ReferenceOutput& expected_;
  const std::byte* guarded_;
  const std::byte* data_;
  const Findings findings_;
};

}  // namespace

std::vector<Measured> measured(const KernelGraph& graph, const std::vector<ReferenceOutput>& expected,
                               const std::vector<OutputBytes>& outputs, const std::string& where) {
  std::vector<Measured> all;
  const std::vector<int> tensors = graph.outputs();
  for (std::size_t at = 0; at < tensors.size(); ++at)
    all.push_back(OutputCheck(graph.tensor(tensors[at]), expected[at], outputs[at].guarded).measured(where));
  return all;
}

Verdict verify(const KernelGraph& graph, const ProgramReference& reference, const RunTrial& run) {
  return verify(reference.trials.size() + 1, [&](std::size_t trial, std::vector<Measured>* all) -> Status {
    std::vector<OutputBytes> outputs;
    if (Status status = run(trial, &outputs); !status.ok()) return status;
    if (trial == 0)
      *all = measured(graph, reference.outputs, outputs);
    else
      *all = measured(graph, reference.trials[trial - 1].outputs, outputs, reference.trials[trial - 1].where);
    return {};
  });
}

}  // namespace gqa
