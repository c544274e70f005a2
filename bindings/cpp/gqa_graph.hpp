// gqa_graph.hpp: graphs of one's own and the programs found for them; gqa.hpp includes it.
// Owns: a thin layer over gqa_graph.h: gqa::Graph, gqa::Value, gqa::Program, gqa::SearchOptions.
// Never: decides anything: every rule and every message is the library's.
// Threads: as the C functions: a graph (and its values) belongs to one thread at a time; a program may be used from
// many.
#ifndef GQA_GRAPH_HPP_
#define GQA_GRAPH_HPP_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gqa.hpp"
#include "gqa_graph.h"

namespace gqa {

// ---------------------------------------------------------------- programs

// What a program takes or gives.
struct TensorSpec {
  Dims dims;
  DLDataType dtype = {};
};

// The fastest program found for a graph; see gqa_program_run.
class Program {
 public:
  explicit Program(gqa_program program) : program_(program) {}  // takes it over

  void run(const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& outputs, void* stream = nullptr) const {
    const std::vector<const DLTensor*> in = detail::addresses(inputs), out = detail::addresses(outputs);
    check(gqa_program_run(get(), in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()),
                          stream));
  }

  int inputs() const { return gqa_program_inputs(get()); }
  int outputs() const { return gqa_program_outputs(get()); }
  TensorSpec input(int index) const { return describe(gqa_program_describe_input, index); }
  TensorSpec output(int index) const { return describe(gqa_program_describe_output, index); }

  std::string explain() const { return text(gqa_program_explain(get())); }
  std::string text() const { return text(gqa_program_text(get())); }
  std::string dot() const { return text(gqa_program_dot(get())); }
  bool from_cache() const { return gqa_program_from_cache(get()) == 1; }

  gqa_program get() const { return program_.get(); }

 private:
  template <typename Function>
  TensorSpec describe(Function function, int index) const {
    std::int64_t dims[8] = {};
    int rank = 0;
    TensorSpec spec;
    check(function(get(), index, &rank, dims, &spec.dtype));
    spec.dims.assign(dims, dims + rank);
    return spec;
  }
  static std::string text(const char* given) {
    if (given == nullptr) throw Error(GQA_ERROR_OUT_OF_MEMORY, gqa_last_error());
    return given;
  }

  struct Destroy {
    void operator()(gqa_program program) const { gqa_program_destroy(program); }
  };
  std::unique_ptr<gqa_program_s, Destroy> program_;
};

// ---------------------------------------------------------------- graphs

// A tensor of a graph. Light: copies mean the same tensor. Not to be used after its graph has ended.
class Value {
 public:
  Value() = default;
  Value(gqa_graph graph, gqa_value value) : graph_(graph), value_(value) {}

  Dims dims() const { return spec().dims; }
  DLDataType dtype() const { return spec().dtype; }
  TensorSpec spec() const {
    std::int64_t dims[8] = {};
    int rank = 0;
    TensorSpec spec;
    check(gqa_graph_describe(graph_, value_, &rank, dims, &spec.dtype));
    spec.dims.assign(dims, dims + rank);
    return spec;
  }
  void rename(const std::string& name) const { check(gqa_graph_rename(graph_, value_, name.c_str())); }

  gqa_graph graph() const { return graph_; }
  gqa_value get() const { return value_; }

 private:
  gqa_graph graph_ = nullptr;
  gqa_value value_ = {0, -1};
};

struct SearchOptions {
  std::string config;      // "": for any graph; "attention"
  double budget = 0;       // seconds to spend on compiling and timing; 0: the handle's
  std::uint64_t seed = 0;  // of the proofs; 0: 1
  // Called on this thread. What it throws cancels the search, and is thrown again once that has returned.
  std::function<void(const gqa_search_progress&)> progress;
};

class Graph {
 public:
  Graph() {
    gqa_graph made = nullptr;
    check(gqa_graph_create(&made));
    graph_.reset(made);
  }
  // From text() or json().
  static Graph parse(const std::string& text) {
    gqa_graph made = nullptr;
    check(gqa_graph_parse(text.c_str(), &made));
    return Graph(made);
  }

  // strides in elements; empty: row-major without gaps. A program takes its inputs in the order they were declared:
  // declare each in a statement of its own, as C++ leaves open which argument of a call is evaluated first.
  Value input(const Dims& dims, DLDataType dtype, const Dims& strides = {}) {
    if (!strides.empty() && strides.size() != dims.size())
      throw Error(GQA_ERROR_STRIDE, std::to_string(strides.size()) + " strides for " + std::to_string(dims.size()) +
                                        " dimensions: expected one a dimension, or none");
    gqa_value made = {};
    check(gqa_graph_input(get(), static_cast<int>(dims.size()), dims.data(), strides.empty() ? nullptr : strides.data(),
                          dtype, &made));
    return {get(), made};
  }
  void output(Value value) { check(gqa_graph_output(get(), value.get())); }
  Value find(const std::string& name) const {
    gqa_value found = {};
    check(gqa_graph_find(get(), name.c_str(), &found));
    return {get(), found};
  }

  std::string text() const { return text(gqa_graph_text(get())); }
  std::string json() const { return text(gqa_graph_json(get())); }
  std::string dot() const { return text(gqa_graph_dot(get())); }
  std::string hash() const { return text(gqa_graph_hash(get())); }

  Program superoptimize(const Handle& handle, const SearchOptions& options = {}) const {
    detail::Progress<gqa_search_progress> progress = {&options.progress, handle.get(), nullptr};
    gqa_search_options given = {};
    given.size = sizeof(given);
    given.config = options.config.empty() ? nullptr : options.config.c_str();
    given.budget = options.budget;
    given.seed = options.seed;
    given.progress = options.progress ? &progress.tell : nullptr;
    given.progress_user = &progress;
    gqa_program made = nullptr;
    const gqa_status status = gqa_graph_superoptimize(get(), handle.get(), &given, &made);
    Program program(made);
    progress.rethrow();
    check(status);
    return program;
  }

  gqa_graph get() const { return graph_.get(); }

 private:
  explicit Graph(gqa_graph graph) : graph_(graph) {}

  static std::string text(const char* given) {
    if (given == nullptr) throw Error(GQA_ERROR_OUT_OF_MEMORY, gqa_last_error());
    return given;
  }

  struct Destroy {
    void operator()(gqa_graph graph) const { gqa_graph_destroy(graph); }
  };
  std::unique_ptr<gqa_graph_s, Destroy> graph_;
};

}  // namespace gqa

#include "gqa_operators.hpp"

#endif  // GQA_GRAPH_HPP_
