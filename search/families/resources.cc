// resources.cc: see resources.h.
#include "search/families/resources.h"

#include "search/families/family.h"

namespace gqa {

CandidateShape shape_of(const Candidate& candidate) {
  return std::visit([](const auto& c) { return shape_of(c); }, candidate.of);
}

LaunchPlan plan(const Problem& problem, const Candidate& candidate) {
  return std::visit([&](const auto& c) { return plan(problem, c); }, candidate.of);
}

int registers(const Problem& problem, const Candidate& candidate) {
  return std::visit([&](const auto& c) { return registers(problem, c); }, candidate.of);
}

}  // namespace gqa
