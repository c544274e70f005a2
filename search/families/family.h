// family.h: what a family of kernels is.
// Owns: the questions that each answers about its own typed candidate, by overloads of these names.
// Never: answers one. candidate.h, resources.h and space.h ask them of whichever family a candidate is of.
// Threads: -.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "search/device_spec.h"
#include "search/families/launch_plan.h"
#include "search/families/text_fields.h"
#include "search/problem/problem.h"

namespace gqa {

template <typename F>
concept KernelFamily = std::three_way_comparable<F> && std::default_initializable<F> &&
    requires(const F& c, F* made, std::vector<F>* all, const Problem& problem, const DeviceSpec& device,
             const typename F::Numbers& numbers) {
  // Its name and what its text gives, in order; the numbers of it, and back: "" or why they are no candidate.
  { F::kText } -> std::convertible_to<FamilyText>;
  { numbers_of(c) } -> std::same_as<typename F::Numbers>;
  { read(numbers, made) } -> std::same_as<std::string>;
  // How it cuts a problem, how it is launched, registers a thread.
  { shape_of(c) } -> std::same_as<CandidateShape>;
  { plan(problem, c) } -> std::same_as<LaunchPlan>;
  { registers(problem, c) } -> std::same_as<int>;
  // " ones_column stream_k": all of its fields that decide how results are rounded; "": none (arithmetic.h).
  { arithmetic_words(c) } -> std::same_as<std::string>;
  // All there are for a problem; why one is not worth compiling, or ""; its time and bytes moved, on a GPU.
  enumerate(problem, device, all);
  { reject_reason(problem, c, device) } -> std::same_as<std::string>;
  { predict_us(problem, c, device) } -> std::same_as<double>;
  { moved_bytes(problem, c, device) } -> std::same_as<double>;
};

}  // namespace gqa
