// gqa_graph.cc: building graphs over C, see gqa_graph.h.
// Owns: the way from C arguments to KernelGraph::add, and the refusal of values that are not the graph's own. Shapes
// and dtypes are KernelGraph's to judge.
// Never: searches or runs anything, or lets an exception out (c_api.h).
// Threads: as gqa_graph.h promises.
#include "runtime/api/gqa_graph.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <vector>

#include "runtime/api/c_api.h"
#include "runtime/api/gqa_graph_internal.h"
#include "runtime/api/tensors/dtype.h"
#include "search/graph/ir/canonical.h"
#include "search/graph/ir/graph_dot.h"
#include "search/graph/ir/graph_json.h"
#include "search/graph/ir/graph_text.h"
#include "search/text.h"

namespace gqa {

void describe(const TensorSpec& spec, int* rank, std::int64_t* dims, DLDataType* dtype) {
  if (rank != nullptr) *rank = static_cast<int>(spec.dims.size());
  if (dims != nullptr) std::copy(spec.dims.begin(), spec.dims.end(), dims);
  if (dtype != nullptr) *dtype = dl_type(spec.type);
}

namespace {

constexpr gqa_value kNoValue = {0, -1};

std::uint32_t next_serial() {
  static std::atomic<std::uint32_t> last{0};
  std::uint32_t serial = 0;
  while (serial == 0) serial = ++last;
  return serial;
}

Status null_argument(const std::string& name, const std::string& expected) {
  return {Code::kNullArgument, name + " is NULL, expected " + expected};
}

// ---- what C hands in

Status find_tensor(const gqa_graph_s& graph, gqa_value value, int* tensor) {
  if (value.graph == 0)
    return {Code::kOption,
            "the value is of no graph: expected one that this graph's functions gave; was the status of "
            "the call that should have made it checked?"};
  if (value.graph != graph.serial)
    return {Code::kOption, "the value is tensor " + std::to_string(value.index) + " of graph " +
                               std::to_string(value.graph) + ", this is graph " + std::to_string(graph.serial) +
                               ": use values that this graph's functions gave"};
  const int count = static_cast<int>(graph.graph.tensors().size());
  if (value.index < 0 || value.index >= count)
    return {Code::kOption, "the value is tensor " + std::to_string(value.index) + ", and the graph has " +
                               std::to_string(count) + ": use values that this graph's functions gave"};
  *tensor = value.index;
  return {};
}

Status read_dims(const std::string& name, int rank, const std::int64_t* given, Dims* dims) {
  if (rank < 1 || rank > static_cast<int>(kMostDims))
    return {Code::kRank, "rank is " + std::to_string(rank) + ", expected 1 to " + std::to_string(kMostDims)};
  if (given == nullptr) return null_argument(name, "an array of " + std::to_string(rank) + " numbers");
  dims->assign(given, given + rank);
  return {};
}

// ---- what is done with it

Status put_input(gqa_graph_s* graph, TensorSpec spec, gqa_value* result) {
  int tensor = -1;
  Status status = graph->graph.add_input(std::move(spec), &tensor);
  if (status.ok()) *result = {graph->serial, tensor};
  return status;
}

Status put(gqa_graph_s* graph, Op op, std::initializer_list<gqa_value> operands, Attributes attributes,
           gqa_value* result) {
  std::vector<int> tensors;
  for (const gqa_value& operand : operands) {
    if (Status status = find_tensor(*graph, operand, &tensors.emplace_back()); !status.ok())
      return {status.code(),
              "operand " + std::to_string(tensors.size()) + " of " + std::string(name(op)) + ": " + status.message()};
  }
  int tensor = -1;
  Status status = graph->graph.add(op, std::move(tensors), std::move(attributes), &tensor);
  if (status.ok()) *result = {graph->serial, tensor};
  return status;
}

// A step on a graph that makes a value. `result` is no value until it is made, so that a failure unseen is told later.
template <typename Step>
gqa_status make_value(gqa_graph graph, gqa_value* result, const Step& step) {
  return guarded([&]() -> Status {
    if (graph == nullptr) return null_graph();
    if (result == nullptr) return null_argument("result", "where to put the new value");
    gqa_value made = kNoValue;
    const Status status = step(&made);
    *result = made;
    return status;
  });
}

gqa_status add(gqa_graph graph, Op op, std::initializer_list<gqa_value> operands, Attributes attributes,
               gqa_value* result) {
  return make_value(graph, result,
                    [&](gqa_value* made) { return put(graph, op, operands, std::move(attributes), made); });
}

Attributes along(int dim) {
  Attributes attributes;
  attributes.dim = dim;
  return attributes;
}

Attributes with_factor(double factor) {
  Attributes attributes;
  attributes.factor = factor;
  return attributes;
}

// Past the largest dimension there is no bound either.
std::int64_t bound(std::int64_t given) { return given < 0 || given > kMostElements ? kUnbounded : given; }

Status named(const gqa_graph_s& graph, const char* name, gqa_value* value) {
  if (name == nullptr) return null_argument("name", "a tensor's name");
  const int tensor = graph.graph.find(name);
  if (tensor < 0) return {Code::kOption, "the graph has no tensor " + quote(name) + ": gqa_graph_text shows its names"};
  *value = {graph.serial, tensor};
  return {};
}

// ---- texts

using Texts = gqa_graph_s::Texts;

template <typename Write>
const char* text_of(gqa_graph graph, std::string Texts::*kind, const Write& write) {
  return guarded_or<const char*>(nullptr, [&](const char** result) -> Status {
    if (graph == nullptr) return null_graph();
    graph->texts.*kind = write(graph->graph);
    *result = (graph->texts.*kind).c_str();
    return {};
  });
}

bool is_json(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Status read_graph(const char* text, gqa_graph* graph) {
  if (graph == nullptr) return null_argument("graph", "where to put the new graph");
  *graph = nullptr;
  if (text == nullptr) return null_argument("text", "a graph's text or JSON form");
  KernelGraph read;
  if (Status status = is_json(text) ? parse_json(text, &read) : parse(text, &read); !status.ok()) return status;
  *graph = new gqa_graph_s{std::move(read), next_serial()};
  return {};
}

}  // namespace
}  // namespace gqa

using gqa::Attributes;
using gqa::Code;
using gqa::guarded;
using gqa::Op;
using gqa::Status;

extern "C" {

gqa_status gqa_graph_create(gqa_graph* graph) {
  return guarded([&]() -> Status {
    if (graph == nullptr) return gqa::null_argument("graph", "where to put the new graph");
    *graph = nullptr;
    *graph = new gqa_graph_s{{}, gqa::next_serial()};
    return {};
  });
}

void gqa_graph_destroy(gqa_graph graph) { delete graph; }

gqa_status gqa_graph_input(gqa_graph graph, int rank, const int64_t* dims, const int64_t* strides, DLDataType dtype,
                           gqa_value* result) {
  return gqa::make_value(graph, result, [&](gqa_value* made) {
    gqa::TensorSpec spec;
    Status status = gqa::read_dims("dims", rank, dims, &spec.dims);
    if (status.ok() && strides != nullptr) status = gqa::read_dims("strides", rank, strides, &spec.strides);
    if (status.ok()) status = gqa::element_type("an input", dtype, &spec.type);
    return status.ok() ? gqa::put_input(graph, std::move(spec), made) : status;
  });
}

gqa_status gqa_graph_output(gqa_graph graph, gqa_value value) {
  return guarded([&]() -> Status {
    if (graph == nullptr) return gqa::null_graph();
    int tensor = -1;
    const Status status = gqa::find_tensor(*graph, value, &tensor);
    return status.ok() ? graph->graph.mark_output(tensor) : status;
  });
}

gqa_status gqa_graph_rename(gqa_graph graph, gqa_value value, const char* name) {
  return guarded([&]() -> Status {
    if (graph == nullptr) return gqa::null_graph();
    if (name == nullptr) return gqa::null_argument("name", "a name for the tensor");
    int tensor = -1;
    const Status status = gqa::find_tensor(*graph, value, &tensor);
    return status.ok() ? graph->graph.rename(tensor, name) : status;
  });
}

gqa_status gqa_graph_find(gqa_graph graph, const char* name, gqa_value* result) {
  return gqa::make_value(graph, result, [&](gqa_value* made) { return gqa::named(*graph, name, made); });
}

gqa_status gqa_graph_describe(gqa_graph graph, gqa_value value, int* rank, int64_t dims[8], DLDataType* dtype) {
  return guarded([&]() -> Status {
    if (graph == nullptr) return gqa::null_graph();
    int tensor = -1;
    const Status status = gqa::find_tensor(*graph, value, &tensor);
    if (status.ok()) gqa::describe(graph->graph.spec(tensor), rank, dims, dtype);
    return status;
  });
}

gqa_status gqa_graph_matmul(gqa_graph graph, gqa_value a, gqa_value b, int transpose_a, int transpose_b,
                            gqa_value* result) {
  Attributes attributes;
  attributes.transpose_a = transpose_a != 0;
  attributes.transpose_b = transpose_b != 0;
  return gqa::add(graph, Op::kMatmul, {a, b}, std::move(attributes), result);
}

#define GQA_BINARY(function, op)                                                                  \
  gqa_status gqa_graph_##function(gqa_graph graph, gqa_value a, gqa_value b, gqa_value* result) { \
    return gqa::add(graph, op, {a, b}, {}, result);                                               \
  }
GQA_BINARY(add, Op::kAdd)
GQA_BINARY(sub, Op::kSub)
GQA_BINARY(mul, Op::kMul)
GQA_BINARY(div, Op::kDiv)
#undef GQA_BINARY

#define GQA_UNARY(function, op)                                                      \
  gqa_status gqa_graph_##function(gqa_graph graph, gqa_value x, gqa_value* result) { \
    return gqa::add(graph, op, {x}, {}, result);                                     \
  }
