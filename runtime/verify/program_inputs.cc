// program_inputs.cc: see program_inputs.h.
#include "runtime/verify/program_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/verify/sampled_places.h"
#include "search/graph/prove/evaluate.h"

namespace gqa {
namespace {

constexpr std::int64_t kPiece = 1 << 14;  // elements that are worth a turn of a thread
constexpr std::uint64_t kDrawBits = 12, kDrawsAWord = 5;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Calls visit(first, count) for rows of so many elements, many rows a turn of a thread.
template <typename Visit>
void each_rows(std::int64_t rows, std::int64_t columns, const Workers& workers, const Visit& visit) {
  const std::int64_t piece = std::max<std::int64_t>(1, kPiece / columns);
  workers.each((rows + piece - 1) / piece,
               [&](std::int64_t at) { visit(at * piece, std::min(piece, rows - at * piece)); });
}

// Row-major strides of the stored dimensions: 0 where the tensor's is.
Dims index_strides(const TensorSpec& spec) {
  const Dims dims = stored_dims(spec);
  Dims strides = row_major_strides(dims);
  for (std::size_t at = 0; at < dims.size(); ++at)
    if (dims[at] != spec.dims[at]) strides[at] = 0;
  return strides;
}

}  // namespace

Dims stored_dims(const TensorSpec& spec) {
  Dims dims = spec.dims;
  const Dims strides = strides_of(spec);
  for (std::size_t at = 0; at < dims.size(); ++at)
    if (strides[at] == 0) dims[at] = 1;
  return dims;
}

bool overlaps(const TensorSpec& spec) {
  const Dims strides = strides_of(spec), dims = stored_dims(spec);
  std::vector<std::size_t> order(dims.size());
  for (std::size_t at = 0; at < order.size(); ++at) order[at] = at;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t span = 1;  // of the dimensions so far, in elements
  for (const std::size_t at : order) {
    if (dims[at] == 1) continue;
    if (strides[at] < span) return true;
    span += (dims[at] - 1) * strides[at];
  }
  return false;
}

// A sum of four uniform numbers; never 0, so that one may divide by it. Eight significant bits and no finer than 2^-9,
// so that each, also times 2^-12, is exact in every type.
const std::array<float, InputNumbers::kDraws>& InputNumbers::draws() {
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

// Which of the draws stands at an offset, in elements: several of one word, which neighbours find made.
class InputNumbers::Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::size_t operator()(std::int64_t offset) {
    const auto at = static_cast<std::uint64_t>(offset), index = at / kDrawsAWord;
    if (index != index_) word_ = mix(seed_ + (index_ = index));
    return (word_ >> (kDrawBits * (at % kDrawsAWord))) % (std::size_t{1} << kDrawBits);
  }

 private:
  const std::uint64_t seed_;
  std::uint64_t index_ = ~std::uint64_t{0}, word_ = 0;
};

InputNumbers::InputNumbers(const TensorSpec& spec, std::uint64_t seed, double magnitude, double centre)
    : spec_(spec), seed_(mix(seed)), numbers_() {
  for (std::size_t at = 0; at < kDraws; ++at)
    numbers_[at] = static_cast<float>(round_to(centre + static_cast<double>(draws()[at]) * magnitude, spec.type));
}

template <typename Real>
std::vector<Real> InputNumbers::at(const std::vector<Indices>& indices, const Workers& workers) const {
  const SampledPlaces offsets(spec_.dims, strides_of(spec_), indices),
      stored(spec_.dims, index_strides(spec_), indices);
  const std::int64_t columns = offsets.dims().back();
  std::vector<Real> read(static_cast<std::size_t>(elements(offsets.dims())));
  each_rows(offsets.rows(), columns, workers, [&](std::int64_t first, std::int64_t count) {
    Real* to = read.data() + first * columns;
    Draws draw(seed_);
    Indices row_indices;
    for (std::int64_t row = first; row < first + count; ++row) {
      if (!hidden_) {
        offsets.visit_row(row, [&](std::int64_t offset) { *to++ = static_cast<Real>(numbers_[draw(offset)]); });
        continue;
      }
      row_indices.clear();
      stored.visit_row(row, [&](std::int64_t index) { row_indices.push_back(index); });
      auto index = row_indices.begin();
      offsets.visit_row(row, [&](std::int64_t offset) {
        const bool hides = hidden_->elements(*index++);
        *to++ = static_cast<Real>(hides ? hidden_->value : numbers_[draw(offset)]);
      });
    }
  });
  return read;
}

template std::vector<float> InputNumbers::at(const std::vector<Indices>&, const Workers&) const;
template std::vector<double> InputNumbers::at(const std::vector<Indices>&, const Workers&) const;

void InputNumbers::fill(const Workers& workers, std::byte* to) const {
  const Dims strides = strides_of(spec_), dims = stored_dims(spec_), outer = outer_dims(dims);
  const std::int64_t size = element_bytes(spec_.type), columns = dims.back();
  std::array<std::array<std::byte, 4>, kDraws> bytes;
  for (std::size_t at = 0; at < kDraws; ++at) store_element(spec_.type, numbers_[at], bytes[at].data());
  const auto write_row = [&](std::int64_t row, std::int64_t first, Draws* draw) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t offset = first + j * strides.back();
      const std::byte* from = bytes[(*draw)(offset)].data();
      std::byte* element = to + offset * size;
      if (hidden_ && hidden_->elements(row * columns + j))
        store_element(spec_.type, hidden_->value, element);
      else if (size == 2)
        std::memcpy(element, from, 2);
      else
        std::memcpy(element, from, 4);
    }
  };
  // Elements that overlap are written more than once: by one thread.
  const Workers& writers = overlaps(spec_) ? Workers() : workers;
  each_rows(elements(outer), columns, writers, [&](std::int64_t row, std::int64_t count) {
    Draws draw(seed_);
    walk_part<1>(outer, {strides}, row, count, [&](const auto& at) { write_row(row++, at[0], &draw); });
  });
}

}  // namespace gqa
