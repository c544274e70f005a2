// tensor_map.cc: see tensor_map.h. Layouts and boxes mirror jit/device/attention/wgmma_flash/tensor_maps.h.
#include "runtime/cuda/tensor_map.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/cuda/recent_maps.h"

namespace gqa {
namespace {

constexpr int kPanel = 64;  // columns of a box: 128 bytes, a row of the swizzle
constexpr int kWarpgroupRows = 64;

// cuda.h may align its type to 128 bytes; the driver asks for 64.
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) == 64,
              "TensorMap stands for the driver's own type");

struct MapDimension {
  std::int64_t size, stride;  // elements
  int box;
};

// A cluster's CTAs take 64 rows by turns: jit/device/attention/wgmma_flash/warpgroup_producer.cuh.
int query_rows(const Candidate& c) { return c.cluster == 1 ? c.tile_m : kWarpgroupRows; }

// dimensions[0] is the columns. A dimension of size 1 is never stepped along: it gets the smallest legal stride.
template <std::size_t kRank>
CUresult encode(const Driver& driver, const MapKey& key, const MapDimension (&dimensions)[kRank], TensorMap* map) {
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
      key.bf16 != 0 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kRank,
      const_cast<void*>(key.data), sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

CUresult encode(const Driver& driver, const MapKey& k, TensorMap* map) {
  if (k.kind == MapKind::kRows) {  // boxes of packed rows
    const MapDimension dimensions[] = {{k.columns, 1, kPanel},
                                       {k.pack, k.head_stride, k.pack},
                                       {k.length, k.row_stride, k.box / k.pack},
                                       {k.heads / k.pack, k.pack * k.head_stride, 1},
                                       {k.batch, k.batch_stride, 1}};
    return encode(driver, k, dimensions, map);
  }
  const MapDimension lying[] = {{k.columns, 1, kPanel},
                                {k.length, k.row_stride, k.box},
                                {k.heads, k.head_stride, 1},
                                {k.batch, k.batch_stride, 1}};
  const MapDimension transposed[] = {{k.length, 1, kPanel},
                                     {k.columns, k.row_stride, k.box},
                                     {k.heads, k.head_stride, 1},
                                     {k.batch, k.batch_stride, 1}};
  return encode(driver, k, k.kind == MapKind::kKeys ? lying : transposed, map);
}

MapKey key_of(const Problem& p, MapKind kind, const void* data, const Strides& s, int columns, int box) {
  MapKey key;
  key.data = data;
  key.batch_stride = s.batch;
  key.row_stride = s.row;
  key.head_stride = s.head;
  key.batch = p.batch;
  key.length = kind == MapKind::kRows ? p.q_len : p.kv_len;
  key.heads = kind == MapKind::kRows ? p.q_heads : p.kv_heads;
  key.columns = static_cast<std::uint16_t>(columns);
  key.box = static_cast<std::uint16_t>(box);
  key.kind = kind;
  key.bf16 = p.dtype == DType::kBF16 ? 1 : 0;
  return key;
}

MapKey rows_key(const Call& call, const Candidate& c, const void* data, const Strides& s, int columns, int box) {
  MapKey key = key_of(call.problem, MapKind::kRows, data, s, columns, box);
  key.pack = static_cast<std::uint16_t>(c.pack);
  return key;
}

// Where keys lie transposed: boxes of 64 keys, all of head_dim.
MapKey keys_key(const Call& call, const Candidate& c) {
  const Problem& p = call.problem;
  if (p.keys_transposed) return key_of(p, MapKind::kTransposedKeys, call.k, call.k_strides, p.head_dim, p.head_dim);
  return key_of(p, MapKind::kKeys, call.k, call.k_strides, p.head_dim, c.tile_n);
}

Status refused(const Driver& driver, const char* tensor, const Call& call, CUresult result) {
  const Status status = driver.error("cuTensorMapEncodeTiled", result);
  return {status.code(), std::string("the driver refused the tensor map of ") + tensor + " for " +
                             to_text(call.problem) + ": " + status.message()};
}

// The cached map, or a new one, which is cached then.
CUresult map_of(const Driver& driver, const MapKey& key, TensorMap* map) {
  constinit thread_local static RecentMaps recent;
  if (const TensorMap* cached = recent.find(key)) {
    *map = *cached;
    return CUDA_SUCCESS;
  }
  const CUresult result = encode(driver, key, map);
  if (result == CUDA_SUCCESS) recent.keep(key, *map);
  return result;
}

}  // namespace

Status tensor_maps(const Driver& driver, const Call& call, const Candidate& c, TensorMaps* maps) {
  const Problem& p = call.problem;
  const MapKey q = rows_key(call, c, call.q, call.q_strides, p.head_dim, query_rows(c));
  if (const CUresult r = map_of(driver, q, &maps->q); r != CUDA_SUCCESS) return refused(driver, "q", call, r);
  const MapKey k = keys_key(call, c);
  if (const CUresult r = map_of(driver, k, &maps->k); r != CUDA_SUCCESS) return refused(driver, "k", call, r);
  const MapKey v = key_of(p, MapKind::kKeys, call.v, call.v_strides, p.head_dim_v, c.tile_n);
  if (const CUresult r = map_of(driver, v, &maps->v); r != CUDA_SUCCESS) return refused(driver, "v", call, r);
  const MapKey out = rows_key(call, c, call.out, call.out_strides, p.head_dim_v, kWarpgroupRows);
  if (const CUresult r = map_of(driver, out, &maps->out); r != CUDA_SUCCESS) return refused(driver, "out", call, r);
  return {};
}

Status can_map_tensors(const Driver& driver) {
  if (driver.cuTensorMapEncodeTiled != nullptr) return {};
  return {Code::kNoDevice,
          "the CUDA driver is too old for warpgroup kernels: libcuda.so.1 has no cuTensorMapEncodeTiled; install a "
          "driver for CUDA 12.0 or newer"};
}

}  // namespace gqa
