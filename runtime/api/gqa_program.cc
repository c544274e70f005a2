// gqa_program.cc: programs over C, see gqa_graph.h.
// Owns: gqa_program_s: a ready program, what it takes, and its texts; the way from C arguments to the session and to
// LoadedProgram::run.
// Never: decides anything about a search, or lets an exception out (c_api.h).
// Threads: as gqa_graph.h promises. Nothing of a program changes once it is made.
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "runtime/api/args/args.h"
#include "runtime/api/args/program_args.h"
#include "runtime/api/c_api.h"
#include "runtime/api/c_struct.h"
#include "runtime/api/gqa_graph.h"
#include "runtime/api/gqa_graph_internal.h"
#include "runtime/api/graph_explain.h"
#include "runtime/api/handle.h"
#include "runtime/session/graph_answer.h"
#include "search/graph/ir/graph_dot.h"
#include "search/graph/ir/graph_text.h"

struct gqa_program_s {
  gqa::Device& device;
  gqa::GraphAnswer answer;
  gqa::ProgramArguments arguments;
  std::string explanation, text, dot;
};

namespace gqa {
namespace {

constexpr std::size_t kOnStack = 64;  // tensors; a program that has more costs an allocation a run

constexpr const char* kPhases[] = {"search", "compile", "verify", "time", "keep"};

Status null_program() {
  return {Code::kNullArgument, "program is NULL, expected one that gqa_graph_superoptimize made"};
}

Status check_search_options(const gqa_search_options& options) {
  if (Status status = check_struct(options, "gqa_search_options"); !status.ok()) return status;
  if (options.budget >= 0 && options.budget <= kMostSeconds) return {};
  return {Code::kOption, "gqa_search_options.budget is " + std::to_string(options.budget) +
                             ", expected seconds from 0 (the handle's tuning_budget) to 1000000"};
}

gqa_search_progress plain(const Progress& progress) {
  gqa_search_progress shown = {};
  shown.phase = kPhases[static_cast<std::size_t>(progress.phase)];
  shown.explored = progress.enumerated;
  shown.pruned = progress.pruned;
  shown.proved = progress.proved;
  shown.kernels = progress.kernels;
  shown.compiled = progress.compiled;
  shown.programs = progress.selected;
  shown.verified = progress.verified;
  shown.timed = progress.timed;
  shown.best_us = progress.best_us;
  shown.seconds = progress.seconds;
  return shown;
}

GraphRequest request_of(const gqa_graph_s& graph, const gqa_search_options& options) {
  GraphRequest request;
  request.graph = graph.graph;
  if (options.config != nullptr) request.config = options.config;
  if (options.seed != 0) request.seed = options.seed;
  request.budget_seconds = options.budget;
  if (options.progress != nullptr) {
    request.progress = [report = options.progress, user = options.progress_user](const Progress& progress) {
      const gqa_search_progress shown = plain(progress);
      report(user, &shown);
    };
  }
  return request;
}

Status make_program(const gqa_graph_s& graph, gqa_handle handle, const gqa_search_options& options,
                    gqa_program* program) {
  if (Status status = check_search_options(options); !status.ok()) return status;
  GraphAnswer answer;
  if (Status s = gqa::answer(handle->session, request_of(graph, options), &answer); !s.ok()) return s;
  KernelGraph shown;  // with inputs and outputs where the user has them
  const std::vector<int> inputs = inverse(answer.canonical.inputs), outputs = inverse(answer.canonical.outputs);
  if (Status status = reorder(answer.program, inputs, outputs, &shown); !status.ok()) return status;
  ProgramArguments arguments(graph.graph, answer.canonical);
  std::string explanation = explain(graph.graph, answer);
  *program = new gqa_program_s{handle->session.device(), std::move(answer), std::move(arguments),
                               std::move(explanation),   to_text(shown),    to_dot(shown)};
  return {};
}

template <typename Pointer>
Pointer* room(std::array<Pointer, kOnStack>* small, std::vector<Pointer>* large, std::size_t count) {
  if (count <= kOnStack) return small->data();
  large->resize(count);
  return large->data();
}

Status run(const gqa_program_s& program, ProgramArguments::Given inputs, ProgramArguments::Given outputs,
           void* stream) {
  std::array<const void*, kOnStack> few_in;
  std::array<void*, kOnStack> few_out;
  std::vector<const void*> many_in;
  std::vector<void*> many_out;
  const void** in = room(&few_in, &many_in, program.arguments.inputs().size());
  void** out = room(&few_out, &many_out, program.arguments.outputs().size());
  if (Status status = program.arguments.check(program.device, inputs, outputs, in, out); !status.ok()) return status;
  return program.answer.ready->loaded->run(ProgramCall{in, out, stream, nullptr});
}

Status describe_one(const std::vector<TensorSpec>& specs, const char* role, int index, int* rank, std::int64_t* dims,
                    DLDataType* dtype) {
  if (index < 0 || index >= static_cast<int>(specs.size()))
    return {Code::kOption, std::string(role) + " " + std::to_string(index) + " was asked for, expected 0 to " +
                               std::to_string(static_cast<int>(specs.size()) - 1)};
  describe(specs[static_cast<std::size_t>(index)], rank, dims, dtype);
  return {};
}

const char* text_of(gqa_program program, std::string gqa_program_s::*text) {
  return guarded_or<const char*>(nullptr, [&](const char** result) {
    if (program == nullptr) return null_program();
    *result = (program->*text).c_str();
    return Status();
  });
}

template <typename Number>
int number_of(gqa_program program, const Number& number) {
  return guarded_or(0, [&](int* result) {
    if (program == nullptr) return null_program();
    *result = number(*program);
    return Status();
  });
}

}  // namespace
}  // namespace gqa

