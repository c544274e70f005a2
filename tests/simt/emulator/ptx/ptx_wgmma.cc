// ptx_wgmma.cc: products of a warpgroup that run behind its warps. Each warp brings its own 16 rows, so that warps may
// drift apart; what they must say alike is compared. Under late copies a product reads shared memory and gives its
// accumulators back at the wait that covers it; until then they hold poison.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "runtime/element.h"
#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

constexpr std::size_t kMostColumns = 256, kRows = 16, kInner = 16;  // of a warp's part
constexpr std::uint32_t kPoison = 0x7fa55555;  // a signalling NaN: any arithmetic on it changes its bits
constexpr char kOpcode[] = "wgmma.mma_async.sync.aligned.m64n";

// ---- shared-memory descriptors: start address, leading and stride byte offsets in 16 bytes, base offset, swizzle

bool is_swizzled(std::uint64_t descriptor) { return descriptor >> 62 == 1; }
std::uint64_t start_of(std::uint64_t descriptor) { return (descriptor & 0x3fff) << 4; }
std::uint64_t leading_of(std::uint64_t descriptor) { return (descriptor >> 16 & 0x3fff) << 4; }
std::uint64_t stride_of(std::uint64_t descriptor) { return (descriptor >> 32 & 0x3fff) << 4; }

std::uint64_t start_of(const ProductOperand& operand) { return operand.window + start_of(operand.descriptor); }

// Where element (long side, inner) lies before the swizzle, 128-byte rows in groups of 8. Inner first: a row is 64
// inner elements of one of the long side's, groups are a stride apart. Long side first (transposed): a row is 64 of the
// long side at one inner index, groups along the inner dimension a stride apart, the next 64 a leading offset away.
std::uint64_t place_of(const ProductOperand& operand, std::uint64_t along, std::uint64_t inner) {
  const std::uint64_t d = operand.descriptor;
  if (!is_swizzled(d))
    return start_of(operand) + along % 8 * 16 + along / 8 * stride_of(d) + inner % 8 * 2 + inner / 8 * leading_of(d);
  if (!operand.transposed) return start_of(operand) + along % 8 * 128 + along / 8 * stride_of(d) + inner * 2;
  return start_of(operand) + along % 64 * 2 + along / 64 * leading_of(d) + inner % 8 * 128 + inner / 8 * stride_of(d);
}

// What holds `first` .. `first` + `count` of the long side, which lie in one panel.
Range range_of(const ProductOperand& operand, unsigned first, unsigned count) {
  const std::uint64_t begin = place_of(operand, first, 0) & ~std::uint64_t{127};
  return {begin, (place_of(operand, first + count - 1, kInner - 1) | 127) + 1};
}

void check_readable(Emulator& emulator, const Range& range) {
  emulator.shared(range.begin, 128, "wgmma");
  emulator.shared(range.end - 128, 128, "wgmma");
  const std::string who = emulator.hopper().conflict(range, false);
  if (!who.empty()) emulator.fail("a wgmma operand: " + who);
  const std::string unfenced = emulator.hopper().unfenced(range);
  if (!unfenced.empty()) emulator.fail("a wgmma operand: " + unfenced);
}

// `first` .. `first` + `count` of the long side.
ProductOperand operand_of(Emulator& emulator, std::uint64_t descriptor, bool transposed, unsigned first,
                          unsigned count) {
  ProductOperand operand{descriptor, emulator.cluster_rank() * kCtaWindow, transposed, {}};
  if (!is_swizzled(descriptor) && (descriptor >> 62 != 0 || transposed))
    emulator.fail("a wgmma operand of a swizzle, or a transposed one without, that the emulator does not know");
  if (is_swizzled(descriptor) && ((descriptor >> 49 & 7) != 0 || (start_of(descriptor) & 0x380) != 0))
    emulator.fail("a wgmma operand that does not begin at a whole group of 8 swizzled rows");
  const unsigned panel = transposed ? 64 : count;
  for (unsigned done = 0; done < count; done += panel) {
    operand.ranges.push_back(range_of(operand, first + done, std::min(panel, count - done)));
    check_readable(emulator, operand.ranges.back());
  }
  return operand;
}

// ---- one product of one warp

const float* widened(bool bf16) {
  static const auto tables = [] {
    std::array<std::vector<float>, 2> made;
    for (unsigned bits = 0; bits < 65536; ++bits) {
      made[0].push_back(load(ElementType::kF16, static_cast<std::uint16_t>(bits)));
      made[1].push_back(load(ElementType::kBF16, static_cast<std::uint16_t>(bits)));
    }
    return made;
  }();
  return tables[bf16].data();
}

