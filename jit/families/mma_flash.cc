// mma_flash.cc: mma_flash's code; see family_code.h.
#include "jit/families/family_code.h"

namespace gqa {

FamilyCode code_of(const Problem&, const MmaFlash& c) {
  FamilyCode code = {
      {"attention/mma_flash/flash.cuh"}, "gqa::Flash", "gqa::FlashSmem", "a CTA walks all keys of its query rows"};
  code.config = tile_config(c.tile_m, c.tile_n, c.warps, c.stages, c.pack) + terms_config(c.terms);
  return code;
}

}  // namespace gqa
