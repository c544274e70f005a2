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

struct SkeletonText {
  std::string_view header, type, smem, what;
};

SkeletonText text_of(Skeleton skeleton) {
  switch (skeleton) {
    case Skeleton::kFlash:
      return {"attention/mma_flash/flash.cuh", "gqa::Flash", "gqa::FlashSmem",
              "a CTA walks all keys of its query rows"};
    case Skeleton::kSplit:
      return {"attention/split_kv/split.cuh", "gqa::Split", "gqa::SplitSmem",
              "CTAs share the keys of a row tile; the last merges"};
    case Skeleton::kWarpgroup:
      return {"attention/wgmma_flash/warpgroup_flash.cuh", "gqa::WarpgroupFlash", "gqa::WarpgroupSmem",
              "a producer feeds warpgroups that walk the keys of 64 query rows each"};
  }
  return {};
}

constexpr int kColumnsOfOnes = 8;  // the fewest that wgmma takes

bool needs_half_scores(const Problem& problem, const Candidate& candidate) {
  return candidate.sums != 0 || halves_tiles(problem, candidate);
}

// The products' wrappers stand before the Config that names them.
void write_products(std::ostream& out, const Problem& problem, const Candidate& candidate) {
  const BLayout keys = problem.keys_transposed ? BLayout::kRows : BLayout::kColumns;
  const auto scores = candidate.held != 0 ? either_product : shared_product;  // by where the queries are
  out << scores("Scores", problem.dtype, candidate.tile_n, keys) << "\n";
  if (needs_half_scores(problem, candidate))
    out << scores("HalfScores", problem.dtype, candidate.tile_n / 2, keys) << "\n";
  const int sums = candidate.sums != 0 ? kColumnsOfOnes : 0;
  out << register_product("Values", problem.dtype, problem.head_dim_v + sums, BLayout::kRows) << "\n";
}

void write_warpgroup_config(std::ostream& out, const Problem& problem, const Candidate& candidate) {
  const auto flag = [](int value) { return value != 0 ? "true" : "false"; };
  out << "  using Scores = ::Scores;\n"
      << (needs_half_scores(problem, candidate) ? "  using HalfScores = ::HalfScores;\n" : "")
      << "  using Values = ::Values;\n"
      << "  static constexpr bool kDraw = " << flag(candidate.draw) << ";  // CTAs draw the next tile\n"
      << "  static constexpr int kResident = " << resident_blocks(candidate) << ";  // CTAs a processor holds\n"
      << "  static constexpr int kOutParts = " << candidate.out_parts
      << ";  // through a buffer; 0: out leaves from registers\n";
}

// What only some kernels have: features.cuh.
void write_features(std::ostream& out, const Problem& problem, const Candidate& candidate, bool chain) {
  if (problem.keys_transposed)
    out << "  static constexpr bool kKeysTransposed = true;  // a row of k: one column of all keys\n";
  if (candidate.sums != 0) out << "  static constexpr bool kSums = true;  // of weights, by the products with values\n";
  // A chain makes other numbers of scores than exponents.
  if (candidate.shift != 0 && !chain)
    out << "  static constexpr bool kShift = true;  // scores to exponents, by the products with keys\n";
  if (candidate.poly != 0)
    out << "  static constexpr int kPackedExp = " << candidate.poly << ";  // one pair of weights in so many\n";
  if (candidate.held != 0)
    out << "  static constexpr int kHeld = " << candidate.held << ";  // times 16 columns of queries, in registers\n";
  if (candidate.queries != 1)
    out << "  static constexpr int kQueries = " << candidate.queries << ";  // buffers of queries\n";
  if (candidate.cluster != 1)
    out << "  static constexpr int kCluster = " << candidate.cluster << ";  // CTAs that share keys and values\n";
  if (candidate.tail != 0) out << "  static constexpr bool kSharesTail = true;  // of tiles, by their keys\n";
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
  if (candidate.skeleton == Skeleton::kWarpgroup) write_warpgroup_config(out, problem, candidate);
  write_features(out, problem, candidate, chain);
  out << "};\n";
}

// The entry point's parameters after `params`, and what the skeleton is made from.
std::string_view more_parameters(Skeleton skeleton) {
  return skeleton == Skeleton::kWarpgroup ? ", const __grid_constant__ gqa::TensorMaps maps" : "";
}
std::string_view more_arguments(Skeleton skeleton) { return skeleton == Skeleton::kWarpgroup ? "maps, " : ""; }

std::string cluster_bounds(const LaunchPlan& launch) {
  return launch.cluster == 1 ? "" : "__cluster_dims__(" + std::to_string(launch.cluster) + ", 1, 1) ";
}

// `steps`: on each score before the softmax.
std::string source(const Problem& problem, const Candidate& candidate, const std::vector<ScoreStep>& steps) {
  const SkeletonText skeleton = text_of(candidate.skeleton);
  const LaunchPlan launch = plan(problem, candidate);
  const bool chain = !steps.empty();
  std::ostringstream out;
  out << "// Grouped-query attention, generated by gqa.\n"
      << "// problem:   " << feature_text(problem) << "\n"
      << "// candidate: " << kernel_text(candidate) << "\n"
      << "// skeleton:  " << skeleton.what << "\n";
  if (chain) out << "// scores:    " << to_text(steps) << "\n";
  out << "#include \"" << skeleton.header << "\"\n\n";
  if (candidate.skeleton == Skeleton::kWarpgroup) write_products(out, problem, candidate);
  if (chain) out << score_chain("ScoreChain", steps) << "\n";
  write_config(out, problem, candidate, chain);
  out << "\nusing Smem = " << skeleton.smem << "<Config>;\n"
      << "static_assert(sizeof(Smem) == " << launch.shared_memory
      << ", \"the host's plan and the device's layout differ\");\n\n"
      << "extern \"C\" __global__ void " << cluster_bounds(launch) << "__launch_bounds__(" << launch.threads << ", "
      << launch.resident << ")\n"
      << kEntryPoint << "(const __grid_constant__ gqa::AttentionParams params" << more_parameters(candidate.skeleton)
      << ") {\n"
      << "  extern __shared__ __align__(1024) char memory[];\n"
      << "  " << skeleton.type << "<Config>{params, " << more_arguments(candidate.skeleton)
      << "*reinterpret_cast<Smem*>(memory)}.run();\n"
      << "}\n";
  return out.str();
}

}  // namespace

std::string feature_text(const Problem& problem) {
  std::ostringstream out;
  out << "d=" << problem.head_dim << ",dv=" << problem.head_dim_v << ",dtype=" << name(problem.dtype)
      << (problem.causal() ? ",causal" : "") << ",align=" << problem.align
      << (problem.keys_transposed ? ",ktrans" : "");
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