// Elements first .. first + count of the long side: matrix[inner * pitch + i].
void gather(Emulator& emulator, const ProductOperand& operand, bool bf16, unsigned first, unsigned count,
            double* matrix, std::size_t pitch) {
  const float* const value = widened(bf16);
  const char* const base = emulator.shared(operand.ranges[0].begin, 128, "wgmma") - operand.ranges[0].begin;
  for (unsigned i = 0; i < count; ++i)
    for (unsigned k = 0; k < kInner; ++k) {
      std::uint16_t bits;
      const std::uint64_t at = place_of(operand, first + i, k);
      std::memcpy(&bits, base + (is_swizzled(operand.descriptor) ? swizzled(at) : at), 2);
      matrix[k * pitch + i] = static_cast<double>(value[bits]);
    }
}

void gather_registers(const Product& product, double (&a)[kInner][kRows]) {
  const float* const value = widened(product.bf16);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned j = 0; j < 2; ++j) {
        const auto bits = static_cast<std::uint16_t>(product.a_registers[lane * 4 + i] >> 16 * j);
        a[lane % 4 * 2 + i / 2 * 8 + j][lane / 4 + i % 2 * 8] = static_cast<double>(value[bits]);
      }
}

// Products are exact in float64, and so nearly are the sums; how a GPU rounds inside is its own business.
void multiply(Emulator& emulator, const Product& product) {
  const unsigned columns = product.accumulators->columns;
  double a[kInner][kRows];
  static double b[kInner][kMostColumns];
  if (product.a_registers.empty())
    gather(emulator, product.a, product.bf16, product.warp * kRows, kRows, a[0], kRows);
  else
    gather_registers(product, a);
  gather(emulator, product.b, product.bf16, 0, columns, b[0], kMostColumns);
  for (unsigned m = 0; m < kRows; ++m) {
    double sums[kMostColumns] = {};
    for (unsigned k = 0; k < kInner; ++k)
      for (unsigned n = 0; n < columns; ++n) sums[n] += a[k][m] * b[k][n];
    float* const row = &product.accumulators->rows[m * columns];
    for (unsigned n = 0; n < columns; ++n)
      row[n] = static_cast<float>((product.accumulate ? static_cast<double>(row[n]) : 0) +
                                  static_cast<double>(product.sign) * sums[n]);
  }
}

// ---- accumulators: lane l holds, as register i, row l / 4 + i / 2 % 2 * 8 and column i / 4 * 8 + l % 4 * 2 + i % 2

template <typename Use>
void each_register(const Accumulators& accumulators, Use use) {
  const unsigned registers = accumulators.columns / 2;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < registers; ++i) {
      const unsigned row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      use(*accumulators.registers[lane * registers + i], row * accumulators.columns + column);
    }
}

void take(Accumulators& accumulators) {
  accumulators.rows.resize(kRows * accumulators.columns);
  each_register(accumulators, [&](float& value, unsigned at) {
    accumulators.rows[at] = value;
    value = std::bit_cast<float>(kPoison);
  });
}

void give_back(Emulator& emulator, Accumulators& accumulators) {
  each_register(accumulators, [&](float& value, unsigned at) {
    if (std::bit_cast<std::uint32_t>(value) != kPoison)
      emulator.fail("an accumulator was written while products owned it: a wgmma.wait_group is missing");
    value = accumulators.rows[at];
  });
}

void finish(Emulator& emulator, WarpProducts& warp, const Product& product) {
  multiply(emulator, product);
  if (--product.accumulators->products > 0) return;
  give_back(emulator, *product.accumulators);
  warp.owned.remove(product.accumulators);
}

// ---- instructions of whole warps

struct Brought {
  Emulator* emulator;
  const Call* call;
};

const Brought& brought_by(const Meeting& meeting, unsigned lane) {
  return *static_cast<const Brought*>(meeting.payloads[lane]);
}

void together(Emulator& emulator, const Call& call, void (*complete)(const Meeting&)) {
  const Brought mine{&emulator, &call};
  emulator.meet({call.instruction.opcode, true, call.place, 0xffffffffU, 0, {}, complete}, &mine);
}

WarpProducts& products_of_warp(Emulator& emulator) {
  return emulator.hopper().products[static_cast<std::size_t>(emulator.thread().number / 32)];
}

void check_alike(Emulator& emulator, const IssuedProduct& mine) {
  auto& issued = emulator.hopper().issued[static_cast<std::size_t>(emulator.thread().number / 128)];
  const std::size_t number = products_of_warp(emulator).issued++;
  if (number == issued.size()) {
    issued.push_back(mine);
    return;
  }
  const IssuedProduct& other = issued[number];
  if (other.instruction != mine.instruction || other.a != mine.a || other.b != mine.b ||
      other.accumulate != mine.accumulate)
    emulator.fail("the warps of a warpgroup ask for different products");
}

