// thread_plan.h: the thread level of a µGraph: how a block's operators meet warps, stages and instructions.
// Owns: ThreadPlan, a candidate of the attention families or another family's name and its named whole-number
// parameters, with its text form.
// Never: knows what a family makes of them; that is code generation's.
// Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search/families/candidate.h"
#include "search/status.h"

namespace gqa {

struct ThreadPlan {
  std::string family;                  // empty: not chosen yet
  std::optional<Candidate> candidate;  // of a family of search/families/candidate.h; there are no parameters then
  std::vector<std::pair<std::string, std::int64_t>> parameters;

  std::int64_t get(std::string_view key, std::int64_t otherwise) const;
  friend bool operator==(const ThreadPlan&, const ThreadPlan&) = default;
};

// "flash m=128 n=64 warps=4": a candidate's text is a plan's text, and back where its family is a candidate's.
std::string to_text(const ThreadPlan& plan);
Status parse(std::string_view text, ThreadPlan* plan);
ThreadPlan thread_plan(const Candidate& candidate);

}  // namespace gqa
