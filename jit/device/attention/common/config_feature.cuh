// config_feature.cuh: how device code asks for what not every Config says.
// Owns: GQA_FEATURE, a feature's name for the constant that a Config may have; AsVoid, for types that it may have.
// Never: knows a feature: features.cuh has those of attention, a family's folder its own.
// Threads: values.
#pragma once

namespace gqa {

template <typename Type>
struct AsVoid {
  using Result = void;
};

// name<Config>(): Config::kValue, `absent` where there is none.
#define GQA_FEATURE(type, name, kValue, absent)                            \
  template <typename Config, typename = void>                              \
  struct kValue##Of {                                                      \
    static constexpr type kSet = absent;                                   \
  };                                                                       \
  template <typename Config>                                               \
  struct kValue##Of<Config, decltype(static_cast<void>(Config::kValue))> { \
    static constexpr type kSet = Config::kValue;                           \
  };                                                                       \
  template <typename Config>                                               \
  __host__ __device__ constexpr type name() {                              \
    return kValue##Of<Config>::kSet;                                       \
  }

}  // namespace gqa
