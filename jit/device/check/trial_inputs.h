// trial_inputs.h: the numbers that attention's trials read, the same on every device.
// Owns: near-normal elements; the last three columns of keys; queries that make of those columns what is hard: several
// deviations, equal keys, keys that dominate, that grow or shrink along the row, scores far from zero.
// Never: knows a layout beyond rows one after the other.
// Threads: pure functions, for the host compiler and NVRTC.
#pragma once

#ifdef __CUDACC__
#define GQA_EVERYWHERE __device__ inline
#else
#define GQA_EVERYWHERE inline
#endif

namespace gqa {

// Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014: the finaliser of SplitMix64.
GQA_EVERYWHERE unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Near-normal with variance 1: four uniforms (Irwin-Hall), centred and scaled by sqrt(12 / 4).
GQA_EVERYWHERE float near_normal(unsigned long long index) {
  const unsigned long long bits = mix(index);
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xffff) / 65536.f;
  return (sum - 2.f) * 1.7320508f;
}

enum class TrialTensor { kPlain, kKeys, kHardQueries };

constexpr int kNarrowType = 0;  // float16, the one whose exponents end early

// A tensor of rows of head_dim elements, `heads` rows a position.
struct TrialRows {
  TrialTensor tensor;
  int head_dim, heads;
  int length;  // of keys: positions after which the slope begins anew
  float root;  // sqrt(head_dim): a score is a product over it
  int type;    // an ElementType
};

// The columns of keys, from the last. Plain queries see in them what is no harder than the rest. All are exact in both
// types, and so are their products with powers of two, so that scores far from zero are the same in any order of sums.
enum TrialColumn { kLevel, kHeavy, kSlope, kColumns };
constexpr float kLevelOfKeys = 32;

// One key in two has 0 or more, one in four 1 or more, one in 2^n n or more: a few dominate however many are seen.
GQA_EVERYWHERE float heaviness(long long row) {
  unsigned long long bits = mix(0x5eed00000000ull + static_cast<unsigned long long>(row));
  int powers = 0;
  for (; powers < 20 && (bits & 1) == 0; bits >>= 1) ++powers;
  return static_cast<float>(powers) + static_cast<float>((bits >> 1) & 7) / 8.f;
}

GQA_EVERYWHERE float key_element(const TrialRows& t, float normal, long long row, int from_last) {
  if (from_last == kLevel) return kLevelOfKeys;
  if (from_last == kHeavy) return heaviness(row);
  if (from_last == kSlope)
    return 2.f * static_cast<float>(row / t.heads % t.length) / static_cast<float>(t.length) - 1.f;
  return normal;
}

constexpr int kQueryKinds = 12;

// What a row of queries makes of keys.
struct QueryKind {
  float deviation;  // of all elements; those of the last columns have 1 at most
  float level;      // that scores lie about
  float heavy;      // powers of two that a unit of heaviness weighs
  float slope;      // from the middle of the row to its end, in natural units
  float far;        // the level as an element of the query, exactly
};

// Products with a level of keys are about 2^20, which float16 has; in wider types the far positive ones are 2.8e38. No
// powers of two: those times the softmax's factor are not rounded.
constexpr float kFar = 0x1.d4p14f, kFarthest = 0x1.aap122f;

// kind: 0 to kQueryKinds - 1.
GQA_EVERYWHERE QueryKind query_kind(int kind) {
  switch (kind) {
    case 0:
      return {4, 0, 0, 0, 0};
    case 1:
      return {1, 0, 1, 0, 0};
    case 2:
      return {0, 0, 0, 0, 0};  // equal keys
    case 3:
      return {1, 0, 0, 16, 0};
    case 4:
      return {1, 0, 0, -16, 0};
    case 5:
      return {0, 0, 2, 0, 0};
    case 6:
      return {1, 60, 0, 0, 0};
    case 7:
      return {1, -60, 0, 0, 0};
    case 8:
      return {0, 0, 0, 0, -kFar};
    case 9:
      return {2, 0, 0, 0, 0};
    case 10:
      return {8, 0, 0, 0, 0};
    default:
      return {0, 0, 0, 0, kFar};
  }
}

// Every other piece of 64 positions of a head is of one kind, so that a tile's fast path is tried on each; the rest are
// mixed, so that a tile's rows differ.
GQA_EVERYWHERE int kind_of_row(const TrialRows& t, long long row) {
  const long long piece = row / t.heads / 64 + row % t.heads;
  return static_cast<int>(piece % 2 == 0 ? piece / 2 % kQueryKinds
                                         : static_cast<long long>(mix(static_cast<unsigned long long>(row)) %
                                                                  static_cast<unsigned long long>(kQueryKinds)));
}

GQA_EVERYWHERE float query_element(const TrialRows& t, float normal, long long row, int from_last) {
  const QueryKind kind = query_kind(kind_of_row(t, row));
  if (from_last >= kColumns) return normal * kind.deviation;
  const float own = kind.deviation == 0 ? 0.f : normal;
  if (from_last == kLevel && kind.far > 0 && t.type != kNarrowType) return kFarthest;
  if (from_last == kLevel) return kind.far != 0 ? kind.far : own + kind.level * t.root / kLevelOfKeys;
  if (from_last == kHeavy) return own + kind.heavy * 0.6931472f * t.root;
  return own + kind.slope * t.root;
}

// The tensor's element at `index`; normal: what stands there in a plain one.
GQA_EVERYWHERE float trial_element(const TrialRows& t, float normal, long long index) {
  const long long row = index / t.head_dim;
  const int from_last = t.head_dim - 1 - static_cast<int>(index % t.head_dim);
  if (t.tensor == TrialTensor::kKeys) return key_element(t, normal, row, from_last);
  if (t.tensor == TrialTensor::kHardQueries) return query_element(t, normal, row, from_last);
  return normal;
}

}  // namespace gqa

#undef GQA_EVERYWHERE
