// cuda_intrinsics.h: CUDA's vector types and functions on the CPU.
// Owns: those that generated kernels use: a name that is missing is a compile error, to be answered here.
// Never: approximates: where a GPU's function is approximate, the exact one stands for it.
// Threads: warp functions meet in the emulator; atomics are plain, since fibers give way only where they meet.
#pragma once

// ---- vector types
#define GQA_SIMT_VECTORS(name, type, align2, align4)                          \
  struct alignas(align2) name##2 {                                            \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct alignas(align4) name##4 {                                            \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
GQA_SIMT_VECTORS(ushort, unsigned short, 4, 8)
GQA_SIMT_VECTORS(int, int, 8, 16)
GQA_SIMT_VECTORS(uint, unsigned int, 8, 16)
GQA_SIMT_VECTORS(float, float, 8, 16)
#undef GQA_SIMT_VECTORS
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
struct alignas(16) longlong2 {
  long long x, y;
};

// ---- bits
inline float __uint_as_float(unsigned x) { return gqa::simt::bits_as<float>(x); }
inline float __int_as_float(int x) { return gqa::simt::bits_as<float>(x); }
inline unsigned __float_as_uint(float x) { return gqa::simt::bits_as<unsigned>(x); }
inline int __float_as_int(float x) { return gqa::simt::bits_as<int>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((1ull * a * b) >> 32); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned pick = selector >> 4 * i & 0xf, byte = static_cast<unsigned>(bytes >> 8 * (pick & 7) & 0xff);
    result |= (pick & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
  }
  return result;
}

// ---- arithmetic
#define GQA_SIMT_MIN_MAX(type)                              \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
GQA_SIMT_MIN_MAX(int)
GQA_SIMT_MIN_MAX(unsigned)
GQA_SIMT_MIN_MAX(long long)
GQA_SIMT_MIN_MAX(unsigned long long)
#undef GQA_SIMT_MIN_MAX
inline float min(float a, float b) { return __builtin_fminf(a, b); }
inline float max(float a, float b) { return __builtin_fmaxf(a, b); }

#define GQA_SIMT_UNARY(name, builtin) \
  inline float name(float x) { return builtin(x); }
GQA_SIMT_UNARY(fabsf, __builtin_fabsf)
GQA_SIMT_UNARY(floorf, __builtin_floorf)
GQA_SIMT_UNARY(ceilf, __builtin_ceilf)
GQA_SIMT_UNARY(rintf, __builtin_rintf)
GQA_SIMT_UNARY(sqrtf, __builtin_sqrtf)
GQA_SIMT_UNARY(__fsqrt_rn, __builtin_sqrtf)
GQA_SIMT_UNARY(expf, __builtin_expf)
GQA_SIMT_UNARY(__expf, __builtin_expf)
GQA_SIMT_UNARY(exp2f, __builtin_exp2f)
GQA_SIMT_UNARY(logf, __builtin_logf)
GQA_SIMT_UNARY(__logf, __builtin_logf)
GQA_SIMT_UNARY(log2f, __builtin_log2f)
GQA_SIMT_UNARY(__log2f, __builtin_log2f)
GQA_SIMT_UNARY(tanhf, __builtin_tanhf)
GQA_SIMT_UNARY(erff, __builtin_erff)
GQA_SIMT_UNARY(erfcf, __builtin_erfcf)
GQA_SIMT_UNARY(expm1f, __builtin_expm1f)
GQA_SIMT_UNARY(log1pf, __builtin_log1pf)
GQA_SIMT_UNARY(cosf, __builtin_cosf)
#undef GQA_SIMT_UNARY
// For float and for double, as CUDA has them.
#define GQA_SIMT_BOTH(name)                                     \
  inline float name(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); }
