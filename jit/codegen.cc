// codegen.cc: see codegen.h.
#include "jit/codegen.h"

#include <sstream>
#include <string_view>

#include "jit/score_chain.h"
#include "jit/wgmma_text.h"
#include "search/families/resources.h"
#include "search/graph/tile/kernel_plan.h"

namespace gqa {
namespace {

struct FamilyText {
  std::string_view header, type, smem, what;
};

FamilyText text_of(Family family) {
  switch (family) {
    case Family::kFlash:
      return {"attention/mma_flash/flash.cuh", "gqa::Flash", "gqa::FlashSmem",
              "a CTA walks all keys of its query rows"};
    case Family::kSplit:
      return {"attention/split_kv/split.cuh", "gqa::Split", "gqa::SplitSmem",
              "CTAs share the keys of a row tile; the last merges"};
    case Family::kWarpgroup:
      return {"attention/wgmma_flash/warpgroup_flash.cuh", "gqa::WarpgroupFlash", "gqa::WarpgroupSmem",
              "a producer feeds warpgroups that walk the keys of 64 query rows each"};
  }
  return {};
}

constexpr int kColumnsOfOnes = 8;  // the fewest that wgmma takes

bool needs_half_scores(const Problem& problem, const Candidate& candidate) {
  return candidate.ones_column != 0 || halves_tiles(problem, candidate);
}

// The products' wrappers stand before the Config that names them.
void write_products(std::ostream& out, const Problem& problem, const Candidate& candidate) {
  const BLayout keys = problem.keys_transposed() ? BLayout::kRows : BLayout::kColumns;
  const auto scores = candidate.q_regs != 0 ? either_product : shared_product;  // by where Q is
  out << scores("Scores", problem.dtype, candidate.tile_n, keys) << "\n";
  if (needs_half_scores(problem, candidate))
    out << scores("HalfScores", problem.dtype, candidate.tile_n / 2, keys) << "\n";
  const int ones = candidate.ones_column != 0 ? kColumnsOfOnes : 0;
  out << register_product("Values", problem.dtype, problem.head_dim_v + ones, BLayout::kRows) << "\n";
}

void write_warpgroup_config(std::ostream& out, const Problem& problem, const Candidate& candidate) {
  const auto flag = [](int value) { return value != 0 ? "true" : "false"; };
  out << "  using Scores = ::Scores;\n"
      << (needs_half_scores(problem, candidate) ? "  using HalfScores = ::HalfScores;\n" : "")
      << "  using Values = ::Values;\n"
      << "  static constexpr bool kDynamic = " << flag(candidate.dynamic)
      << ";  // tile scheduler; else static rounds\n"
      << "  static constexpr int kResident = " << resident_blocks(candidate) << ";  // CTAs an SM holds\n"
      << "  static constexpr int kOutParts = " << candidate.out_parts
      << ";  // through a buffer; 0: out leaves from registers\n";
}

// What only some kernels have: features.cuh.
void write_features(std::ostream& out, const Problem& problem, const Candidate& candidate, bool chain) {
  if (problem.keys_transposed())
    out << "  static constexpr bool kKeysTransposed = true;  // a row of k: one column of all keys\n";
  if (candidate.ones_column != 0)
    out << "  static constexpr bool kOnesColumn = true;  // beside the values: PV sums the rows\n";
  // A chain makes other numbers of scores than exponents.
  if (candidate.folded_scale != 0 && !chain)
    out << "  static constexpr bool kFoldedScale = true;  // into Q: QK makes exponents\n";
  if (candidate.exp2_fma != 0)
    out << "  static constexpr int kExp2Fma = " << candidate.exp2_fma
        << ";  // one pair of weights in so many, on the FMA units\n";
  if (candidate.q_regs != 0)
    out << "  static constexpr int kQRegs = " << candidate.q_regs << ";  // times 16 columns of Q in registers\n";
  if (candidate.queries != 1) out << "  static constexpr int kQueries = " << candidate.queries << ";  // Q buffers\n";
  if (candidate.cluster != 1)
    out << "  static constexpr int kCluster = " << candidate.cluster << ";  // CTAs that share keys and values\n";
  if (candidate.stream_k != 0) out << "  static constexpr bool kStreamK = true;  // for the last partial wave\n";
  if (chain) out << "  using Chain = ::ScoreChain;\n";
}

void write_config(std::ostream& out, const Problem& problem, const Candidate& candidate, bool chain) {
  out << "struct Config {\n"
      << "  using Element = gqa::" << (problem.dtype == DType::kF16 ? "F16" : "BF16") << ";\n"
      << "  static constexpr int kHeadDim = " << problem.head_dim << ";\n"
      << "  static constexpr int kHeadDimV = " << problem.head_dim_v << ";\n"
      << "  static constexpr bool kCausal = " << (problem.causal() ? "true" : "false") << ";\n"
      << "  static constexpr int kAlign = " << problem.align << ";   // bytes every row is aligned to\n"
      << "  static constexpr int kTileM = " << candidate.tile_m << ";   // query rows a CTA owns\n"
      << "  static constexpr int kTileN = " << candidate.tile_n << ";   // keys a step\n"
      << "  static constexpr int kWarps = " << candidate.warps << ";\n"
      << "  static constexpr int kStages = " << candidate.stages << ";  // KV buffers\n"
      << "  static constexpr int kPack = " << candidate.pack << ";    // query heads of a group in the tile's rows\n";
  if (candidate.family == Family::kWarpgroup) write_warpgroup_config(out, problem, candidate);
  write_features(out, problem, candidate, chain);
  out << "};\n";
}

// The entry point's parameters after `params`, and what the family is made from.
std::string_view more_parameters(Family family) {
  return family == Family::kWarpgroup ? ", const __grid_constant__ gqa::TensorMaps maps" : "";
}
std::string_view more_arguments(Family family) { return family == Family::kWarpgroup ? "maps, " : ""; }

std::string cluster_bounds(const LaunchPlan& launch) {
  return launch.cluster == 1 ? "" : "__cluster_dims__(" + std::to_string(launch.cluster) + ", 1, 1) ";
}

// `steps`: on each score before the softmax.
std::string source(const Problem& problem, const Candidate& candidate, const std::vector<ScoreStep>& steps) {
  const FamilyText family = text_of(candidate.family);
  const LaunchPlan launch = plan(problem, candidate);
  const bool chain = !steps.empty();
  std::ostringstream out;
  out << "// Grouped-query attention, generated by gqa.\n"
      << "// problem:   " << feature_text(problem) << "\n"
      << "// candidate: " << kernel_text(candidate) << "\n"
      << "// family:    " << family.what << "\n";
  if (chain) out << "// scores:    " << to_text(steps) << "\n";
  out << "#include \"" << family.header << "\"\n\n";
  if (candidate.family == Family::kWarpgroup) write_products(out, problem, candidate);
  if (chain) out << score_chain("ScoreChain", steps) << "\n";
  write_config(out, problem, candidate, chain);
  out << "\nusing Smem = " << family.smem << "<Config>;\n"
      << "static_assert(sizeof(Smem) == " << launch.shared_memory
      << ", \"the host's plan and the device's layout differ\");\n\n"
      << "extern \"C\" __global__ void " << cluster_bounds(launch) << "__launch_bounds__(" << launch.threads << ", "
      << launch.resident << ")\n"
      << kEntryPoint << "(const __grid_constant__ gqa::AttentionParams params" << more_parameters(candidate.family)
      << ") {\n"
      << "  extern __shared__ __align__(1024) char memory[];\n"
      << "  " << family.type << "<Config>{params, " << more_arguments(candidate.family)
      << "*reinterpret_cast<Smem*>(memory)}.run();\n"
      << "}\n";
  return out.str();
}

}  // namespace

std::string feature_text(const Problem& problem) {
  std::ostringstream out;
  out << "d=" << problem.head_dim << ",dv=" << problem.head_dim_v << ",dtype=" << name(problem.dtype)
      << (problem.causal() ? ",causal" : "") << ",align=" << problem.align
      << (problem.keys_transposed() ? ",ktrans" : "");
  return out.str();
}

std::string attention_source(const Problem& problem, const Candidate& candidate) {
  return source(problem, candidate, {});
}

std::string family_source(const FamilyKernel& kernel) {
  return source(kernel.form.problem, kernel.candidate, device_steps(kernel.form));
}

std::string check_source() { return "// Verification kernels of gqa.\n#include \"check/check.cuh\"\n"; }

}  // namespace gqa
