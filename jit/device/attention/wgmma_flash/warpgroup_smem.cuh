// warpgroup_smem.cuh: the shared-memory plan of the warpgroup family's kernel; search/families/resources.cc counts the
// same bytes. Owns: WarpgroupSmem: swizzled panels of 64 columns for queries, keys, values and finished rows (of
// transposed keys: of 64 keys), and the rings that hand them over. Never: moves anything. Threads: shared by a CTA; who
// may touch what is the rings' business.
#pragma once

#include "attention/wgmma_flash/schedule.cuh"
#include "attention/wgmma_flash/tile_ends.cuh"
#include "attention/wgmma_flash/value_tails.cuh"
#include "attention/wgmma_flash/warpgroup_features.cuh"
#include "ptx/wgmma.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupSmem {
  // Bytes from one panel of a tile to the next.
  static constexpr int kQueryPanel = Config::kTileM * kPanelRowBytes;
  static constexpr bool kKeysTransposed = keys_transposed<Config>();
  static constexpr int kKeyPanel = (kKeysTransposed ? Config::kHeadDim : Config::kTileN) * kPanelRowBytes;
  static constexpr int kValuePanel = Config::kTileN * kPanelRowBytes;

  static constexpr int kShare = key_shares<Config>();
  static constexpr int kHandoverBytes = kShare == 1 ? 0 : Config::kHeadDimV * 256 + 2048;
  // 16 rows of a panel of ones, which sums what is multiplied by it.
  static constexpr bool kOnesColumn = ones_column<Config>();
  static constexpr int kOnesBytes = kOnesColumn ? 16 * kPanelRowBytes : 0;
  static_assert(!kOnesColumn || (kShare == 1 && Config::kHeadDimV == kPanelColumns && Config::kOutParts == 1),
                "ones: a second panel");
  static_assert(kShare == 1 || (kShare == 2 && Config::kTileM == 64 && Config::kOutParts == 1), "two share 64 rows");
  static_assert(Config::kStages % kShare == 0, "a buffer is one warpgroup's throughout a tile");

  // A cluster's CTAs take its rows by turns, 64 each time, so that a mask leaves each as much.
  static constexpr int kCluster = cluster_size<Config>();
  static constexpr int kGroupStep = 64 * kCluster;  // rows from one warpgroup's to the next one's
  static_assert(kCluster == 1 || (kShare == 1 && Config::kResident == 1), "a cluster's CTA has an SM");

  static constexpr int kQueryBytes = panels(Config::kHeadDim) * kQueryPanel;
  // Rows leave through a buffer of so many of out's panels, all at once or one by one, or (0) straight from registers.
  static constexpr int kOutParts = Config::kOutParts;
  static constexpr int kOutPanels =
      kOutParts == 0 ? 0 : (panels(Config::kHeadDimV) + kOutParts - 1) / (kOutParts == 0 ? 1 : kOutParts);
  static constexpr int kPanelsAtOnce = kOutParts == 1 ? kOutPanels : 1;
  static constexpr int kOutBytes = kOutPanels * kQueryPanel;
  static constexpr int kKeyPanels = panels(kKeysTransposed ? Config::kTileN : Config::kHeadDim);
  static constexpr int kKeyBytes = kKeyPanels * kKeyPanel;
  static constexpr int kValueBytes = panels(Config::kHeadDimV) * kValuePanel;
  static_assert(!kKeysTransposed || Config::kTileN % kPanelColumns == 0, "transposed keys come in whole panels");

  static constexpr int kQueries = query_buffers<Config>();
  static constexpr bool kPaged = Config::kKeys == KeyLayout::kPaged;
  static constexpr bool kCopiesPages = copies_pages<Config>();                                // page_copies.cuh
  static constexpr bool kCutsValues = !kCopiesPages && (lengths_differ<Config>() || kPaged);  // value_tails.cuh
  static constexpr bool kValuesApart = !kCopiesPages && kPaged;  // another thread asks for them
  static constexpr int kCopyWarps = 3;                           // the producer's has one of four
  static_assert(!kCopiesPages || kPaged, "keys of one address are TMA's");

  alignas(1024) char q[kQueries][kQueryBytes];
  alignas(1024) char k[Config::kStages][kKeyBytes];
  alignas(1024) char v[Config::kStages][kValueBytes];
  // Then the handover, or the ones.
  alignas(kOutParts > 0 ? 1024 : 8) char out[kOutParts > 0 ? kOutBytes + kHandoverBytes + kOnesBytes : 8];
  Ring<kQueries> q_ring;
  Ring<Config::kStages> k_ring, v_ring;
  Tickets tickets;
  TileBroadcast tile_broadcast;
  Ring<1> handover;  // warpgroup_share.cuh
  ValueTails<kCutsValues> tails;
  TileEnds<kCopiesPages> tile_ends;

  // The address of kOnesColumn's panel.
  __device__ u32 ones() const { return shared_address(out) + kOutBytes; }
};

}  // namespace gqa