GQA_SIMT_BOTH(exp)
GQA_SIMT_BOTH(exp2)
GQA_SIMT_BOTH(log)
GQA_SIMT_BOTH(sqrt)
GQA_SIMT_BOTH(tanh)
GQA_SIMT_BOTH(erfc)
#undef GQA_SIMT_BOTH
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline float rsqrtf(float x) { return static_cast<float>(1 / __builtin_sqrt(x)); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float powf(float a, float b) { return __builtin_powf(a, b); }
inline float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
inline bool isnan(float x) { return x != x; }
inline bool isinf(float x) { return __builtin_isinf(x); }

// ---- memory
#define GQA_SIMT_LOAD(name)  \
  template <typename T>      \
  T name(const T* address) { \
    return *address;         \
  }
GQA_SIMT_LOAD(__ldg)
GQA_SIMT_LOAD(__ldca)
GQA_SIMT_LOAD(__ldcg)
GQA_SIMT_LOAD(__ldcs)
GQA_SIMT_LOAD(__ldcv)
#undef GQA_SIMT_LOAD
template <typename T>
void __stcg(T* address, T value) {
  *address = value;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}
template <typename T>
void __stwt(T* address, T value) {
  *address = value;
}
inline unsigned long long __cvta_generic_to_shared(const void* pointer) {
  return gqa::simt::machine->shared_address(pointer);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
inline long long clock64() { return static_cast<long long>(gqa::simt::machine->clock()); }

#define GQA_SIMT_ATOMIC(name, expression)  \
  template <typename T, typename U>        \
  T name(T* address, U given) {            \
    const T before = *address;             \
    const T value = static_cast<T>(given); \
    *address = (expression);               \
    return before;                         \
  }
GQA_SIMT_ATOMIC(atomicAdd, before + value)
GQA_SIMT_ATOMIC(atomicSub, before - value)
GQA_SIMT_ATOMIC(atomicMax, before < value ? value : before)
GQA_SIMT_ATOMIC(atomicMin, value < before ? value : before)
GQA_SIMT_ATOMIC(atomicExch, value)
GQA_SIMT_ATOMIC(atomicOr, before | value)
GQA_SIMT_ATOMIC(atomicAnd, before& value)
GQA_SIMT_ATOMIC(atomicInc, before >= value ? 0 : before + 1)
#undef GQA_SIMT_ATOMIC
template <typename T, typename U, typename V>
T atomicCAS(T* address, U expected, V value) {
  const T before = *address;
  if (before == static_cast<T>(expected)) *address = static_cast<T>(value);
  return before;
}

// ---- threads together
inline void __syncthreads(GQA_SIMT_CALLER) { gqa::simt::machine->sync_block("__syncthreads", false, place); }
inline int __syncthreads_count(int vote, GQA_SIMT_CALLER) {
  return gqa::simt::machine->sync_block("__syncthreads_count", vote != 0, place);
}
inline int __syncthreads_or(int vote, GQA_SIMT_CALLER) {
  return gqa::simt::machine->sync_block("__syncthreads_or", vote != 0, place) > 0;
}
inline int __syncthreads_and(int vote, GQA_SIMT_CALLER) {
  return gqa::simt::machine->sync_block("__syncthreads_and", vote == 0, place) == 0;
}

namespace gqa::simt {

inline unsigned lane() { return self->thread.x % 32; }

// Each lane's value, and this lane's pick among them. A lane whose source is none of `mask`'s gets its poison: what a
// shuffle gives there is undefined.
template <typename T, typename Pick>
T shuffle(const char* function, unsigned mask, T value, int width, Pick pick, Place place) {
  unsigned long long values[32];
  machine->gather(function, mask, bits_as<unsigned long long>(value), values, place);
  const int mine = static_cast<int>(lane()), first = mine / width * width, source = pick(mine - first);
  const int from = source < 0 || source >= width ? mine : first + source;
  return bits_as<T>(mask >> from & 1 ? values[from] : ~0ull);
}

inline unsigned vote(const char* function, unsigned mask, bool mine, Place place) {
  unsigned long long values[32];
  machine->gather(function, mask, mine, values, place);
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) votes |= (mask >> i & 1 && values[i] != 0 ? 1u : 0u) << i;
  return votes;
}

}  // namespace gqa::simt

inline void __syncwarp(unsigned mask = 0xffffffffu, GQA_SIMT_CALLER) {
  gqa::simt::vote("__syncwarp", mask, false, place);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, GQA_SIMT_CALLER) {
  return gqa::simt::shuffle(
      "__shfl_sync", mask, value, width, [&](int) { return source & (width - 1); }, place);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, GQA_SIMT_CALLER) {
  return gqa::simt::shuffle(
      "__shfl_xor_sync", mask, value, width, [&](int i) { return i ^ bits; }, place);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, GQA_SIMT_CALLER) {
  return gqa::simt::shuffle(
      "__shfl_down_sync", mask, value, width, [&](int i) { return i + static_cast<int>(by); }, place);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, GQA_SIMT_CALLER) {
  return gqa::simt::shuffle(
      "__shfl_up_sync", mask, value, width, [&](int i) { return i - static_cast<int>(by); }, place);
}
inline unsigned __ballot_sync(unsigned mask, int mine, GQA_SIMT_CALLER) {
  return gqa::simt::vote("__ballot_sync", mask, mine != 0, place);
}
inline int __any_sync(unsigned mask, int mine, GQA_SIMT_CALLER) {
  return gqa::simt::vote("__any_sync", mask, mine != 0, place) != 0;
}
inline int __all_sync(unsigned mask, int mine, GQA_SIMT_CALLER) {
  return gqa::simt::vote("__all_sync", mask, mine != 0, place) == mask;
}
inline void __trap(GQA_SIMT_CALLER) { gqa::simt::machine->trap("__trap", place); }
