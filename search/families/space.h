// space.h: which candidates there are, which are worth compiling, whatever their family.
// Owns: a problem's candidates of all families, those that are refused with a reason each, and the rest ranked by the
// families' cost models.
// Never: compiles or times, or has a table: each family has its own.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "search/device_spec.h"
#include "search/families/candidate.h"
#include "search/problem/problem.h"

namespace gqa {

struct Rejected {
  Candidate candidate;
  std::string reason;  // "needs 245,760 bytes of shared memory, the device has 232,448"
};

struct Ranked {
  Candidate candidate;
  double predicted_us = 0;  // the cost model's estimate
};

struct Space {
  std::vector<Ranked> ranked;      // best first; ties broken by Candidate order
  std::vector<Rejected> rejected;  // in enumeration order
};

// Every candidate of the problem on the device (the host device's list has warps = stages = 1), pruned and ranked.
Space enumerate(const Problem& problem, const DeviceSpec& device);

// "" if the candidate can run, else why not. What enumerate() prunes by, and what a kernel loaded from a cache is
// checked against.
std::string reject_reason(const Problem& problem, const Candidate& candidate, const DeviceSpec& device);

// Estimated kernel time in microseconds: the larger of arithmetic and memory over the waves the grid makes, with the
// merge of splits and the launch added.
double predict_us(const Problem& problem, const Candidate& candidate, const DeviceSpec& device);

// Estimated cost of moving keys and values, in bytes that an SM gets from L2; one from memory counts several
// times. What moves less needs less power, and a card at its limit then runs faster: between candidates that take
// equally long this decides. The host has none: 0.
double moved_bytes(const Problem& problem, const Candidate& candidate, const DeviceSpec& device);

}  // namespace gqa
