// gqa.hpp: gqa from C++17: values with operators, exceptions, and ends of life that take care of themselves.
// Owns: a thin layer over gqa.h and gqa_graph.h: gqa::Handle, gqa::Graph, gqa::Value, gqa::Program, gqa::Tensor and
// gqa::Error. Header only; link with -lgqa.
// Never: decides anything: every rule and every message is the library's.
// Threads: as the C functions: a graph (and its values) belongs to one thread at a time; a handle and a program may be
// used from many.
//
//   gqa::Graph graph;
//   gqa::Value x = graph.input({16, 4096}, gqa::float16), w = graph.input({4096, 1024}, gqa::float16);
//   graph.output(silu(matmul(x, w)));
//   gqa::Handle handle;                                       // the best device present
//   gqa::Program program = graph.superoptimize(handle);
//   program.run({&x_tensor, &w_tensor}, {&y_tensor});         // DLTensors, or gqa::Tensors
#ifndef GQA_HPP_
#define GQA_HPP_

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gqa.h"
#include "gqa_graph.h"

namespace gqa {

using Dims = std::vector<std::int64_t>;

inline constexpr DLDataType float16{kDLFloat, 16, 1}, bfloat16{kDLBfloat, 16, 1}, float32{kDLFloat, 32, 1};

// ---------------------------------------------------------------- errors

// A call that failed. what() says what was given, what was expected and what to do.
class Error : public std::runtime_error {
 public:
  Error(gqa_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  gqa_status status() const noexcept { return status_; }

 private:
  gqa_status status_;
};

inline void check(gqa_status status) {
  if (status != GQA_OK) throw Error(status, gqa_last_error());
}

// ---------------------------------------------------------------- tensors

// A DLTensor that owns its sizes and strides, and not its data.
class Tensor {
 public:
  // strides in elements; empty: row-major without gaps.
  Tensor(void* data, Dims dims, DLDataType dtype, DLDevice device = {kDLCPU, 0}, Dims strides = {})
      : dims_(std::move(dims)), strides_(std::move(strides)) {
    tensor_.data = data;
    tensor_.device = device;
    tensor_.ndim = static_cast<int>(dims_.size());
    tensor_.dtype = dtype;
    point();
  }
  Tensor(const Tensor& other) : dims_(other.dims_), strides_(other.strides_), tensor_(other.tensor_) { point(); }
  Tensor& operator=(const Tensor& other) {
    dims_ = other.dims_;
    strides_ = other.strides_;
    tensor_ = other.tensor_;
    point();
    return *this;
  }

  const Dims& dims() const { return dims_; }
  const DLTensor* get() const { return &tensor_; }

 private:
  void point() {
    tensor_.shape = dims_.data();
    tensor_.strides = strides_.empty() ? nullptr : strides_.data();
  }

  Dims dims_, strides_;
  DLTensor tensor_ = {};
};

// What a function takes where it wants a tensor: a DLTensor's address or a Tensor's.
class TensorRef {
 public:
  TensorRef(const DLTensor* tensor) : tensor_(tensor) {}       // NOLINT: converts on purpose
  TensorRef(const Tensor* tensor) : tensor_(tensor->get()) {}  // NOLINT
  TensorRef(const Tensor& tensor) : tensor_(tensor.get()) {}   // NOLINT
  const DLTensor* get() const { return tensor_; }

 private:
  const DLTensor* tensor_;
};

// What a program takes or gives.
struct TensorSpec {
  Dims dims;
  DLDataType dtype = {};
};

// ---------------------------------------------------------------- handle

// A device, a cache file, a way of tuning. Outlives its programs.
class Handle {
 public:
  Handle() : Handle(gqa_options{}) {}
  // device: "auto", "cuda", "cuda:N", "host".
  explicit Handle(const char* device) : Handle(with_device(device)) {}
  explicit Handle(const std::string& device) : Handle(device.c_str()) {}
  // size is filled in.
  explicit Handle(gqa_options options) {
    options.size = sizeof(options);
    gqa_handle made = nullptr;
    check(gqa_create(&options, &made));
    handle_.reset(made);
  }

  // out = softmax(q k^T scale + mask) v; see gqa_run_ex.
  void attention(TensorRef q, TensorRef k, TensorRef v, TensorRef out) const {
    check(gqa_run(get(), q.get(), k.get(), v.get(), out.get()));
  }
  void attention(TensorRef q, TensorRef k, TensorRef v, TensorRef out, gqa_call call) const {
    call.size = sizeof(call);
    check(gqa_run_ex(get(), q.get(), k.get(), v.get(), out.get(), &call));
  }
  void warm(gqa_shape shape) const {
    shape.size = sizeof(shape);
    check(gqa_warm(get(), &shape));
  }

  // Ends what is being tuned or searched for on this handle, in any thread; see gqa_cancel.
  void cancel() const { check(gqa_cancel(get())); }

  gqa_handle get() const { return handle_.get(); }

 private:
  static gqa_options with_device(const char* device) {
    gqa_options options = {};
    options.device = device;
    return options;
  }
  struct Destroy {
    void operator()(gqa_handle handle) const { gqa_destroy(handle); }
  };
  std::unique_ptr<gqa_handle_s, Destroy> handle_;
};

// ---------------------------------------------------------------- programs

// The fastest program found for a graph; see gqa_program_run.
class Program {
 public:
  explicit Program(gqa_program program) : program_(program) {}  // takes it over

  void run(const std::vector<TensorRef>& inputs, const std::vector<TensorRef>& outputs, void* stream = nullptr) const {
    const std::vector<const DLTensor*> in = addresses(inputs), out = addresses(outputs);
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
  static std::vector<const DLTensor*> addresses(const std::vector<TensorRef>& tensors) {
    std::vector<const DLTensor*> found;
    for (const TensorRef& tensor : tensors) found.push_back(tensor.get());
    return found;
  }
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
    Progress progress = {&options.progress, handle.get(), nullptr};
    gqa_search_options given = {};
    given.size = sizeof(given);
    given.config = options.config.empty() ? nullptr : options.config.c_str();
    given.budget = options.budget;
    given.seed = options.seed;
    given.progress = options.progress ? &Progress::tell : nullptr;
    given.progress_user = &progress;
    gqa_program made = nullptr;
    const gqa_status status = gqa_graph_superoptimize(get(), handle.get(), &given, &made);
    Program program(made);
    if (progress.thrown) std::rethrow_exception(progress.thrown);
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

  // No exception may pass through C: the first is kept, and nothing is told after it.
  struct Progress {
    const std::function<void(const gqa_search_progress&)>* call;
    gqa_handle handle;
    std::exception_ptr thrown;
    static void tell(void* user, const gqa_search_progress* progress) {
      auto* self = static_cast<Progress*>(user);
      if (self->thrown) return;
      try {
        (*self->call)(*progress);
      } catch (...) {
        self->thrown = std::current_exception();
        gqa_cancel(self->handle);
      }
    }
  };
  struct Destroy {
    void operator()(gqa_graph graph) const { gqa_graph_destroy(graph); }
  };
  std::unique_ptr<gqa_graph_s, Destroy> graph_;
};

}  // namespace gqa

#include "gqa_operators.hpp"

#endif  // GQA_HPP_
