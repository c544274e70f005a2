// recent_maps.h: the tensor maps that a thread encoded last, and all that each was made from.
// Owns: MapKey and RecentMaps, a set-associative table of one thread's: 1024 maps, which is every tensor of 256 calls.
// Each tensor has an entry of its own: keys and values of a layer stay while queries and outputs move.
// Never: encodes (tensor_map.cc does); allocates; takes a hash for equality.
// Threads: one owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "jit/device/attention/wgmma_flash/tensor_maps.h"

namespace gqa {

// In whole words: written and compared as such, it stays in registers.
struct MapKey {
  const void* data = nullptr;  // null: no entry
  std::int64_t batch_stride = 0, row_stride = 0, head_stride = 0;
  std::uint64_t batch_length = 0, heads_columns = 0, box_pack_type = 0;  // each number above the next

  bool operator==(const MapKey& o) const {
    const std::uint64_t strides = static_cast<std::uint64_t>(
        (batch_stride ^ o.batch_stride) | (row_stride ^ o.row_stride) | (head_stride ^ o.head_stride));
    return data == o.data && (strides | (batch_length ^ o.batch_length) | (heads_columns ^ o.heads_columns) |
                              (box_pack_type ^ o.box_pack_type)) == 0;
  }
};

class RecentMaps {
 public:
  // Null if the map is not there.
  const TensorMap* find(const MapKey& key) {
    const std::uint64_t hash = hash_of(key);
    Set& set = sets_[hash % kSets];
    const std::uint32_t tag = tag_of(hash);
    for (std::size_t way = 0; way < kWays; ++way) {
      if (set.tags[way] != tag) continue;
      Entry& entry = set.entries[way];
      if (!(entry.key == key)) continue;
      entry.used = true;
      return &entry.map;
    }
    return nullptr;
  }

  // In place of the set's next that was not used since the hand last passed: what a model uses for each token stays,
  // what is new each time goes.
  void keep(const MapKey& key, const TensorMap& map) {
    const std::uint64_t hash = hash_of(key);
    Set& set = sets_[hash % kSets];
    while (set.entries[set.hand].used) {
      set.entries[set.hand].used = false;
      set.hand = (set.hand + 1) % kWays;
    }
    set.tags[set.hand] = tag_of(hash);
    set.entries[set.hand] = {map, key, false};
    set.hand = (set.hand + 1) % kWays;
  }

 private:
  static constexpr std::size_t kSets = 64, kWays = 16;
  struct Entry {
    TensorMap map;
    MapKey key;
    bool used;
  };
  struct Set {
    std::array<std::uint32_t, kWays> tags;  // a line of the processor's cache
    std::array<Entry, kWays> entries;
    std::uint32_t hand;
  };

  // A hash of what differs from call to call; the rest is left to the comparison.
  static std::uint64_t hash_of(const MapKey& key) {
    const std::uint64_t place = reinterpret_cast<std::uintptr_t>(key.data);
    std::uint64_t mixed = (place ^ key.batch_length * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
    mixed = (mixed ^ mixed >> 32) * 0xc4ceb9fe1a85ec53ULL;
    return mixed ^ mixed >> 29;
  }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  std::array<Set, kSets> sets_{};
};

}  // namespace gqa
