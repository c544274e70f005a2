// cuda_on_cpu.h: CUDA C++ for a host compiler: the first include of every kernel that the emulator compiles.
// Owns: the language's keywords and built-in variables, and how asm statements (rewritten by rewrite.cc) and launches
// reach the emulator. Vector types and intrinsics: cuda_intrinsics.h.
// Never: includes more of the system than <utility>: it is compiled anew for every kernel.
// Threads: fibers of one thread of the system.
#pragma once

#include <utility>

#include "kernel_state.h"

#define __CUDACC__ 1
#define __device__
#define __host__
#define __global__
#define __constant__ static
#define __shared__ static  // one block runs at a time; kernels of clusters have none
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)

#define threadIdx (::gqa::simt::self->thread)
#define blockIdx (::gqa::simt::self->block)
#define blockDim (::gqa::simt::self->block_dim)
#define gridDim (::gqa::simt::self->grid_dim)
#define warpSize 32

// A last parameter that says where its function is called.
#define GQA_SIMT_CALLER ::gqa::simt::Place place = {__builtin_FILE(), __builtin_LINE()}

namespace gqa::simt {

template <typename To, typename From>
To bits_as(const From& from) {
  To to{};
  __builtin_memcpy(&to, &from, sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
  return to;
}

// Operands of asm statements. What is read is converted as a compiler would: integers by value, all else by its bits.
template <char kConstraint, typename T>
Operand reads(const T& value) {
  if constexpr (std::is_integral_v<T>)
    return {kConstraint, nullptr, static_cast<unsigned long long>(value)};
  else
    return {kConstraint, nullptr, bits_as<unsigned long long>(value)};
}

template <char kConstraint, typename T>
Operand writes(T& target) {
  static_assert(sizeof(T) == (kConstraint == 'h'                         ? 2
                              : kConstraint == 'l' || kConstraint == 'd' ? 8
                                                                         : 4),
                "an operand is as wide as its constraint says");
  return {kConstraint, const_cast<std::remove_cv_t<T>*>(&target), bits_as<unsigned long long>(target)};
}

// A kernel with parameters out of the array that cuLaunchKernel takes.
template <typename... Parameters, std::size_t... kNumbers>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<kNumbers...>) {
  kernel(*static_cast<Parameters*>(arguments[kNumbers])...);
}
template <typename... Parameters>
void call(void (*kernel)(Parameters...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<Parameters...>());
}

}  // namespace gqa::simt

#include "cuda_intrinsics.h"
