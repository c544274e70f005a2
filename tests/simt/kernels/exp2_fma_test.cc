// Exp2Fma (jit/device/attention/wgmma_flash/exp2_fma.cuh), run on the CPU: how far its weights are off, which
// exponents it answers for, and that it sees the others.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/half.h"
#include "tests/simt/emulator/kernel.h"

namespace gqa::simt {
namespace {

// A weight alone in a pair's low half, and in its high half; whether they fit, seen as warpgroup_weights.cuh does.
constexpr const char* kKernel = R"(
#include "attention/wgmma_flash/warpgroup_weights.cuh"
using namespace gqa;
extern "C" __global__ void kernel(const float* exponents, u32* out) {
  const float offset[2] = {-1.f, 3.f}, exponent = exponents[blockIdx.x];
  for (int half = 0; half < 2; ++half) {
    Exp2Fma<Element> packed(0.5f, offset);
    const float score = 2 * (exponent - offset[half]), other = 2 * (-2.f - offset[half]);
    const u32 weights = half == 0 ? packed(score, other, half) : packed(other, score, half);
    const u32 all[1][4] = {{weights, 0, 0, 0}};
    const bool fit = packed.all_fit() && (packed.kSeesTwo || are_finite(all));
    out[2 * blockIdx.x + half] = (weights >> 16 * half & 0xffff) | u32{fit} << 16;
  }
}
)";

struct Element {
  DType type;
  const char* name;
  float lowest;          // exponent that is answered for
  float normal;          // from here on weights are off by a share of themselves, at most and as a rule
  float end;             // and to here; further ones are seen
  double most_off, off;  // docs/performance.md
  double least;          // below, by so much at most
};

std::ostream& operator<<(std::ostream& out, const Element& element) { return out << element.name; }

struct Answer {
  double weight;
  bool fits;
};

class PackedExponentials : public ::testing::TestWithParam<Element> {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
    std::string why;
    kernel_ = Kernel::compile(
        "#include \"ptx/element.cuh\"\nusing Element = gqa::" + std::string(GetParam().name) + ";\n" + kKernel,
        "kernel", &why);
    ASSERT_NE(nullptr, kernel_) << why;
  }

  // Of each exponent; the same in both halves.
  std::vector<Answer> answers(const std::vector<float>& exponents) const {
    const Buffer in("in", exponents), out("out", exponents.size() * 2 * sizeof(std::uint32_t));
    void *from = in.data(), *to = out.data();
    void* arguments[] = {&from, &to};
    const auto blocks = static_cast<unsigned>(exponents.size());
    const Status status = kernel_->launch({{blocks, 1, 1}, {1, 1, 1}, 0, arguments}, {});
    EXPECT_TRUE(status.ok()) << status.message();
    const auto words = out.values<std::uint32_t>();
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < exponents.size(); ++i) {
      const float weight = load(GetParam().type, static_cast<std::uint16_t>(words[2 * i]));
      const bool fits = words[2 * i] >> 16 != 0;
      answers.push_back({static_cast<double>(weight), fits});
      if (fits || words[2 * i + 1] >> 16 != 0) {
        EXPECT_EQ(words[2 * i], words[2 * i + 1]) << "halves of " << exponents[i];
      }
    }
    return answers;
  }

 private:
  std::unique_ptr<Kernel> kernel_;
};

// Such that a score minus an offset is the exponent itself.
std::vector<float> exponents_between(float first, float last, int count) {
  std::vector<float> exponents;
  for (int i = 0; i < count; ++i)
    exponents.push_back(first +
                        std::floor(1024 * (last - first) * static_cast<float>(i) / static_cast<float>(count)) / 1024);
  return exponents;
}

TEST_P(PackedExponentials, AreOffByNoMoreThanTheyMayBe) {
  const std::vector<float> exponents = exponents_between(GetParam().normal, GetParam().end, 4099);
  double squares = 0, sum = 0;
  const std::vector<Answer> given = answers(exponents);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double off = given[i].weight / std::exp2(static_cast<double>(exponents[i])) - 1;
    EXPECT_LE(std::fabs(off), GetParam().most_off) << exponents[i];
    EXPECT_TRUE(given[i].fits) << exponents[i];
    squares += off * off;
    sum += off;
  }
  const auto count = static_cast<double>(given.size());
  EXPECT_LE(std::sqrt(squares / count), GetParam().off);
  EXPECT_LE(std::fabs(sum / count), GetParam().off / 4);  // beside weights of the unit they are not too heavy or light
}

TEST_P(PackedExponentials, AreExactAtPowersOfTwo) {
  for (float exponent = GetParam().normal; exponent < GetParam().end; ++exponent)
    EXPECT_EQ(std::exp2(static_cast<double>(exponent)), answers({exponent})[0].weight) << exponent;
}

TEST_P(PackedExponentials, AreNothingOrNextToItBelow) {
  const std::vector<float> exponents = exponents_between(GetParam().lowest, GetParam().normal, 4099);
  const std::vector<Answer> given = answers(exponents);
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_TRUE(given[i].fits) << exponents[i];
    const double right = std::exp2(static_cast<double>(exponents[i]));
    EXPECT_NEAR(right, given[i].weight, GetParam().least + GetParam().most_off * right) << exponents[i];
  }
}

// A weight that is not seen and not 0 would be a wrong one.
TEST_P(PackedExponentials, OthersAreSeen) {
  const float lowest = GetParam().lowest;
  std::vector<float> exponents = {
      1,         1.5F, 2,  2.99F,  3,   4,    5,    5.5F, 6,     6.5F,     6.999F,    7,   8,
      63,        64,   71, 127.5F, 128, 4e3F, 5e4F, 1e6F, 1e30F, INFINITY, -INFINITY, NAN, lowest - 0.015625F,
      lowest - 1};
  for (float below = 2; below < 1e30F; below *= 1.37F) exponents.push_back(lowest - below);
  const std::vector<Answer> given = answers(exponents);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (exponents[i] >= lowest && exponents[i] < GetParam().end) continue;
    EXPECT_TRUE(!given[i].fits || (exponents[i] < lowest && given[i].weight == 0)) << exponents[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Elements, PackedExponentials,
                         ::testing::Values(Element{DType::kF16, "F16", -57, -14, 6, 2.2e-3, 7.2e-4, 0x1p-24},
                                           Element{DType::kBF16, "BF16", -127, -126, 1, 1.4e-2, 4.5e-3, 0x1p-126}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace gqa::simt
