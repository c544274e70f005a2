// tensor_map.cc: see tensor_map.h. Layouts and boxes mirror jit/device/attention/wgmma_flash/tensor_maps.h.
#include "runtime/cuda/tensor_map.h"

#include <array>
#include <cstring>
#include <type_traits>

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

// All that the four maps are made from; without padding, so that bytes compare.
struct MapKey {
  const void *q, *k, *v, *out;
  Strides q_strides, k_strides, v_strides, out_strides;
  std::int32_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, head_dim_v, dtype;
  std::int32_t query_rows, tile_n, pack, keys_transposed;

  bool operator==(const MapKey& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(std::has_unique_object_representations_v<MapKey>);

// A cluster's CTAs take 64 rows by turns: jit/device/attention/wgmma_flash/warpgroup_producer.cuh.
int query_rows(const Candidate& c) { return c.cluster == 1 ? c.tile_m : kWarpgroupRows; }

MapKey key_of(const Call& call, const Candidate& c) {
  const Problem& p = call.problem;
  return {call.q,         call.k,         call.v,         call.out,
          call.q_strides, call.k_strides, call.v_strides, call.out_strides,
          p.batch,        p.q_heads,      p.kv_heads,     p.q_len,
          p.kv_len,       p.head_dim,     p.head_dim_v,   static_cast<std::int32_t>(p.dtype),
          query_rows(c),  c.tile_n,       c.pack,         p.keys_transposed};
}

// A few calls alternate in a graph or a layer; more than that and encoding is cheap enough.
class RecentMaps {
 public:
  const TensorMaps* find(const MapKey& key) const {
    for (const Entry& entry : entries_) {
      if (entry.key == key) return &entry.maps;
    }
    return nullptr;
  }
  void keep(const MapKey& key, const TensorMaps& maps) {
    entries_[next_] = {key, maps};
    next_ = (next_ + 1) % entries_.size();
  }

 private:
  struct Entry {
    MapKey key;  // all zero: none, which no call's key is
    TensorMaps maps;
  };
  std::array<Entry, 8> entries_{};
  std::size_t next_ = 0;
};

// dimensions[0] is the columns. A dimension of size 1 is never stepped along: it gets the smallest legal stride.
template <std::size_t kRank>
CUresult encode(const Driver& driver, DType dtype, const void* data, const MapDimension (&dimensions)[kRank],
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
      dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kRank,
      const_cast<void*>(data), sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

// q or out: boxes of `rows` packed rows.
CUresult encode_rows(const Driver& driver, const Call& call, int pack, const void* data, const Strides& s, int columns,
                     int rows, TensorMap* map) {
  const Problem& p = call.problem;
  const MapDimension dimensions[] = {{columns, 1, kPanel},
                                     {pack, s.head, pack},
                                     {p.q_len, s.row, rows / pack},
                                     {p.q_heads / pack, pack * s.head, 1},
                                     {p.batch, s.batch, 1}};
  return encode(driver, p.dtype, data, dimensions, map);
}

// k or v.
CUresult encode_keys(const Driver& driver, const Call& call, const void* data, const Strides& s, int columns, int keys,
                     TensorMap* map) {
  const Problem& p = call.problem;
  const MapDimension dimensions[] = {
      {columns, 1, kPanel}, {p.kv_len, s.row, keys}, {p.kv_heads, s.head, 1}, {p.batch, s.batch, 1}};
  return encode(driver, p.dtype, data, dimensions, map);
}

// k where it lies transposed: boxes of 64 keys, all of head_dim.
CUresult encode_transposed_keys(const Driver& driver, const Call& call, TensorMap* map) {
  const Problem& p = call.problem;
  const Strides& s = call.k_strides;
  const MapDimension dimensions[] = {
      {p.kv_len, 1, kPanel}, {p.head_dim, s.row, p.head_dim}, {p.kv_heads, s.head, 1}, {p.batch, s.batch, 1}};
  return encode(driver, p.dtype, call.k, dimensions, map);
}

Status refused(const Driver& driver, const char* tensor, const Call& call, CUresult result) {
  const Status status = driver.error("cuTensorMapEncodeTiled", result);
  return {status.code(), std::string("the driver refused the tensor map of ") + tensor + " for " +
                             to_text(call.problem) + ": " + status.message()};
}

Status encode_all(const Driver& driver, const Call& call, const Candidate& c, TensorMaps* maps) {
  const int d = call.problem.head_dim, dv = call.problem.head_dim_v;
  CUresult r = encode_rows(driver, call, c.pack, call.q, call.q_strides, d, query_rows(c), &maps->q);
  if (r != CUDA_SUCCESS) return refused(driver, "q", call, r);
  r = call.problem.keys_transposed ? encode_transposed_keys(driver, call, &maps->k)
                                   : encode_keys(driver, call, call.k, call.k_strides, d, c.tile_n, &maps->k);
  if (r != CUDA_SUCCESS) return refused(driver, "k", call, r);
  r = encode_keys(driver, call, call.v, call.v_strides, dv, c.tile_n, &maps->v);
  if (r != CUDA_SUCCESS) return refused(driver, "v", call, r);
  r = encode_rows(driver, call, c.pack, call.out, call.out_strides, dv, kWarpgroupRows, &maps->out);
  return r == CUDA_SUCCESS ? Status() : refused(driver, "out", call, r);
}

}  // namespace

Status tensor_maps(const Driver& driver, const Call& call, const Candidate& candidate, TensorMaps* maps) {
  constinit thread_local static RecentMaps recent;
  const MapKey key = key_of(call, candidate);
  if (const TensorMaps* kept = recent.find(key)) {
    *maps = *kept;
    return {};
  }
  if (Status status = encode_all(driver, call, candidate, maps); !status.ok()) return status;
  recent.keep(key, *maps);
  return {};
}

Status can_map_tensors(const Driver& driver) {
  if (driver.cuTensorMapEncodeTiled != nullptr) return {};
  return {Code::kNoDevice,
          "the CUDA driver is too old for warpgroup kernels: libcuda.so.1 has no cuTensorMapEncodeTiled; install a "
          "driver for CUDA 12.0 or newer"};
}

}  // namespace gqa
