// graph.cc: graphs. See graph.h. The tables below are the operators; what differs from them is written out.
// Threads: GIL held.
#include "graph.h"

#include "errors.h"

namespace py = pybind11;

namespace gqa::python {

namespace {

using Unary = gqa_status (*)(gqa_graph, gqa_value, gqa_value*);
using Binary = gqa_status (*)(gqa_graph, gqa_value, gqa_value, gqa_value*);
using Along = gqa_status (*)(gqa_graph, gqa_value, int, gqa_value*);
using WithNumber = gqa_status (*)(gqa_graph, gqa_value, double, gqa_value*);
using Text = const char* (*)(gqa_graph);

template <typename Function>
struct Row {
  const char* name;
  Function function;
};

constexpr Row<Unary> kUnary[] = {
    {"exp", gqa_graph_exp},       {"sqrt", gqa_graph_sqrt}, {"reciprocal", gqa_graph_reciprocal},
    {"square", gqa_graph_square}, {"relu", gqa_graph_relu}, {"silu", gqa_graph_silu},
    {"gelu", gqa_graph_gelu},     {"tanh", gqa_graph_tanh}};
constexpr Row<Binary> kBinary[] = {
    {"add", gqa_graph_add}, {"sub", gqa_graph_sub}, {"mul", gqa_graph_mul}, {"div", gqa_graph_div}};
constexpr Row<Along> kAlong[] = {
    {"sum", gqa_graph_sum}, {"max", gqa_graph_max}, {"mean", gqa_graph_mean}, {"softmax", gqa_graph_softmax}};
constexpr Row<WithNumber> kWithNumber[] = {{"scale", gqa_graph_scale}, {"add_constant", gqa_graph_add_constant}};
constexpr Row<Text> kTexts[] = {
    {"text", gqa_graph_text}, {"json", gqa_graph_json}, {"dot", gqa_graph_dot}, {"hash", gqa_graph_hash}};

void check(gqa_status status) {
  if (status != GQA_OK) raise_last(status);
}

// The value that a C function puts into its last argument.
template <typename Function, typename... Arguments>
gqa_value made(Function function, const Graph& graph, Arguments... arguments) {
  gqa_value result = {};
  check(function(graph.get(), arguments..., &result));
  return result;
}

void define_operators(py::class_<Graph>& type) {
  for (const auto& [name, function] : kUnary)
    type.def(
        name, [f = function](const Graph& self, gqa_value x) { return made(f, self, x); }, py::arg("x"));
  for (const auto& [name, function] : kBinary)
    type.def(
        name, [f = function](const Graph& self, gqa_value a, gqa_value b) { return made(f, self, a, b); }, py::arg("a"),
        py::arg("b"));
  for (const auto& [name, function] : kAlong)
    type.def(
        name, [f = function](const Graph& self, gqa_value x, int dim) { return made(f, self, x, dim); }, py::arg("x"),
        py::arg("dim"));
  for (const auto& [name, function] : kWithNumber)
    type.def(
        name, [f = function](const Graph& self, gqa_value x, double number) { return made(f, self, x, number); },
        py::arg("x"), py::arg("number"));
}

gqa_value matmul(const Graph& self, gqa_value a, gqa_value b, bool transpose_a, bool transpose_b) {
  return made(gqa_graph_matmul, self, a, b, transpose_a ? 1 : 0, transpose_b ? 1 : 0);
}

gqa_value rms_norm(const Graph& self, gqa_value x, std::optional<gqa_value> weight, double epsilon) {
  return made(gqa_graph_rms_norm, self, x, weight ? &*weight : static_cast<const gqa_value*>(nullptr), epsilon);
}

gqa_value transpose(const Graph& self, gqa_value x, const std::vector<int>& order) {
  int rank = 0;
  check(gqa_graph_describe(self.get(), x, &rank, nullptr, nullptr));
  if (order.size() != static_cast<size_t>(rank))
    raise(GQA_ERROR_RANK, "transpose of a value of " + std::to_string(rank) + " dimensions with an order of " +
                              std::to_string(order.size()) + "; expected one entry for each dimension");
  return made(gqa_graph_transpose, self, x, order.data());
}

}  // namespace

py::tuple described(int rank, const int64_t* dims, DLDataType dtype) {
  py::tuple sizes(rank);
  for (int i = 0; i < rank; ++i) sizes[i] = dims[i];
  return py::make_tuple(sizes, static_cast<int>(dtype.code), static_cast<int>(dtype.bits));
}

std::string text_of(const char* text) {
  if (text == nullptr) raise_last(GQA_ERROR_OUT_OF_MEMORY);
  return text;
}

Graph::Graph() {
  gqa_graph graph = nullptr;
  check(gqa_graph_create(&graph));
  graph_.reset(graph);
}

Graph::Graph(const std::string& text) {
  gqa_graph graph = nullptr;
  check(gqa_graph_parse(text.c_str(), &graph));
  graph_.reset(graph);
}

// Before the input is there, so that a refused name leaves the graph as it was.
void Graph::check_name(const std::string& name) const {
  gqa_value found = {};
  if (gqa_graph_find(get(), name.c_str(), &found) == GQA_OK)
    raise(GQA_ERROR_OPTION, "the name '" + name + "' is taken in this graph; expected another");
  Graph trial;
  const gqa_value only = trial.input({1}, std::nullopt, kDLFloat, 16, std::nullopt);
  check(gqa_graph_rename(trial.get(), only, name.c_str()));
}

gqa_value Graph::input(const std::vector<int64_t>& dims, const std::optional<std::vector<int64_t>>& strides, int code,
                       int bits, const std::optional<std::string>& name) {
  if (strides && strides->size() != dims.size())
    raise(GQA_ERROR_STRIDE, std::to_string(strides->size()) + " strides for " + std::to_string(dims.size()) +
                                " dimensions; expected one for each, in elements, or None for row-major");
  if (name) check_name(*name);
  const DLDataType dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  const gqa_value value = made(gqa_graph_input, *this, static_cast<int>(dims.size()), dims.data(),
                               strides ? strides->data() : static_cast<const int64_t*>(nullptr), dtype);
  if (name) check(gqa_graph_rename(get(), value, name->c_str()));
  return value;
}

py::tuple Graph::describe(gqa_value value) const {
  int rank = 0;
  int64_t dims[8] = {};
  DLDataType dtype = {};
  check(gqa_graph_describe(get(), value, &rank, dims, &dtype));
  return described(rank, dims, dtype);
}

void Graph::define(py::module_& module) {
  py::class_<gqa_value>(module, "GraphValue", "A gqa_value. Use gqa.Value, which wraps it.")
      .def_readonly("index", &gqa_value::index);
  py::class_<Graph> type(module, "Graph", "A gqa_graph. Use gqa.KernelGraph, which wraps it.");
  type.def(py::init<>())
      .def_static(
          "parse", [](const std::string& text) { return Graph(text); }, py::arg("text"))
      .def("input", &Graph::input, py::arg("dims"), py::arg("strides"), py::arg("code"), py::arg("bits"),
           py::arg("name"))
      .def(
          "output", [](const Graph& self, gqa_value value) { check(gqa_graph_output(self.get(), value)); },
          py::arg("value"))
      .def(
          "rename",
          [](const Graph& self, gqa_value value, const std::string& name) {
            check(gqa_graph_rename(self.get(), value, name.c_str()));
          },
          py::arg("value"), py::arg("name"))
      .def(
          "find", [](const Graph& self, const std::string& name) { return made(gqa_graph_find, self, name.c_str()); },
          py::arg("name"))
      .def("describe", &Graph::describe, py::arg("value"))
      .def("matmul", matmul, py::arg("a"), py::arg("b"), py::arg("transpose_a"), py::arg("transpose_b"))
      .def(
          "clamp",
          [](const Graph& self, gqa_value x, double low, double high) {
            return made(gqa_graph_clamp, self, x, low, high);
          },
          py::arg("x"), py::arg("low"), py::arg("high"))
      .def("rms_norm", rms_norm, py::arg("x"), py::arg("weight"), py::arg("epsilon"))
      .def(
          "mask",
          [](const Graph& self, gqa_value x, int64_t left, int64_t right) {
            return made(gqa_graph_mask, self, x, left, right);
          },
          py::arg("x"), py::arg("left"), py::arg("right"))
      .def(
          "broadcast",
          [](const Graph& self, gqa_value x, const std::vector<int64_t>& dims) {
            return made(gqa_graph_broadcast, self, x, static_cast<int>(dims.size()), dims.data());
          },
          py::arg("x"), py::arg("dims"))
      .def("transpose", transpose, py::arg("x"), py::arg("order"));
  define_operators(type);
  for (const auto& [name, function] : kTexts)
    type.def(name, [f = function](const Graph& self) { return text_of(f(self.get())); });
}

}  // namespace gqa::python
