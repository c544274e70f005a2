// warpgroup_smem.cuh: the shared-memory plan of the warpgroup skeleton; search/resources.cc counts the same bytes.
// Owns: WarpgroupSmem: swizzled panels of 64 columns for queries, keys, values and finished rows (of transposed keys:
// of 64 keys), and the rings that hand them over. Never: moves anything. Threads: shared by a CTA; who may touch what
// is the rings' business.
#pragma once

#include "features.cuh"
#include "schedule.cuh"
#include "wgmma.cuh"

namespace gqa {

template <typename Config>
struct WarpgroupSmem {
  // Bytes from one panel of a tile to the next.
  static constexpr int kQueryPanel = Config::kTileM * kPanelRowBytes;
  static constexpr bool kKeysTransposed = keys_transposed<Config>();
  static constexpr int kKeyPanel = (kKeysTransposed ? Config::kHeadDim : Config::kTileN) * kPanelRowBytes;
  static constexpr int kValuePanel = Config::kTileN * kPanelRowBytes;

  static constexpr int kQueryBytes = panels(Config::kHeadDim) * kQueryPanel;
  static constexpr int kOutBytes = panels(Config::kHeadDimV) * kQueryPanel;
  static constexpr int kKeyPanels = panels(kKeysTransposed ? Config::kTileN : Config::kHeadDim);
  static constexpr int kKeyBytes = kKeyPanels * kKeyPanel;
  static constexpr int kValueBytes = panels(Config::kHeadDimV) * kValuePanel;
  static_assert(!kKeysTransposed || Config::kTileN % kPanelColumns == 0, "transposed keys come in whole panels");
  // Without a buffer of its own, finished rows of out take the place of the queries.
  static constexpr int kTileBytes = Config::kOwnOut || kQueryBytes > kOutBytes ? kQueryBytes : kOutBytes;

  alignas(1024) char q[kTileBytes];
  alignas(1024) char k[Config::kStages][kKeyBytes];
  alignas(1024) char v[Config::kStages][kValueBytes];
  alignas(Config::kOwnOut ? 1024 : 8) char out[Config::kOwnOut ? kOutBytes : 8];
  Ring<1> q_ring;
  Ring<Config::kStages> k_ring, v_ring;
  Tickets tickets;
};

}  // namespace gqa
