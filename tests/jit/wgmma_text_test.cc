// The wgmma wrappers' text: the shape in the instruction's name, as many accumulators as it has, operands numbered in
// the order of the constraints. That the assembler takes them is nvrtc_test.cc's.

#include "jit/wgmma_text.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <set>
#include <string>

namespace gqa {
namespace {

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// The numbers after % in the assembly.
std::set<int> operands(const std::string& text) {
  std::set<int> numbers;
  for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1))
    if (std::isdigit(static_cast<unsigned char>(text[at + 1]))) numbers.insert(std::atoi(text.c_str() + at + 1));
  return numbers;
}

TEST(WgmmaText, SmallestSharedProduct) {
  EXPECT_EQ(shared_product("P", ElementType::kBF16, 16, BLayout::kColumns), R"(struct P {
  static __device__ void multiply(float (&d)[2][4], gqa::u64 a, gqa::u64 b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]),
          "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3])
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
  }
};
)");
}

TEST(WgmmaText, RowsOfBAreTransposedByTheProduct) {
  std::string columns = shared_product("P", ElementType::kF16, 128, BLayout::kColumns);
  const auto at = columns.find("p, 1, 1, 0, 0;");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(columns.replace(at, 14, "p, 1, 1, 0, 1;"), shared_product("P", ElementType::kF16, 128, BLayout::kRows));
}

TEST(WgmmaText, SharedProductsOfEverySize) {
  for (const ElementType dtype : {ElementType::kF16, ElementType::kBF16})
    for (int columns = 16; columns <= 256; columns += 16) {
      const std::string text = shared_product("Scores", dtype, columns, BLayout::kColumns);
      const std::string type(name(dtype));
      EXPECT_NE(text.find("m64n" + std::to_string(columns) + "k16.f32." + type + "." + type + " {"), std::string::npos);
      EXPECT_EQ(count(text, "\"+f\"(d["), columns / 2) << columns;
      EXPECT_EQ(count(text, "\"l\"("), 2);  // both operands are descriptors
      // Accumulators, two descriptors and the flag, all of them used.
      const std::set<int> used = operands(text);
      EXPECT_EQ(static_cast<int>(used.size()), columns / 2 + 3);
      EXPECT_EQ(*used.rbegin(), columns / 2 + 2);
    }
}

TEST(WgmmaText, RegisterProductsOfEverySize) {
  for (const ElementType dtype : {ElementType::kF16, ElementType::kBF16})
    for (int columns = 32; columns <= 256; columns += 16) {
      const std::string text = register_product("Values", dtype, columns, BLayout::kRows);
      EXPECT_NE(text.find("p, 1, 1, 1;"), std::string::npos);
      EXPECT_NE(register_product("Values", dtype, columns, BLayout::kColumns).find("p, 1, 1, 0;"), std::string::npos);
      EXPECT_NE(text.find("m64n" + std::to_string(columns) + "k16"), std::string::npos);
      EXPECT_EQ(count(text, "\"+f\"(d["), columns / 2) << columns;
      EXPECT_EQ(count(text, "\"r\"(a["), 4);  // a in registers
      EXPECT_EQ(count(text, "\"l\"("), 1);
      const std::set<int> used = operands(text);
      EXPECT_EQ(static_cast<int>(used.size()), columns / 2 + 6);
      EXPECT_EQ(*used.rbegin(), columns / 2 + 5);
    }
}

TEST(WgmmaText, EitherProductIsBothOfThem) {
  const auto inside = [](const std::string& text) {
    return text.substr(text.find('{') + 2, text.rfind('}') - 2 - text.find('{'));
  };
  const std::string both = either_product("P", ElementType::kF16, 64, BLayout::kRows);
  EXPECT_NE(both.find(inside(shared_product("P", ElementType::kF16, 64, BLayout::kRows))), std::string::npos);
  EXPECT_NE(both.find(inside(register_product("P", ElementType::kF16, 64, BLayout::kRows))), std::string::npos);
}

TEST(WgmmaText, NameAndDtypeShapeTheText) {
  EXPECT_NE(shared_product("A", ElementType::kF16, 64, BLayout::kColumns),
            shared_product("B", ElementType::kF16, 64, BLayout::kColumns));
  EXPECT_NE(shared_product("A", ElementType::kF16, 64, BLayout::kColumns),
            shared_product("A", ElementType::kBF16, 64, BLayout::kColumns));
  EXPECT_NE(shared_product("A", ElementType::kF16, 64, BLayout::kColumns),
            register_product("A", ElementType::kF16, 64, BLayout::kColumns));
}

}  // namespace
}  // namespace gqa
