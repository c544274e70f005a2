// ptx_thread.cc: instructions of one thread: conversions, functions, special registers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/element.h"
#include "tests/simt/emulator/ptx/ptx.h"

namespace gqa::simt {
namespace {

void nothing(Emulator&, const Call&) {}

// cvt.rn.f16x2.f32 d, a, b: a lands in the upper half.
template <ElementType kType>
void pack(Emulator&, const Call& call) {
  const std::uint32_t upper = store(kType, call.read_float(1)), lower = store(kType, call.read_float(2));
  call.write(0, upper << 16 | lower);
}

template <ElementType kType>
void round(Emulator&, const Call& call) {
  call.write(0, store(kType, call.read_float(1)));
}

template <ElementType kType>
void widen(Emulator&, const Call& call) {
  call.write_float(0, load(kType, static_cast<std::uint16_t>(call.read(1))));
}

void move(Emulator&, const Call& call) { call.write(0, call.read(1)); }

// .ftz: subnormals, given or to be returned, are zero.
float flushed(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.F, x) : x; }

template <float (*kFunction)(float)>
void function(Emulator&, const Call& call) {
  call.write_float(0, kFunction(call.read_float(1)));
}
template <float (*kFunction)(float)>
void function_ftz(Emulator&, const Call& call) {
  call.write_float(0, flushed(kFunction(flushed(call.read_float(1)))));
}
float reciprocal(float x) { return 1 / x; }
float inverse_root(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }

void load_half(Emulator& emulator, const Call& call) {
  const auto* from = reinterpret_cast<const std::uint16_t*>(call.read(1));
  if (reinterpret_cast<std::uintptr_t>(from) % 2 != 0) emulator.fail("ld.global of 2 bytes from an odd address");
  call.write(0, *from);
}

// ld.global of kWords words into as many registers.
template <int kWords>
void load_words(Emulator& emulator, const Call& call) {
  const auto* from = reinterpret_cast<const char*>(call.read(kWords));
  if (reinterpret_cast<std::uintptr_t>(from) % (4 * kWords) != 0)
    emulator.fail("ld.global of " + std::to_string(4 * kWords) + " bytes from an address that is not aligned to them");
  emulator.access_global(from, 4 * kWords, false);
  for (int i = 0; i < kWords; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, from + 4 * i, 4);
    call.write(static_cast<std::size_t>(i), word);
  }
}

template <int kWords>
void store_words(Emulator& emulator, const Call& call) {
  auto* to = reinterpret_cast<char*>(call.read(0));
  if (reinterpret_cast<std::uintptr_t>(to) % (4 * kWords) != 0)
    emulator.fail("st.global of " + std::to_string(4 * kWords) + " bytes to an address that is not aligned to them");
  emulator.access_global(to, 4 * kWords, true);
  for (int i = 0; i < kWords; ++i) {
    const auto word = static_cast<std::uint32_t>(call.read(static_cast<std::size_t>(1 + i)));
    std::memcpy(to + 4 * i, &word, 4);
  }
}

// atom.add.u32 d, [a], b
template <bool kReleases, bool kAcquires>
void add(Emulator& emulator, const Call& call) {
  auto* at = reinterpret_cast<std::uint32_t*>(call.read(1));
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(*at) != 0) emulator.fail("atom at an address that is not aligned");
  if (kReleases) emulator.release(at);
  if (kAcquires) emulator.acquire(at);
  call.write(0, *at);
  *at += static_cast<std::uint32_t>(call.read(2));
}

}  // namespace

const std::vector<Known>& thread_instructions() {
  static const std::vector<Known> known = {
      {"", nothing},  // a barrier for the compiler alone
      {"griddepcontrol.wait", nothing},
      {"griddepcontrol.launch_dependents", nothing},
      {"prefetch.global.L2", nothing},
      {"st.global.v4.f32", store_words<4>},
      {"atom.release.gpu.global.add.u32", add<true, false>},
      {"atom.acquire.gpu.global.add.u32", add<false, true>},
      {"atom.acq_rel.gpu.global.add.u32", add<true, true>},
      {"mov.u32", move},
      {"ld.global.u16", load_half},
      {"ld.global.u32", load_words<1>},
      {"ld.global.v4.u32", load_words<4>},
      {"ld.global.L1::no_allocate.L2::128B.v2.u32", load_words<2>},
      {"ld.global.L1::no_allocate.L2::128B.v4.u32", load_words<4>},
      {"mov.b32", move},
      {"cvt.rn.f16x2.f32", pack<ElementType::kF16>},
      {"cvt.rn.bf16x2.f32", pack<ElementType::kBF16>},
      {"cvt.rn.f16.f32", round<ElementType::kF16>},
      {"cvt.rn.bf16.f32", round<ElementType::kBF16>},
      {"cvt.f32.f16", widen<ElementType::kF16>},
      {"cvt.f32.bf16", widen<ElementType::kBF16>},
      {"ex2.approx.ftz.f32", function_ftz<std::exp2>},
      {"ex2.approx.f32", function<std::exp2>},
      {"lg2.approx.ftz.f32", function_ftz<std::log2>},
      {"lg2.approx.f32", function<std::log2>},
      {"tanh.approx.f32", function<std::tanh>},
      {"sqrt.approx.f32", function<std::sqrt>},
      {"sqrt.approx.ftz.f32", function_ftz<std::sqrt>},
      {"rcp.approx.f32", function<reciprocal>},
      {"rcp.approx.ftz.f32", function_ftz<reciprocal>},
      {"rsqrt.approx.f32", function<inverse_root>},
      {"rsqrt.approx.ftz.f32", function_ftz<inverse_root>},
  };
  return known;
}

}  // namespace gqa::simt