extern "C" {

gqa_status gqa_graph_superoptimize(gqa_graph graph, gqa_handle handle, const gqa_search_options* options,
                                   gqa_program* program) {
  return gqa::guarded([&]() -> gqa::Status {
    if (program == nullptr) return {gqa::Code::kNullArgument, "program is NULL, expected where to put the new program"};
    *program = nullptr;
    if (graph == nullptr) return gqa::null_graph();
    if (handle == nullptr) return gqa::null_handle();
    gqa_search_options defaults = {};
    defaults.size = sizeof(defaults);
    return gqa::make_program(*graph, handle, options != nullptr ? *options : defaults, program);
  });
}

void gqa_program_destroy(gqa_program program) { delete program; }

int gqa_program_inputs(gqa_program program) {
  return gqa::number_of(program, [](const auto& p) { return static_cast<int>(p.arguments.inputs().size()); });
}

int gqa_program_outputs(gqa_program program) {
  return gqa::number_of(program, [](const auto& p) { return static_cast<int>(p.arguments.outputs().size()); });
}

gqa_status gqa_program_describe_input(gqa_program program, int index, int* rank, int64_t dims[8], DLDataType* dtype) {
  return gqa::guarded([&]() -> gqa::Status {
    if (program == nullptr) return gqa::null_program();
    return gqa::describe_one(program->arguments.inputs(), "input", index, rank, dims, dtype);
  });
}

gqa_status gqa_program_describe_output(gqa_program program, int index, int* rank, int64_t dims[8], DLDataType* dtype) {
  return gqa::guarded([&]() -> gqa::Status {
    if (program == nullptr) return gqa::null_program();
    return gqa::describe_one(program->arguments.outputs(), "output", index, rank, dims, dtype);
  });
}

gqa_status gqa_program_run(gqa_program program, const DLTensor* const* inputs, int input_count,
                           const DLTensor* const* outputs, int output_count, void* stream) {
  return gqa::guarded([&]() -> gqa::Status {
    if (program == nullptr) return gqa::null_program();
    return gqa::run(*program, {inputs, input_count}, {outputs, output_count}, stream);
  });
}

const char* gqa_program_explain(gqa_program program) { return gqa::text_of(program, &gqa_program_s::explanation); }
const char* gqa_program_text(gqa_program program) { return gqa::text_of(program, &gqa_program_s::text); }
const char* gqa_program_dot(gqa_program program) { return gqa::text_of(program, &gqa_program_s::dot); }

int gqa_program_from_cache(gqa_program program) {
  return gqa::number_of(program, [](const auto& p) { return p.answer.origin != gqa::Origin::kTuned ? 1 : 0; });
}

}  // extern "C"
