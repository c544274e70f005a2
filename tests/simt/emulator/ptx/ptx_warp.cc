// ptx_warp.cc: instructions of a whole warp: 8x8 tiles between shared memory and registers, products on tensor cores,
// words of shared memory.
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/element.h"
#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

// All lanes come, each with its Call; the last runs `complete`.
void together(Emulator& emulator, const Call& call, void (*complete)(const Meeting&)) {
  emulator.meet({call.instruction.opcode, true, call.place, 0xffffffffU, 0, {}, complete}, &call);
}

const Call& call_of(const Meeting& meeting, unsigned lane) { return *static_cast<const Call*>(meeting.payloads[lane]); }

// ---- ldmatrix and stmatrix: lane i holds the address of row i % 8 of tile i / 8, and elements 2 (i % 4) and the next
// of row i / 4 of every tile; transposed, of column i / 4.

// One 8x8 tile's elements, through the 16-byte rows that lanes 8 tile .. 8 tile + 7 point at.
struct Tile {
  char* rows[8];

  std::uint16_t get(unsigned row, unsigned column) const {
    std::uint16_t bits;
    std::memcpy(&bits, rows[row] + 2 * column, 2);
    return bits;
  }
  void set(unsigned row, unsigned column, std::uint16_t bits) const { std::memcpy(rows[row] + 2 * column, &bits, 2); }
};

// A lane's address, checked by the lane itself before it waits, replaces what it brings.
struct Matrices {
  const Call* call;
  char* row;
};

const Matrices& matrices_of(const Meeting& meeting, unsigned lane) {
  return *static_cast<const Matrices*>(meeting.payloads[lane]);
}

template <unsigned kTiles, bool kTransposed>
void load_tiles(const Meeting& meeting) {
  for (unsigned t = 0; t < kTiles; ++t) {
    Tile tile;
    for (unsigned row = 0; row < 8; ++row) tile.rows[row] = matrices_of(meeting, 8 * t + row).row;
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned major = lane / 4, minor = lane % 4 * 2;
      const std::uint32_t low = kTransposed ? tile.get(minor, major) : tile.get(major, minor);
      const std::uint32_t high = kTransposed ? tile.get(minor + 1, major) : tile.get(major, minor + 1);
      matrices_of(meeting, lane).call->write(t, high << 16 | low);
    }
  }
}

template <unsigned kTiles, bool kTransposed>
void store_tiles(const Meeting& meeting) {
  for (unsigned t = 0; t < kTiles; ++t) {
    Tile tile;
    for (unsigned row = 0; row < 8; ++row) tile.rows[row] = matrices_of(meeting, 8 * t + row).row;
    for (unsigned lane = 0; lane < 32; ++lane) {
      const std::uint64_t pair = matrices_of(meeting, lane).call->read(1 + t);
      const unsigned major = lane / 4, minor = lane % 4 * 2;
      for (unsigned i = 0; i < 2; ++i) {
        const auto bits = static_cast<std::uint16_t>(pair >> 16 * i);
        if (kTransposed)
          tile.set(minor + i, major, bits);
        else
          tile.set(major, minor + i, bits);
      }
    }
  }
}

template <unsigned kTiles, bool kTransposed, bool kStore>
void matrices(Emulator& emulator, const Call& call) {
  const unsigned lane = static_cast<unsigned>(emulator.thread().number) % 32;
  Matrices mine{&call, nullptr};
  // Only so many lanes' addresses are read.
  if (lane < 8 * kTiles) {
    mine.row = emulator.shared(call.read(kStore ? 0 : kTiles), 16, kStore ? "stmatrix" : "ldmatrix");
    emulator.check_race(kStore ? Emulator::Access::kWrite : Emulator::Access::kReadOfWarp, mine.row, 16);
    if (kStore) emulator.hopper().plain_store(emulator, {call.read(0), call.read(0) + 16});
  }
  emulator.meet({call.instruction.opcode,
                 true,
                 call.place,
                 0xffffffffU,
                 0,
                 {},
                 kStore ? store_tiles<kTiles, kTransposed> : load_tiles<kTiles, kTransposed>},
                &mine);
}

// ---- mma.m16n8k16: d = a b + c. Lane i, with g = i / 4 and t = 2 (i % 4), holds pairs along k (a, b) or along a row:
// a: (g, t), (g + 8, t), (g, t + 8), (g + 8, t + 8); b: (t, g), (t + 8, g); c and d: (g, t), (g + 8, t).

struct Product {
  float a[16][16], b[8][16], c[16][8];  // b by columns
};

