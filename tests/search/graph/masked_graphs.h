// masked_graphs.h: attention under a mask that is an input, as people spell it, and masks that hide keys.
// Owns: texts, masks, and what a program must give: the graph's own value, NaN or 0 for a row without a key.
// Never: searches or runs a device.
// Threads: pure functions.
#pragma once

#include "tests/search/graph/graphs.h"

namespace gqa::masked {

struct Shape {
  std::int64_t batch, rows, keys, size;
};

struct Spelling {
  const char* name;
  const char* steps;  // from the scores a = q k and the mask m to e and its sum l
  double hidden;      // what the mask holds where a key is hidden, and
  double seen;        // where it is seen
};

inline constexpr Spelling kSpellings[] = {
    {"maximum taken off", "s = scale(a) c=0.125\nt = add(s, m)\nx = max(t) dim=-1\nz = sub(t, x)\ne = exp(z)\n",
     -kInfinity, 0},
    {"no maximum", "s = scale(a) c=0.125\nt = add(s, m)\ne = exp(t)\n", -kInfinity, 0},
    {"scaled after", "b = add(a, m)\nt = scale(b) c=0.125\nx = max(t) dim=-1\nz = sub(t, x)\ne = exp(z)\n", -kInfinity,
     0},
    {"maximum of all scores", "s = scale(a) c=0.125\nx = max(s) dim=-1\nt = add(s, m)\nz = sub(t, x)\ne = exp(z)\n",
     -kInfinity, 0},
    {"added after the maximum", "s = scale(a) c=0.125\nx = max(s) dim=-1\ny = sub(s, x)\nz = add(y, m)\ne = exp(z)\n",
     -kInfinity, 0},
    {"subtracted", "s = scale(a) c=0.125\nt = sub(s, m)\nx = max(t) dim=-1\nz = sub(t, x)\ne = exp(z)\n", kInfinity, 0},
    {"a large number", "s = scale(a) c=0.125\nt = add(s, m)\nx = max(t) dim=-1\nz = sub(t, x)\ne = exp(z)\n", -1e30, 0},
    {"weights multiplied", "s = scale(a) c=0.125\nx = max(s) dim=-1\nz = sub(s, x)\nw = exp(z)\ne = mul(w, m)\n", 0, 1},
    {"quotient of exponentials",
     "s = scale(a) c=0.125\nt = add(s, m)\nx = max(t) dim=-1\nu = exp(t)\ny = exp(x)\ne = div(u, y)\n", -kInfinity, 0},
    {"maximum of other scores",
     "s = scale(a) c=0.125\nt = add(s, m)\nx = max(t) dim=-1\nz = sub(s, x)\nw = exp(z)\ny = add_constant(m) c=1\n"
     "c = clamp(y) lo=0 hi=1\ne = mul(w, c)\n",
     -kInfinity, 0},
};

inline std::string text_of(const Spelling& spelling, const Shape& shape, const std::string& type = "f32") {
  const auto dims = [](std::int64_t a, std::int64_t b, std::int64_t c) { return to_text(Dims{a, b, c}); };
  return "graph 1\nq = input " + type + dims(shape.batch, shape.rows, shape.size) + "\nk = input " + type +
         dims(shape.batch, shape.keys, shape.size) + "\nv = input " + type + dims(shape.batch, shape.keys, shape.size) +
         "\nm = input f32" + dims(1, shape.rows, shape.keys) + "\na = matmul(q, k) tb=1\n" + spelling.steps +
         "l = sum(e) dim=-1\np = div(e, l)\no = matmul(p, v)\noutputs o\n";
}

struct Mask {
  const char* name;
  bool (*hides)(std::int64_t row, std::int64_t key, const Shape& shape);
};

inline constexpr Mask kMasks[] = {
    {"first half", [](std::int64_t, std::int64_t key, const Shape& s) { return key < s.keys / 2; }},
    {"last half", [](std::int64_t, std::int64_t key, const Shape& s) { return key >= s.keys / 2; }},
    {"middle",
     [](std::int64_t, std::int64_t key, const Shape& s) { return key >= s.keys / 4 && key < s.keys - s.keys / 4; }},
    {"alternate tiles", [](std::int64_t, std::int64_t key, const Shape&) { return key / 64 % 2 == 0; }},
    {"causal", [](std::int64_t row, std::int64_t key, const Shape& s) { return key > row + s.keys / 2 - s.rows; }},
    {"all but the last key", [](std::int64_t, std::int64_t key, const Shape& s) { return key < s.keys - 1; }},
    {"a whole row", [](std::int64_t row, std::int64_t, const Shape&) { return row == 3; }},
};

// Inputs rounded to their types; the last is the mask.
inline std::vector<std::vector<double>> inputs_of(const KernelGraph& graph, const Shape& shape,
                                                  const Spelling& spelling, const Mask& mask) {
  auto inputs = random_inputs(graph, 11);
  for (std::size_t at = 0; at < inputs.size(); ++at)
    for (double& value : inputs[at]) value = round_to(value, graph.spec(graph.inputs()[at]).type);
  for (std::int64_t at = 0; at < shape.rows * shape.keys; ++at)
    inputs.back()[static_cast<std::size_t>(at)] =
        mask.hides(at / shape.keys, at % shape.keys, shape) ? spelling.hidden : spelling.seen;
  return inputs;
}

// The graph's value; NaN or 0 where that is NaN.
inline testing::AssertionResult matches(const std::vector<double>& found, const std::vector<double>& expected,
                                        double tolerance) {
  if (found.size() != expected.size()) return testing::AssertionFailure() << found.size() << " elements";
  for (std::size_t at = 0; at < found.size(); ++at) {
    const bool right = std::isnan(expected[at])
                           ? std::isnan(found[at]) || found[at] == 0
                           : std::abs(found[at] - expected[at]) <= tolerance * std::max(1.0, std::abs(expected[at]));
    if (!right)
      return testing::AssertionFailure() << "element " << at << " is " << found[at] << ", expected " << expected[at];
  }
  return testing::AssertionSuccess();
}

// How the search lowered a maximum taken off before it knew -inf.
inline std::string with_plain_subtraction(std::string text) {
  for (std::size_t at = 0; (at = text.find("sub_max(", at)) != std::string::npos;) text.replace(at, 8, "sub(");
  return text;
}

}  // namespace gqa::masked
