// program.h: whatever a device compiles, loads, times or runs, as data.
// Owns: Source (a kernel's text), Step (one launch: which kernel, how, with which arguments), Program (its steps and
// the memory between them), Operation, and the number that says how arguments are laid out.
// Never: compiles or launches; devices do. Never holds a candidate that was not proved or a problem that was not
// checked.
// Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "jit/block/tile_codegen.h"
#include "runtime/call/role.h"
#include "runtime/call/strides.h"
#include "search/families/candidate.h"
#include "search/problem/problem.h"

namespace gqa {

// A kernel's source: CUDA for a GPU, the µGraph's text for the host.
struct Source {
  std::string text;
  std::string family;  // that of search/version.h which it is made by
  // How it is launched: grid rule, threads, cluster, shared memory, workspace, tensor maps. A cached CUBIN is loaded
  // only where its row's text and number (kLaunchAbi) are those that this library would launch it with.
  std::string launch;
  std::string problem, candidate;  // what it is made for, and with: notes in its row
};

// Where a tensor of a launch lies: number `index` of the call's inputs or outputs, or so many bytes into the memory
// between the steps.
struct TensorPlace {
  enum class Kind : std::uint8_t { kInput, kOutput, kBetween } kind = Kind::kBetween;
  std::int64_t index = 0;
};

// What a graph hands an attention family's launch, in the order of its arguments.
inline constexpr std::array kFixedRoles = {Role::kQ, Role::kK, Role::kV, Role::kOut};

// An attention family's launch inside a graph: lengths, strides, scale and its chain's numbers are the graph's.
struct FixedAttention {
  Problem problem;
  std::array<Strides, kFixedRoles.size()> strides;  // of q, k, v and out
  float scale = 0;
  ScoreSlots slots = {};
};

struct AttentionStep {
  Problem problem;                      // that the kernel is made for; a call brings its own lengths
  Candidate candidate;                  // grid rule, threads, cluster, shared memory and tensor maps follow from it
  std::optional<FixedAttention> fixed;  // else lengths, strides and addresses are the call's
};

// What one kernel does for all shapes and types, beside attention.
enum class Operation { kAppend, kMergeStates };
inline constexpr std::array kOperations = {Operation::kAppend, Operation::kMergeStates};
constexpr std::size_t index_of(Operation operation) { return static_cast<std::size_t>(operation); }

// One launch.
struct Step {
  std::size_t source = 0;  // of Program::sources
  // A block kernel's inputs, then its outputs; fixed attention's q, k, v, out; none where the call brings them.
  std::vector<TensorPlace> arguments;
  std::variant<TileLaunch, AttentionStep, Operation> launch;

  const AttentionStep* attention() const { return std::get_if<AttentionStep>(&launch); }
  const Operation* operation() const { return std::get_if<Operation>(&launch); }
};

struct Program {
  std::string text;  // what a cached winner is kept as: a candidate, or a µGraph with its thread plans
  std::vector<Source> sources;
  std::vector<Step> steps;
  std::int64_t bytes_between = 0;  // of tensors that one step writes and another reads
};

// Raised when AttentionParams, TensorMaps or a block kernel's arguments are laid out or read in another way.
inline constexpr int kLaunchAbi = 1;

}  // namespace gqa
