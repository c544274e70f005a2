// served.cc: see served.h.
#include "search/families/served.h"

namespace gqa {
namespace {

constexpr int kVectorBytes = 16;

}  // namespace

bool can_append(const KernelTraits& t) {
  return t.kv_lengths == Lengths::kEach && t.q_lengths == Lengths::kOne && t.align == kVectorBytes &&
         t.q_type == t.kv_type;
}

std::string not_served(const Problem& p, const Served& served, std::string_view family) {
  const std::string by = std::string(family) + " serves no ";
  if (!served.types.has(p.q_type)) return by + std::string(name(p.q_type));
  if (!served.keys.has(p.keys)) return by + std::string(name(p.keys)) + " keys";
  if (!served.kv_lengths.has(p.kv_lengths)) return by + std::string(name(p.kv_lengths)) + " of keys";
  if (!served.q_lengths.has(p.q_lengths)) return by + std::string(name(p.q_lengths)) + " of queries";
  if (p.sink && !served.sink) return by + "sink";
  if (p.chain.any() && !served.chain) return by + "steps on scores";
  if (p.chain.reads_arrays() && !served.chain_arrays) return by + "steps on scores that read arrays";
  return served.masks.has(p.mask) ? "" : by + std::string(name(p.mask)) + " mask";
}

}  // namespace gqa