std::shared_ptr<Accumulators> accumulators_of(Emulator& emulator, const Meeting& meeting, unsigned columns) {
  WarpProducts& warp = products_of_warp(emulator);
  auto made = std::make_shared<Accumulators>();
  made->columns = columns;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < columns / 2; ++i) {
      const Call& call = *brought_by(meeting, lane).call;
      made->registers.push_back(static_cast<float*>(call.operands[call.instruction.arguments.at(i).value].written));
    }
  for (const auto& owned : warp.owned) {
    if (owned->registers == made->registers) return owned;
    for (const float* each : owned->registers)
      if (each == made->registers[0]) emulator.fail("a product into some of another's accumulators, which is running");
  }
  if (!warp.fenced) emulator.fail("a product into registers that were the threads' without a wgmma.fence since");
  take(*made);
  warp.owned.push_back(made);
  return made;
}

// Arguments: accumulators; a's descriptor or four registers; b's descriptor; scale-d; the signs of a and b; whether a
// (if in shared memory) and b are transposed.
void issue(const Meeting& meeting) {
  const Brought& first = brought_by(meeting, 0);
  Emulator& emulator = *first.emulator;
  const Call& call = *first.call;
  const unsigned columns =
      static_cast<unsigned>(std::strtoul(&call.instruction.opcode[sizeof kOpcode - 1], nullptr, 10));
  const std::size_t a = columns / 2, count = call.instruction.arguments.size();
  const bool registers = count - a == 4 + 1 + 1 + 3;
  if (!registers && count - a != 1 + 1 + 1 + 4) emulator.fail("a wgmma.mma_async of so many operands is none");
  const std::size_t b = a + (registers ? 4 : 1), signs = b + 2;
  Product product;
  product.warp = static_cast<unsigned>(emulator.thread().number) / 32 % 4;
  product.place = call.place;
  product.bf16 = call.instruction.opcode.find(".bf16") != std::string::npos;
  product.accumulate = call.read(b + 1) != 0;
  for (const std::size_t sign : {signs, signs + 1})
    if (call.read(sign) != 1) product.sign = -product.sign;
  check_alike(emulator, {&call.instruction, registers ? 0 : call.read(a), call.read(b), product.accumulate});
  if (registers) {
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned i = 0; i < 4; ++i)
        product.a_registers.push_back(static_cast<std::uint32_t>(brought_by(meeting, lane).call->read(a + i)));
  } else {
    product.a = operand_of(emulator, call.read(a), call.read(signs + 2) != 0, product.warp * kRows, kRows);
  }
  product.b = operand_of(emulator, call.read(b), call.read(count - 1) != 0, 0, columns);
  product.accumulators = accumulators_of(emulator, meeting, columns);
  ++product.accumulators->products;
  WarpProducts& warp = products_of_warp(emulator);
  if (emulator.schedule().copies == Copies::kEarly)
    finish(emulator, warp, product);
  else
    warp.open.push_back(product);
}

void product(Emulator& emulator, const Call& call) { together(emulator, call, issue); }

void fence(Emulator& emulator, const Call& call) {
  together(emulator, call,
           [](const Meeting& meeting) { products_of_warp(*brought_by(meeting, 0).emulator).fenced = true; });
}

void commit(Emulator& emulator, const Call& call) {
  together(emulator, call, [](const Meeting& meeting) {
    WarpProducts& warp = products_of_warp(*brought_by(meeting, 0).emulator);
    warp.groups.push_back(std::move(warp.open));
    warp.open.clear();
  });
}

// Until at most so many groups, the newest, are on their way. All lanes wait; the first to go on finishes them.
void wait_group(Emulator& emulator, const Call& call) {
  together(emulator, call, [](const Meeting&) {});
  WarpProducts& warp = products_of_warp(emulator);
  const std::size_t pending = call.read(0);
  if (emulator.schedule().copies == Copies::kLate && warp.groups.size() > pending)
    emulator.hopper().wait_until_idle(emulator, "wgmma.wait_group");
  while (warp.groups.size() > pending) {
    const std::vector<Product> group = std::move(warp.groups.front());
    warp.groups.pop_front();
    for (const Product& each : group) finish(emulator, warp, each);
  }
  warp.fenced = false;
}

}  // namespace

const std::vector<Known>& wgmma_instructions() {
  static const auto known = [] {
    std::vector<Known> made = {
        {"wgmma.fence.sync.aligned", fence},
        {"wgmma.commit_group.sync.aligned", commit},
        {"wgmma.wait_group.sync.aligned", wait_group},
    };
    static std::list<std::string> opcodes;
    for (unsigned columns = 8; columns <= kMostColumns; columns += 8)
      for (const char* type : {"f16.f16", "bf16.bf16"}) {
        opcodes.push_back(kOpcode + std::to_string(columns) + "k16.f32." + type);
        made.push_back({opcodes.back().c_str(), product});
      }
    return made;
  }();
  return known;
}

}  // namespace gqa::simt
