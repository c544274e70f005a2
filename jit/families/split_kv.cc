// split_kv.cc: split_kv's code; see family_code.h.
#include "jit/families/family_code.h"

namespace gqa {

FamilyCode code_of(const Problem&, const SplitKv& c) {
  FamilyCode code = {{"attention/split_kv/split.cuh"},
                     "gqa::Split",
                     "gqa::SplitSmem",
                     "CTAs share the keys of a row tile; the last merges"};
  code.config = tile_config(c.tile_m, c.tile_n, c.warps, c.stages, c.pack) + terms_config(c.terms);
  code.features = "  static constexpr bool kKeysReadOnce = true;  // by a tile or two\n";
  if (c.scheduler == SplitScheduler::kEven)
    code.features += "  static constexpr bool kEvenSplits = true;  // of one list of all tiles' blocks\n";
  return code;
}

}  // namespace gqa
