// op_test.cc: the table of operators, and attributes as text.
#include "search/graph/ir/op.h"

#include <gtest/gtest.h>

#include <set>

namespace gqa {
namespace {

TEST(Op, EachRowIsFoundByItsName) {
  std::set<std::string_view> names;
  for (int at = 0; at <= static_cast<int>(Op::kCustom); ++at) {
    const Op op = static_cast<Op>(at);
    ASSERT_EQ(info(op).op, op);
    ASSERT_EQ(find_op(name(op)), &info(op));
    EXPECT_TRUE(names.insert(name(op)).second) << name(op);
    EXPECT_LE(info(op).least, info(op).most);
    EXPECT_TRUE(!info(op).commutes || info(op).most == 2) << name(op);
  }
  EXPECT_EQ(find_op("attention"), nullptr);
}

TEST(Op, AttributesReadBackAsWritten) {
  Attributes attributes;
  attributes.factor = 0.1;
  attributes.count = 4096;
  EXPECT_EQ(to_text(attributes), " c=0.1 count=4096");
  Attributes read;
  EXPECT_TRUE(parse_attribute(Op::kScale, "c=0.1", &read).ok());
  EXPECT_TRUE(parse_attribute(Op::kScale, "count=4096", &read).ok());
  EXPECT_EQ(read, attributes);
  EXPECT_TRUE(parse_attribute(Op::kMask, "left=inf", &read).ok());
  EXPECT_EQ(read.left, kUnbounded);
  EXPECT_TRUE(parse_attribute(Op::kClamp, "lo=-inf", &read).ok());
  EXPECT_EQ(read.low, -kInfinity);
}

TEST(Op, RefusesAttributesOfOthers) {
  Attributes attributes;
  EXPECT_EQ(parse_attribute(Op::kExp, "c=2", &attributes).message(),
            "exp has no attribute 'c=2': expected none, as key=value");
  EXPECT_EQ(parse_attribute(Op::kScale, "c=two", &attributes).message(),
            "scale c: a number 'two': expected decimal digits, inf or -inf");
  attributes.dim = 1;
  EXPECT_EQ(check(Op::kMatmul, attributes).message(),
            "matmul does not read attribute dim: expected it unset; it reads ta, tb");
  Attributes bounds;
  bounds.low = 1;
  bounds.high = 0;
  EXPECT_FALSE(check(Op::kClamp, bounds).ok());
}

}  // namespace
}  // namespace gqa
