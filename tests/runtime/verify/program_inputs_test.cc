// program_inputs_test.cc: the numbers of one input: their distribution, where they lie, what shares memory, what is
// hidden.
#include "runtime/verify/program_inputs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gqa {
namespace {

TensorBytes filled(const TensorSpec& spec, const InputNumbers& numbers) {
  TensorBytes bytes(static_cast<std::size_t>(tensor_bytes(spec)), std::byte{0xaa});
  numbers.fill({}, bytes.data());
  return bytes;
}

// Laid out and read back, and at the places: the same.
std::vector<double> values_of(const TensorSpec& spec, const InputNumbers& numbers) {
  const std::vector<double> values = read_tensor(spec, filled(spec, numbers).data());
  EXPECT_EQ(numbers.at<double>({}, {}), values);
  return values;
}

TEST(InputNumbers, AreNearNormalAndExactInEveryType) {
  for (const double magnitude : {4096.0, 1.0, 1.0 / 64, 1.0 / 4096}) {
    std::vector<std::vector<double>> values;
    for (const ElementType type : kElementTypes) {
      const TensorSpec spec = {{50, 401}, type};
      values.push_back(values_of(spec, {spec, 7, magnitude}));
    }
    EXPECT_EQ(values[0], values[1]);
    EXPECT_EQ(values[0], values[2]);
    double sum = 0, squares = 0;
    for (const double x : values[0]) {
      sum += x / magnitude;
      squares += x * x / magnitude / magnitude;
      EXPECT_NE(x, 0);
    }
    const auto count = static_cast<double>(values[0].size());
    EXPECT_NEAR(sum / count, 0, 0.03);
    EXPECT_NEAR(squares / count, 1, 0.05);
  }
}

TEST(InputNumbers, LieWhereTheStridesSay) {
  const TensorSpec spec = {{3, 4}, ElementType::kF32, {1, 5}};
  EXPECT_EQ(tensor_bytes(spec), 4 * (2 + 15 + 1));
  const InputNumbers numbers(spec, 3, 1);
  values_of(spec, numbers);
  EXPECT_EQ(filled(spec, numbers)[12], std::byte{0xaa});  // element 3: between two columns of three
}

// A mask that is stretched over heads, windows of a signal: each index has the number of the memory that it reads.
TEST(InputNumbers, AreTheSameWhereIndicesShareMemory) {
  const TensorSpec stretched = {{3, 5, 4}, ElementType::kF16, {0, 4, 1}}, column = {{6, 7}, ElementType::kF32, {1, 0}},
                   windows = {{30, 8}, ElementType::kBF16, {1, 1}};
  const std::vector<double> heads = values_of(stretched, {stretched, 1, 1});
  EXPECT_EQ(std::vector<double>(heads.begin(), heads.begin() + 20), std::vector<double>(heads.end() - 20, heads.end()));
  EXPECT_NE(heads[0], heads[1]);
  const std::vector<double> same = values_of(column, {column, 1, 1});
  EXPECT_EQ(same[7], same[13]);
  EXPECT_NE(same[0], same[7]);
  const std::vector<double> signal = values_of(windows, {windows, 1, 1});
  EXPECT_EQ(signal[1], signal[8]);
  EXPECT_FALSE(overlaps(stretched));
  EXPECT_FALSE(overlaps({{3, 4}, ElementType::kF32, {1, 5}}));
  EXPECT_TRUE(overlaps(windows));
  EXPECT_TRUE(overlaps({{3, 4}, ElementType::kF32, {3, 1}}));
}

// The rows of a mask that is stretched are those that lie in memory.
TEST(InputNumbers, HideKeysOfWhatIsStored) {
  const TensorSpec spec = {{2, 8, 16}, ElementType::kF32, {0, 16, 1}};
  EXPECT_EQ(stored_dims(spec), (Dims{1, 8, 16}));
  InputNumbers numbers(spec, 1, 1);
  const HiddenElements elements(stored_dims(spec), 2, 0);
  numbers.hide({elements, -INFINITY});
  const std::vector<double> values = values_of(spec, numbers);
  for (std::int64_t at = 0; at < 256; ++at)
    EXPECT_EQ(values[static_cast<std::size_t>(at)] == -INFINITY, elements(at % 128)) << at;
}

TEST(InputNumbers, AtPlacesAreThoseOfTheWhole) {
  const TensorSpec spec = {{6, 10}, ElementType::kF16, {1, 6}};
  const InputNumbers numbers(spec, 5, 0.5);
  const std::vector<double> all = values_of(spec, numbers);
  const std::vector<float> few = numbers.at<float>({{1, 4}, {0, 3, 9}}, {});
  ASSERT_EQ(few.size(), 6U);
  EXPECT_EQ(few[1], all[13]);
  EXPECT_EQ(few[5], all[49]);
}

}  // namespace
}  // namespace gqa
