// tensor_map.cc: see tensor_map.h. Layouts and boxes mirror jit/device/attention/wgmma_flash/tensor_maps.h.
#include "runtime/cuda/launch/tensor_map.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/cuda/launch/recent_maps.h"

namespace gqa {
namespace {

constexpr int kPanel = 64;  // columns of a box: 128 bytes, a row of the swizzle

// cuda.h may align its type to 128 bytes; the driver asks for 64.
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == 64,
              "TensorMap stands for the driver's own type");

struct MapDimension {
  std::int64_t size, stride;  // elements
  int box;
};

enum class MapKind : std::uint8_t { kRows, kKeys, kTransposedKeys };  // which dimensions a map has

// All that a map is made from, but where it lies and its strides.
struct MapShape {
  int batch, length, heads, columns, box, pack;
  MapKind kind;
  ElementType dtype;
};

std::uint64_t pair(int high, int low) { return static_cast<std::uint64_t>(high) << 32 | static_cast<unsigned>(low); }
int high(std::uint64_t pair) { return static_cast<int>(pair >> 32); }
int low(std::uint64_t pair) { return static_cast<int>(pair & 0xffffffffU); }

// A tensor without rows is one element that lies elsewhere, since the driver makes no map of nothing. A kernel may ask
// for a block of keys that are not there.
MapKey key_of(const Call& call, Role role, const MapShape& given) {
  MapShape s = given;
  const void* data = call.at(role);
  const Strides& strides = call.strides(role);
  if (given.batch == 0 || given.length == 0) {
    s.batch = s.length = s.columns = 1;
    s.heads = s.pack;
    data = call.at(s.kind == MapKind::kRows ? Role::kK : Role::kQ);
  }
  const int type = static_cast<int>(s.kind) << 1 | static_cast<int>(s.dtype == ElementType::kBF16);
  return {data,
          strides.batch,
          strides.row,
          strides.head,
          pair(s.batch, s.length),
          pair(s.heads, s.columns),
          pair(s.box, s.pack << 8 | type)};
}

MapShape shape_of(const MapKey& key) {
  const int type = low(key.box_pack_type) & 0xff;
  return {high(key.batch_length),          low(key.batch_length),
          high(key.heads_columns),         low(key.heads_columns),
          high(key.box_pack_type),         low(key.box_pack_type) >> 8,
          static_cast<MapKind>(type >> 1), (type & 1) != 0 ? ElementType::kBF16 : ElementType::kF16};
}

// dimensions[0] is the columns. A dimension of size 1 is never stepped along: it gets the smallest legal stride.
template <std::size_t kRank>
CUresult encode(const Driver& driver, ElementType dtype, const void* data, const MapDimension (&dimensions)[kRank],
                TensorMap* map) {
  constexpr std::int64_t kElement = 2, kSmallestStride = 16;  // bytes
  cuuint64_t sizes[kRank], strides[kRank - 1];
  cuuint32_t boxes[kRank], steps[kRank];
  for (std::size_t i = 0; i < kRank; ++i) {
    const MapDimension& d = dimensions[i];
    sizes[i] = static_cast<cuuint64_t>(d.size);
    boxes[i] = static_cast<cuuint32_t>(d.box);
    steps[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(d.size == 1 ? kSmallestStride : d.stride * kElement);
  }
  return driver.cuTensorMapEncodeTiled(
      reinterpret_cast<CUtensorMap*>(map),
      dtype == ElementType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kRank,
      const_cast<void*>(data), sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUresult encode(const Driver& driver, const MapKey& key, TensorMap* map) {
  const MapShape m = shape_of(key);
  if (m.kind == MapKind::kRows) {  // boxes of packed rows
    const MapDimension dimensions[] = {{m.columns, 1, kPanel},
                                       {m.pack, key.head_stride, m.pack},
                                       {m.length, key.row_stride, m.box / m.pack},
                                       {m.heads / m.pack, m.pack * key.head_stride, 1},
                                       {m.batch, key.batch_stride, 1}};
    return encode(driver, m.dtype, key.data, dimensions, map);
  }
  const bool transposed = m.kind == MapKind::kTransposedKeys;
  const MapDimension dimensions[] = {{transposed ? m.length : m.columns, 1, kPanel},
                                     {transposed ? m.columns : m.length, key.row_stride, m.box},
                                     {m.heads, key.head_stride, 1},
                                     {m.batch, key.batch_stride, 1}};
  return encode(driver, m.dtype, key.data, dimensions, map);
}

// Slabs of q and out, or of k and v, each of so many rows. Packed sequences are one slab, pages are slabs.
struct Slabs {
  int count, rows;
};

int rows_of(std::int64_t packed) { return static_cast<int>(std::min<std::int64_t>(packed, 2147483647)); }

Slabs query_slabs(const Call& call) {
  const Problem& p = call.problem;
  return p.q_packed() ? Slabs{1, rows_of(call.q_rows)} : Slabs{p.batch, p.q_len};
}

Slabs key_slabs(const Call& call, std::int64_t packed) {
  const Problem& p = call.problem;
  if (p.paged()) return {call.pages, p.page};
  return p.k_packed() ? Slabs{1, rows_of(packed)} : Slabs{p.batch, p.kv_len};
}

MapShape rows_of(const Call& call, int pack, int columns, int rows) {
  const Slabs slabs = query_slabs(call);
  return {slabs.count, slabs.rows, call.problem.q_heads, columns, rows, pack, MapKind::kRows, call.problem.q_type};
}

MapShape values_of(const Call& call, int keys) {
  const Problem& p = call.problem;
  const Slabs slabs = key_slabs(call, call.v_rows > 0 ? call.v_rows : call.k_rows);
  return {slabs.count, slabs.rows, p.kv_heads, p.head_dim_v, keys, 1, MapKind::kKeys, p.kv_type};
}

// Where they lie transposed: boxes of 64 keys, all of head_dim.
MapShape keys_of(const Call& call, int keys) {
  const Problem& p = call.problem;
  const Slabs slabs = key_slabs(call, call.k_rows);
  const bool transposed = p.keys_transposed();
  const MapKind kind = transposed ? MapKind::kTransposedKeys : MapKind::kKeys;
  return {slabs.count, slabs.rows, p.kv_heads, p.head_dim, transposed ? p.head_dim : keys, 1, kind, p.kv_type};
}

Status refused(const Driver& driver, const char* tensor, const Call& call, CUresult result) {
  const Status status = driver.error("cuTensorMapEncodeTiled", result);
  return {status.code(), std::string("the driver refused the tensor map of ") + tensor + " for " +
                             to_text(call.problem) + ": " + status.message()};
}

// The cached map, or a new one, which is cached then.
CUresult find_or_encode(const Driver& driver, const MapKey& key, RecentMaps* recent, TensorMap* map) {
  if (const TensorMap* cached = recent->find(key)) {
    *map = *cached;
    return CUDA_SUCCESS;
  }
  const CUresult result = encode(driver, key, map);
  if (result == CUDA_SUCCESS) recent->keep(key, *map);
  return result;
}

}  // namespace

Status tensor_maps(const Driver& driver, const Call& call, const TensorBoxes& boxes, TensorMaps* maps) {
  constinit thread_local static RecentMaps recent;
  RecentMaps* const mine = &recent;
  const Problem& p = call.problem;
  const MapKey q = key_of(call, Role::kQ, rows_of(call, boxes.pack, p.head_dim, boxes.query_rows));
  if (const CUresult r = find_or_encode(driver, q, mine, &maps->q); r != CUDA_SUCCESS)
    return refused(driver, "q", call, r);
  if (boxes.keys > 0) {
    const MapKey k = key_of(call, Role::kK, keys_of(call, boxes.keys));
    if (const CUresult r = find_or_encode(driver, k, mine, &maps->k); r != CUDA_SUCCESS)
      return refused(driver, "k", call, r);
    const MapKey v = key_of(call, Role::kV, values_of(call, boxes.keys));
    if (const CUresult r = find_or_encode(driver, v, mine, &maps->v); r != CUDA_SUCCESS)
      return refused(driver, "v", call, r);
  } else {
    maps->k = maps->v = {};
  }
  const MapKey out = key_of(call, Role::kOut, rows_of(call, boxes.pack, p.head_dim_v, boxes.out_rows));
  if (const CUresult r = find_or_encode(driver, out, mine, &maps->out); r != CUDA_SUCCESS)
    return refused(driver, "out", call, r);
  return {};
}

Status can_map_tensors(const Driver& driver) {
  if (driver.cuTensorMapEncodeTiled != nullptr) return {};
  return {Code::kNoDevice,
          "the CUDA driver is too old for warpgroup kernels: libcuda.so.1 has no cuTensorMapEncodeTiled; install a "
          "driver for CUDA 12.0 or newer"};
}

}  // namespace gqa
