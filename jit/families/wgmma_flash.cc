// wgmma_flash.cc: wgmma_flash's code; see family_code.h.
#include <sstream>

#include "jit/families/family_code.h"
#include "jit/wgmma_text.h"

namespace gqa {
namespace {

constexpr int kColumnsOfOnes = 8;  // the fewest that wgmma takes

bool needs_half_scores(const Problem& problem, const WgmmaFlash& c) { return c.has_ones() || halves_tiles(problem, c); }

// The products' wrappers.
std::string products_of(const Problem& problem, const WgmmaFlash& c) {
  const BLayout keys = problem.keys_transposed() ? BLayout::kRows : BLayout::kColumns;
  const auto scores = c.q_regs != 0 ? either_product : shared_product;  // by where Q is
  std::string text = scores("Scores", problem.kv_type, c.tile_n, keys) + "\n";
  if (needs_half_scores(problem, c)) text += scores("HalfScores", problem.kv_type, c.tile_n / 2, keys) + "\n";
  const int ones = c.has_ones() ? kColumnsOfOnes : 0;
  return text + register_product("Values", problem.kv_type, problem.head_dim_v + ones, BLayout::kRows) + "\n";
}

std::string config_of(const Problem& problem, const WgmmaFlash& c) {
  const RoleRegisters registers = role_registers(problem, c);
  std::ostringstream out;
  out << tile_config(c.tile_m, c.tile_n, c.warps(), c.stages, c.pack) << "  using Scores = ::Scores;\n"
      << (needs_half_scores(problem, c) ? "  using HalfScores = ::HalfScores;\n" : "") << "  using Values = ::Values;\n"
      << "  using TileScheduler = gqa::" << c.scheduler.device().type << ";\n"
      << "  static constexpr int kProducerRegisters = " << registers.producer << ";  // by setmaxnreg\n"
      << "  static constexpr int kConsumerRegisters = " << registers.consumer << ";\n"
      << "  static constexpr int kResident = " << plan(problem, c).resident << ";  // CTAs an SM holds\n"
      << "  static constexpr int kOutParts = " << c.out_parts
      << ";  // through a buffer; 0: out leaves from registers\n";
  return out.str();
}

std::string features_of(const WgmmaFlash& c) {
  std::ostringstream out;
  if (c.has_ones()) out << "  static constexpr bool kOnesColumn = true;  // beside the values: PV sums the rows\n";
  if (c.q_regs != 0)
    out << "  static constexpr int kQRegs = " << c.q_regs << ";  // times 16 columns of Q in registers\n";
  if (c.queries != 1) out << "  static constexpr int kQueries = " << c.queries << ";  // Q buffers\n";
  if (c.cluster != 1)
    out << "  static constexpr int kCluster = " << c.cluster << ";  // CTAs that share keys and values\n";
  if (c.copies_pages()) out << "  static constexpr bool kCopiesPages = true;  // by cp.async\n";
  return out.str();
}

}  // namespace

FamilyCode code_of(const Problem& problem, const WgmmaFlash& c) {
  FamilyCode code = {{"attention/wgmma_flash/" + std::string(c.scheduler.device().header),
                      "attention/wgmma_flash/warpgroup_flash.cuh"},
                     "gqa::WarpgroupFlash",
                     "gqa::WarpgroupSmem",
                     "a producer feeds warpgroups that walk the keys of 64 query rows each"};
  code.products = products_of(problem, c);
  code.config = config_of(problem, c);
  code.features = features_of(c);
  return code;
}

}  // namespace gqa
