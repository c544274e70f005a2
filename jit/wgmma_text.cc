// wgmma_text.cc: see wgmma_text.h.
#include "jit/wgmma_text.h"

#include <sstream>

namespace gqa {
namespace {

// "%0, %1, ..., %63": a line of 16.
void write_registers(std::ostream& out, int first, int count) {
  for (int i = 0; i < count; ++i) {
    if (i % 16 == 0)
      out << (i == 0 ? "\"" : ",\"\n        \"");
    else
      out << ", ";
    out << "%" << first + i;
  }
}

// `a`: PTX operand of a; `tail`: what follows scale-d; inputs: constraint list after the accumulators.
void write_product(std::ostream& out, ElementType dtype, int columns, const std::string& a_type, const std::string& a,
                   int next, const std::string& tail, const std::string& inputs) {
  const int accumulators = columns / 2;
  const std::string type(name(dtype));
  out << "  static __device__ void multiply(float (&d)[" << columns / 8 << "][4], " << a_type
      << ", gqa::u64 b, bool accumulate) {\n"
      << "    asm volatile(\n"
      << "        \"{\\n.reg .pred p;\\nsetp.ne.b32 p, %" << next + 1 << ", 0;\\n\"\n"
      << "        \"wgmma.mma_async.sync.aligned.m64n" << columns << "k16.f32." << type << "." << type
      << " {\"\n        ";
  write_registers(out, 0, accumulators);
  out << "}, " << a << ", %" << next << ", p, " << tail << ";\\n}\"\n        : ";
  for (int i = 0; i < accumulators; ++i) {
    out << (i == 0 ? "" : i % 4 == 0 ? ",\n          " : ", ") << "\"+f\"(d[" << i / 4 << "][" << i % 4 << "])";
  }
  out << "\n        : " << inputs << ", \"l\"(b), \"r\"(static_cast<int>(accumulate)));\n  }\n";
}

void write_shared(std::ostream& out, ElementType dtype, int columns, BLayout b) {
  const int first = columns / 2;
  write_product(out, dtype, columns, "gqa::u64 a", "%" + std::to_string(first), first + 1,
                b == BLayout::kRows ? "1, 1, 0, 1" : "1, 1, 0, 0", "\"l\"(a)");
}

void write_register(std::ostream& out, ElementType dtype, int columns, BLayout b) {
  const int first = columns / 2;
  std::ostringstream a;
  a << "{";
  for (int i = 0; i < 4; ++i) a << (i == 0 ? "%" : ", %") << first + i;
  a << "}";
  write_product(out, dtype, columns, "const gqa::u32 (&a)[4]", a.str(), first + 4,
                b == BLayout::kRows ? "1, 1, 1" : "1, 1, 0", "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])");
}

template <typename... Writers>
std::string product(const std::string& name, ElementType dtype, int columns, BLayout b, Writers... write) {
  std::ostringstream out;
  out << "struct " << name << " {\n";
  (write(out, dtype, columns, b), ...);
  out << "};\n";
  return out.str();
}

}  // namespace

std::string shared_product(const std::string& name, ElementType dtype, int columns, BLayout b) {
  return product(name, dtype, columns, b, write_shared);
}

std::string register_product(const std::string& name, ElementType dtype, int columns, BLayout b) {
  return product(name, dtype, columns, b, write_register);
}

std::string either_product(const std::string& name, ElementType dtype, int columns, BLayout b) {
  return product(name, dtype, columns, b, write_shared, write_register);
}

}  // namespace gqa
