// tensor_map.cc: see tensor_map.h.
#include "tests/simt/emulator/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "tests/simt/emulator/hopper.h"

namespace gqa::simt {
namespace {

constexpr std::uint64_t kMagic = 0x70616d726f736e65;
constexpr std::uint64_t kRowBytes = 128, kElement = 2;

bool legal(cuuint32_t rank, const void* data, const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
           const cuuint32_t* steps) {
  if (rank < 3 || rank > 5 || reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return false;
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0 || sizes[i] > cuuint64_t{1} << 32 || box[i] == 0 || box[i] > 256 || steps[i] != 1) return false;
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= cuuint64_t{1} << 40)) return false;
  }
  return box[0] * kElement == kRowBytes;
}

CUresult no_text(CUresult, const char** text) {
  *text = "refused by the emulated driver";
  return CUDA_SUCCESS;
}

}  // namespace

CUresult encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                           const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  const bool known = (type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) &&
                     interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && swizzle == CU_TENSOR_MAP_SWIZZLE_128B &&
                     fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  if (!known || !legal(rank, data, sizes, strides, box, steps)) return CUDA_ERROR_INVALID_VALUE;
  EmulatedMap made{};
  made.magic = kMagic;
  made.data = static_cast<char*>(data);
  made.rank = static_cast<std::uint16_t>(rank);
  for (cuuint32_t i = 0; i < 5; ++i) {
    made.sizes[i] = i < rank ? static_cast<std::uint32_t>(sizes[i]) : 1;
    made.box[i] = static_cast<std::uint16_t>(i < rank ? box[i] : 1);
    if (i > 0 && i < rank) made.strides[i - 1] = strides[i - 1];
  }
  std::memset(static_cast<void*>(map), 0, sizeof *map);
  std::memcpy(static_cast<void*>(map), &made, sizeof made);
  return CUDA_SUCCESS;
}

Driver emulated_driver() {
  Driver driver;
  driver.cuTensorMapEncodeTiled = encode_tensor_map;
  driver.cuGetErrorName = driver.cuGetErrorString = no_text;
  return driver;
}

std::string read_map(const void* map, unsigned rank, EmulatedMap* read) {
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return "a tensor map that is not aligned to 64 bytes";
  std::memcpy(read, map, sizeof *read);
  if (read->magic != kMagic) return "a tensor map that no driver encoded";
  if (rank != 0 && read->rank != rank)
    return "a tensor map of " + std::to_string(read->rank) + " dimensions, " + std::to_string(rank) + " expected";
  return {};
}

std::uint64_t TensorBox::bytes() const {
  std::uint64_t rows = 1;
  for (std::size_t i = 1; i < 5; ++i) rows *= map.box[i];
  return rows * kRowBytes;
}

// move(row's number in the box, its first element or null where the row lies outside the tensor).
template <typename Move>
void TensorBox::each_row(Move move) const {
  const std::uint64_t rows = bytes() / kRowBytes;
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::uint64_t rest = row;
    std::int64_t offset = 0;
    bool inside = true;
    for (std::size_t i = 1; i < 5; ++i) {
      const std::int64_t index = at[i] + static_cast<std::int64_t>(rest % map.box[i]);
      rest /= map.box[i];
      inside = inside && index >= 0 && index < std::int64_t{map.sizes[i]};
      offset += index * static_cast<std::int64_t>(map.strides[i - 1]);
    }
    move(row, inside ? map.data + offset : nullptr);
  }
}

void TensorBox::load(char* shared, std::uint64_t address) const {
  each_row([&](std::uint64_t row, const char* from) {
    for (std::uint64_t byte = 0; byte < kRowBytes; byte += kElement) {
      const std::int64_t column = at[0] + static_cast<std::int64_t>(byte / kElement);
      const bool inside = from != nullptr && column >= 0 && column < std::int64_t{map.sizes[0]};
      char* const to = shared + (swizzled(address + row * kRowBytes + byte) - address);
      if (inside)
        std::memcpy(to, from + column * 2, kElement);
      else
        std::memset(to, 0, kElement);
    }
  });
}

void TensorBox::store(const char* shared, std::uint64_t address) const {
  each_row([&](std::uint64_t row, char* to) {
    for (std::uint64_t byte = 0; to != nullptr && byte < kRowBytes; byte += kElement) {
      const std::int64_t column = at[0] + static_cast<std::int64_t>(byte / kElement);
      if (column < 0 || column >= std::int64_t{map.sizes[0]}) continue;
      std::memcpy(to + column * 2, shared + (swizzled(address + row * kRowBytes + byte) - address), kElement);
    }
  });
}

}  // namespace gqa::simt