GQA_UNARY(exp, Op::kExp)
GQA_UNARY(sqrt, Op::kSqrt)
GQA_UNARY(reciprocal, Op::kReciprocal)
GQA_UNARY(square, Op::kSquare)
GQA_UNARY(relu, Op::kRelu)
GQA_UNARY(silu, Op::kSilu)
GQA_UNARY(gelu, Op::kGelu)
GQA_UNARY(tanh, Op::kTanh)
#undef GQA_UNARY

#define GQA_ALONG(function, op)                                                               \
  gqa_status gqa_graph_##function(gqa_graph graph, gqa_value x, int dim, gqa_value* result) { \
    return gqa::add(graph, op, {x}, gqa::along(dim), result);                                 \
  }
GQA_ALONG(sum, Op::kSum)
GQA_ALONG(max, Op::kMax)
GQA_ALONG(mean, Op::kMean)
GQA_ALONG(softmax, Op::kSoftmax)
#undef GQA_ALONG

gqa_status gqa_graph_clamp(gqa_graph graph, gqa_value x, double low, double high, gqa_value* result) {
  Attributes attributes;
  attributes.low = low;
  attributes.high = high;
  return gqa::add(graph, Op::kClamp, {x}, std::move(attributes), result);
}

gqa_status gqa_graph_scale(gqa_graph graph, gqa_value x, double factor, gqa_value* result) {
  return gqa::add(graph, Op::kScale, {x}, gqa::with_factor(factor), result);
}

