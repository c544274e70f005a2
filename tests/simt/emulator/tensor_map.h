// tensor_map.h: tensor maps under the emulator.
// Owns: a driver's entry that writes what it is given into a map's 128 bytes, and boxes of such maps moved between
// global and shared memory.
// Never: takes what the real driver would refuse.
// Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runtime/cuda/driver/driver.h"

namespace gqa::simt {

// What the emulated driver keeps in the opaque bytes.
struct EmulatedMap {
  std::uint64_t magic;
  char* data;
  std::array<std::uint64_t, 4> strides;  // bytes, of all dimensions but the first
  std::array<std::uint32_t, 5> sizes;
  std::array<std::uint16_t, 5> box;
  std::uint16_t rank;
};
static_assert(sizeof(EmulatedMap) <= sizeof(CUtensorMap));

// As Driver::cuTensorMapEncodeTiled: 16-bit elements, 128-byte swizzle and rows of 128 bytes are all it knows.
CUresult encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                           const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
// A driver that can encode tensor maps, and nothing else.
Driver emulated_driver();

// A box of a map at coordinates that may lie outside the tensor.
struct TensorBox {
  EmulatedMap map;
  std::array<std::int64_t, 5> at;

  std::uint64_t bytes() const;
  // `shared`: where address `address` of the shared window lies. Elements outside the tensor arrive as zeros.
  void load(char* shared, std::uint64_t address) const;
  // Elements outside the tensor are not written.
  void store(const char* shared, std::uint64_t address) const;

 private:
  template <typename Move>
  void each_row(Move move) const;
};

// Empty, or why `map` is none of `rank` dimensions.
std::string read_map(const void* map, unsigned rank, EmulatedMap* read);

}  // namespace gqa::simt
