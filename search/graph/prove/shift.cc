// shift.cc: see shift.h.
#include "search/graph/prove/shift.h"

#include <algorithm>

namespace gqa {
namespace {

std::optional<Shift> settled(Shift shift) {
  if (shift.degree != 0 && shift.added != 0) return std::nullopt;
  if (shift.degree == 0 && shift.added == 0) shift.maximum = -1;
  return shift;
}

std::optional<Shift> difference(const Shift& a, const Shift& b, int maximum) {
  if (a.degree != b.degree) return std::nullopt;
  return settled({maximum, a.degree, a.added - b.added});
}

// Products and quotients: degrees add up.
std::optional<Shift> product(const Shift& a, const Shift& b, int sign, int maximum) {
  if (a.added != 0 || b.added != 0) return std::nullopt;
  return settled({maximum, a.degree + sign * b.degree, 0});
}

std::optional<Shift> linear(const OpInfo& row, const Shift& a, const Shift& b, int maximum) {
  switch (row.linear) {
    case Linear::kEach:
      return product(a, b, 1, maximum);
    case Linear::kFirst:
      return product(a, b, -1, maximum);
    case Linear::kAll:
      if (a.added != 0 || b.added != 0 || a.degree != b.degree) return std::nullopt;
      return settled({maximum, a.degree, 0});
    case Linear::kNo:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Shift> shift_of(Op op, const std::vector<Shift>& operands) {
  int maximum = -1;
  for (const Shift& operand : operands) {
    if (operand.free()) continue;
    if (maximum >= 0 && operand.maximum != maximum) return std::nullopt;
    maximum = operand.maximum;
  }
  if (maximum < 0) return Shift();
  const OpInfo& row = info(op);
  const Shift &a = operands[0], &b = operands.size() > 1 ? operands[1] : operands[0];
  if (op == Op::kSub || op == Op::kSubMax) return difference(a, b, maximum);
  if (op == Op::kExp) return a.degree == 0 ? settled({maximum, a.added, 0}) : std::nullopt;
  if (row.kind == OpClass::kView || op == Op::kMask)
    return op == Op::kMask && a.degree != 0 ? std::nullopt : settled(a);
  return linear(row, a, b, maximum);
}

}  // namespace gqa