template <ElementType kType>
void take_pair(float* to, std::uint64_t bits) {
  to[0] = load(kType, static_cast<std::uint16_t>(bits));
  to[1] = load(kType, static_cast<std::uint16_t>(bits >> 16));
}

// Arguments: d 0-3, a 4-7, b 8-9, c 10-13.
template <ElementType kType>
void multiply(const Meeting& meeting) {
  Product p;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const Call& call = call_of(meeting, lane);
    const unsigned g = lane / 4, t = lane % 4 * 2;
    for (unsigned i = 0; i < 4; ++i) take_pair<kType>(&p.a[g + i % 2 * 8][t + i / 2 * 8], call.read(4 + i));
    for (unsigned i = 0; i < 2; ++i) take_pair<kType>(&p.b[g][t + i * 8], call.read(8 + i));
    for (unsigned i = 0; i < 4; ++i) p.c[g + i / 2 * 8][t + i % 2] = call.read_float(10 + i);
  }
  for (unsigned m = 0; m < 16; ++m)
    for (unsigned n = 0; n < 8; ++n) {
      double sum = 0;  // products are exact in it; how a GPU rounds inside is its own business
      for (unsigned k = 0; k < 16; ++k) sum += static_cast<double>(p.a[m][k]) * static_cast<double>(p.b[n][k]);
      p.c[m][n] = static_cast<float>(p.c[m][n] + sum);
    }
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      call_of(meeting, lane).write_float(i, p.c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
}

template <ElementType kType>
void product(Emulator& emulator, const Call& call) {
  together(emulator, call, multiply<kType>);
}

// ---- mma.m16n8k8 of tf32: the same with t = i % 4, an element where there is a pair, and t + 4 where there is t + 8;
// c and d as above. What is added up is cut off behind float32's last bit.

constexpr std::uint32_t kTf32Bits = 0xffffe000U;

float tf32(std::uint64_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) & kTf32Bits); }

// Towards zero.
float cut_off(double exact) {
  const auto nearest = static_cast<float>(exact);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(exact) ? std::nextafter(nearest, 0.F) : nearest;
}

void multiply_tf32(const Meeting& meeting) {
  float a[16][8], b[8][8], d[16][8];  // b by columns
  for (unsigned lane = 0; lane < 32; ++lane) {
    const Call& call = call_of(meeting, lane);
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; ++i) a[g + i % 2 * 8][t + i / 2 * 4] = tf32(call.read(4 + i));
    for (unsigned i = 0; i < 2; ++i) b[g][t + i * 4] = tf32(call.read(8 + i));
    for (unsigned i = 0; i < 4; ++i) d[g + i / 2 * 8][2 * t + i % 2] = call.read_float(10 + i);
  }
  for (unsigned m = 0; m < 16; ++m)
    for (unsigned n = 0; n < 8; ++n) {
      double sum = static_cast<double>(d[m][n]);
      for (unsigned k = 0; k < 8; ++k) sum += static_cast<double>(a[m][k]) * static_cast<double>(b[n][k]);
      d[m][n] = cut_off(sum);
    }
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      call_of(meeting, lane).write_float(i, d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
}

void product_tf32(Emulator& emulator, const Call& call) { together(emulator, call, multiply_tf32); }

// ld.shared of a word.
void load_shared(Emulator& emulator, const Call& call) {
  char* const from = emulator.shared(call.read(1), 4, "ld.shared");
  emulator.check_race(Emulator::Access::kRead, from, 4);
  std::uint32_t word = 0;
  std::memcpy(&word, from, 4);
  call.write(0, word);
}

}  // namespace

const std::vector<Known>& warp_instructions() {
  static const std::vector<Known> known = {
      {"ldmatrix.sync.aligned.m8n8.x1.shared.b16", matrices<1, false, false>},
      {"ldmatrix.sync.aligned.m8n8.x2.shared.b16", matrices<2, false, false>},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", matrices<4, false, false>},
      {"ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", matrices<1, true, false>},
      {"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", matrices<2, true, false>},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", matrices<4, true, false>},
      {"stmatrix.sync.aligned.m8n8.x2.shared.b16", matrices<2, false, true>},
      {"stmatrix.sync.aligned.m8n8.x4.shared.b16", matrices<4, false, true>},
      {"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", matrices<4, true, true>},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", product<ElementType::kF16>},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", product<ElementType::kBF16>},
      {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", product_tf32},
      {"ld.shared.f32", load_shared},
  };
  return known;
}

}  // namespace gqa::simt