gqa_status gqa_graph_add_constant(gqa_graph graph, gqa_value x, double constant, gqa_value* result) {
  return gqa::add(graph, Op::kAddConstant, {x}, gqa::with_factor(constant), result);
}

gqa_status gqa_graph_rms_norm(gqa_graph graph, gqa_value x, const gqa_value* weight, double epsilon,
                              gqa_value* result) {
  Attributes attributes;
  attributes.epsilon = epsilon;
  return weight == nullptr ? gqa::add(graph, Op::kRmsNorm, {x}, std::move(attributes), result)
                           : gqa::add(graph, Op::kRmsNorm, {x, *weight}, std::move(attributes), result);
}

gqa_status gqa_graph_mask(gqa_graph graph, gqa_value x, int64_t left, int64_t right, gqa_value* result) {
  Attributes attributes;
  attributes.left = gqa::bound(left);
  attributes.right = gqa::bound(right);
  return gqa::add(graph, Op::kMask, {x}, std::move(attributes), result);
}

gqa_status gqa_graph_broadcast(gqa_graph graph, gqa_value x, int rank, const int64_t* dims, gqa_value* result) {
  return gqa::make_value(graph, result, [&](gqa_value* made) {
    Attributes attributes;
    const Status status = gqa::read_dims("dims", rank, dims, &attributes.dims);
    return status.ok() ? gqa::put(graph, Op::kBroadcast, {x}, std::move(attributes), made) : status;
  });
}

gqa_status gqa_graph_transpose(gqa_graph graph, gqa_value x, const int* order, gqa_value* result) {
  return gqa::make_value(graph, result, [&](gqa_value* made) -> Status {
    if (order == nullptr) return gqa::null_argument("order", "one dimension of x for each of the result's");
    int tensor = -1;
    if (Status status = gqa::find_tensor(*graph, x, &tensor); !status.ok()) return status;
    Attributes attributes;
    attributes.dims.assign(order, order + graph->graph.spec(tensor).dims.size());
    return gqa::put(graph, Op::kTranspose, {x}, std::move(attributes), made);
  });
}

const char* gqa_graph_text(gqa_graph graph) {
  return gqa::text_of(graph, &gqa::Texts::text, [](const gqa::KernelGraph& made) { return gqa::to_text(made); });
}

const char* gqa_graph_json(gqa_graph graph) { return gqa::text_of(graph, &gqa::Texts::json, gqa::to_json); }

const char* gqa_graph_dot(gqa_graph graph) { return gqa::text_of(graph, &gqa::Texts::dot, gqa::to_dot); }

const char* gqa_graph_hash(gqa_graph graph) {
  return gqa::text_of(graph, &gqa::Texts::hash,
                      [](const gqa::KernelGraph& made) { return gqa::to_text(gqa::canonical(made).digest); });
}

gqa_status gqa_graph_parse(const char* text, gqa_graph* graph) {
  return guarded([&] { return gqa::read_graph(text, graph); });
}

}  // extern "C"
