// family_code.cc: see family_code.h.
#include "jit/families/family_code.h"

#include <sstream>

namespace gqa {

std::string terms_config(int terms) {
  if (terms == 0) return "";
  return "  static constexpr int kTerms = " + std::to_string(terms) +
         ";  // products of tf32 that make one of float32\n";
}

std::string tile_config(int tile_m, int tile_n, int warps, int stages, int pack) {
  std::ostringstream out;
  out << "  static constexpr int kTileM = " << tile_m << ";   // query rows a CTA owns\n"
      << "  static constexpr int kTileN = " << tile_n << ";   // keys a step\n"
      << "  static constexpr int kWarps = " << warps << ";\n"
      << "  static constexpr int kStages = " << stages << ";  // KV buffers\n"
      << "  static constexpr int kPack = " << pack << ";    // query heads of a group in the tile's rows\n";
  return out.str();
}

}  // namespace gqa
