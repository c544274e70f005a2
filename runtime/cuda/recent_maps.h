// recent_maps.h: the tensor maps that a thread encoded last, and all that each was made from.
// Owns: MapKey and RecentMaps, a set-associative table of one thread's: 1024 maps, which is every tensor of 256 calls.
// Each tensor has an entry of its own: keys and values of a layer stay while queries and outputs move.
// Never: encodes (tensor_map.cc does); allocates; takes a hash for equality.
// Threads: one owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "jit/device/attention/wgmma_flash/tensor_maps.h"

namespace gqa {

enum class MapKind : std::uint8_t { kRows, kKeys, kTransposedKeys };  // which dimensions a map has

// Without padding, so that bytes compare.
struct MapKey {
  const void* data = nullptr;  // null: no entry
  std::int64_t batch_stride = 0, row_stride = 0, head_stride = 0;
  std::int32_t batch = 0, length = 0, heads = 0;
  std::uint16_t columns = 0, pack = 0, box = 0;
  MapKind kind = MapKind::kRows;
  std::uint8_t bf16 = 0;
  std::int32_t unused = 0;

  bool operator==(const MapKey& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(std::has_unique_object_representations_v<MapKey>);

class RecentMaps {
 public:
  // Null if the map is not there.
  const TensorMap* find(const MapKey& key) const {
    const std::uint64_t hash = hash_of(key);
    const Set& set = sets_[hash % kSets];
    const std::uint32_t tag = tag_of(hash);
    for (std::size_t way = 0; way < kWays; ++way)
      if (set.tags[way] == tag && set.keys[way] == key) return &set.maps[way];
    return nullptr;
  }

  // In place of the set's oldest.
  void keep(const MapKey& key, const TensorMap& map) {
    const std::uint64_t hash = hash_of(key);
    Set& set = sets_[hash % kSets];
    set.tags[set.oldest] = tag_of(hash);
    set.keys[set.oldest] = key;
    set.maps[set.oldest] = map;
    set.oldest = (set.oldest + 1) % kWays;
  }

 private:
  static constexpr std::size_t kSets = 128, kWays = 8;
  struct Set {
    std::array<TensorMap, kWays> maps;
    std::array<MapKey, kWays> keys;
    std::array<std::uint32_t, kWays> tags;
    std::uint32_t oldest;
  };

  // Of what differs from call to call; the rest is left to the comparison.
  static std::uint64_t hash_of(const MapKey& key) {
    const std::uint64_t place = reinterpret_cast<std::uintptr_t>(key.data);
    const std::uint64_t shape = static_cast<std::uint64_t>(key.length) << 32 |
                                static_cast<std::uint64_t>(key.batch) << 16 | static_cast<std::uint64_t>(key.box);
    std::uint64_t mixed = (place ^ shape * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
    mixed = (mixed ^ mixed >> 32) * 0xc4ceb9fe1a85ec53ULL;
    return mixed ^ mixed >> 29;
  }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  std::array<Set, kSets> sets_{};
};

}  // namespace gqa
