// rules.cc: the laws that rewriting knows, one function each, and their table.
#include <algorithm>

#include "search/graph/prove/shift.h"
#include "search/graph/rewrite/rewrite.h"
#include "search/graph/rewrite/value_range.h"

namespace gqa {
namespace {

Attributes scaled(double factor, std::int64_t count) {
  Attributes attributes;
  attributes.factor = factor;
  attributes.count = count;
  return attributes;
}

std::int64_t last(const Dims& dims) { return static_cast<std::int64_t>(dims.size()) - 1; }

// The size of a dimension counted from the end; 1 where there is none: how it broadcasts.
std::int64_t from_end(const Dims& dims, std::size_t back) {
  return back < dims.size() ? dims[dims.size() - 1 - back] : 1;
}

std::size_t back_of(const Dims& dims, std::int64_t dim) { return dims.size() - 1 - static_cast<std::size_t>(dim); }

bool plain_product(const KernelNode* node) {
  return node && node->op == Op::kMatmul && !node->attributes.transpose_a && !node->attributes.transpose_b;
}

// --- names opened ---------------------------------------------------------------------------------------------------

int open_softmax(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kSoftmax) return -1;
  const Attributes dim = attributes_along(site.node.attributes.dim);
  const int x = editor->keep(site.tensor(0));
  const int shifted = editor->add(Op::kSubMax, {x, editor->add(Op::kMax, {x}, dim)});
  const int weights = editor->add(Op::kExp, {shifted});
  return editor->add(Op::kNormalize, {weights, editor->add(Op::kSum, {weights}, dim)});
}

int open_rms_norm(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kRmsNorm) return -1;
  const Dims& dims = site.dims(site.tensor(0));
  const int x = editor->keep(site.tensor(0));
  const int squares = editor->add(Op::kSum, {editor->add(Op::kSquare, {x})}, attributes_along(last(dims)));
  const int mean = editor->add(Op::kScale, {squares}, scaled(1, dims.back()));
  const int shifted = editor->add(Op::kAddConstant, {mean}, scaled(site.node.attributes.epsilon, 1));
  const int normed = editor->add(Op::kMul, {x, editor->add(Op::kRsqrt, {shifted})});
  return site.node.inputs.size() == 1 ? normed : editor->add(Op::kMul, {normed, editor->keep(site.tensor(1))});
}

int open_mean(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kMean) return -1;
  const std::int64_t dim = site.node.attributes.dim;
  const int total = editor->add(Op::kSum, {editor->keep(site.tensor(0))}, attributes_along(dim));
  return editor->add(Op::kScale, {total}, scaled(1, site.dims(site.tensor(0))[static_cast<std::size_t>(dim)]));
}

// An operator that would have stretched the operand itself.
int drop_broadcast(const Site& site, GraphEditor* editor) {
  if (site.node.inputs.empty() || site.node.op == Op::kBroadcast) return -1;
  const OpClass kind = info(site.node.op).kind;
  const KernelNode* broadcast = site.maker(site.tensor(site.operand));
  if (!broadcast || broadcast->op != Op::kBroadcast) return -1;
  if (kind != OpClass::kElementwise && kind != OpClass::kContraction) return -1;
  std::vector<int> inputs = editor->keep(site.node.inputs);
  inputs[site.operand] = editor->keep(broadcast->inputs[0]);
  const int made = editor->add(site.node.op, inputs, site.node.attributes);
  return made >= 0 && editor->spec(made).dims == site.dims(site.node.outputs[0]) ? made : -1;
}

// A product or sum with one number everywhere.
int fold_constant(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kMul && site.node.op != Op::kAdd) return -1;
  const KernelNode* constant = site.maker(site.tensor(site.operand));
  const int other = site.tensor(1 - site.operand);
  if (!constant || constant->op != Op::kConstant || site.dims(other) != site.dims(site.node.outputs[0])) return -1;
  const Op op = site.node.op == Op::kMul ? Op::kScale : Op::kAddConstant;
  return editor->add(op, {editor->keep(other)}, scaled(constant->attributes.factor, 1));
}

int natural_exponent(const Site& site, GraphEditor* editor) {
  const KernelNode* scale = site.node.op == Op::kExp2 ? site.maker(site.tensor(0)) : nullptr;
  if (!scale || scale->op != Op::kScale || scale->attributes != scaled(kLog2E, 1)) return -1;
  return editor->add(Op::kExp, {editor->keep(scale->inputs[0])});
}

int divide_by_reciprocal(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kMul) return -1;
  const KernelNode* reciprocal = site.maker(site.tensor(site.operand));
  if (!reciprocal || reciprocal->op != Op::kReciprocal) return -1;
  return editor->add(Op::kDiv, {editor->keep(site.tensor(1 - site.operand)), editor->keep(reciprocal->inputs[0])});
}

// --- scalings past linear operators ---------------------------------------------------------------------------------

bool is_scaling(const KernelNode* node) {
  return node && (node->op == Op::kScale || node->op == Op::kMul || node->op == Op::kDiv || node->op == Op::kNormalize);
}

// A scaling is `value` by `by` (-1: by a number).
struct Scaling {
  int value, by;
};

Scaling scaling_of(const KernelNode& node, std::size_t value) {
  return {node.inputs[value], node.op == Op::kScale ? -1 : node.inputs[1 - value]};
}

// Whether `by` is the same for all elements that the node mixes into one of its results, from that operand.
bool constant_along_mixed(const Site& site, const Dims& by) {
  const Attributes& attributes = site.node.attributes;
  switch (site.node.op) {
    case Op::kMatmul:
      if (site.operand == 0) return !attributes.transpose_a && from_end(by, 0) == 1;
      return !attributes.transpose_b && from_end(by, 1) == 1;
    case Op::kSum:
      return from_end(by, back_of(site.dims(site.tensor(0)), attributes.dim)) == 1;
    case Op::kMul:
      return true;
    case Op::kDiv:
    case Op::kNormalize:
      return site.operand == 0;
    default:
      return false;
  }
}

int scaling_outward(const Site& site, GraphEditor* editor, std::size_t value) {
  if (site.node.inputs.empty()) return -1;
  const int operand = site.tensor(site.operand);
  const KernelNode* maker = site.maker(operand);
  if (!is_scaling(maker) || value >= maker->inputs.size() || (value == 1 && maker->op != Op::kMul)) return -1;
  const Scaling scaling = scaling_of(*maker, value);
  if (site.dims(scaling.value) != site.dims(operand)) return -1;
  if (!constant_along_mixed(site, scaling.by < 0 ? Dims{1} : site.dims(scaling.by))) return -1;
  std::vector<int> inputs = editor->keep(site.node.inputs);
  inputs[site.operand] = editor->keep(scaling.value);
  const int inner = editor->add(site.node.op, inputs, site.node.attributes);
  if (scaling.by < 0) return editor->add(Op::kScale, {inner}, maker->attributes);
  return editor->add(maker->op, {inner, editor->keep(scaling.by)});
}

// (E / S) V -> (E V) / S, and whatever else scales rows before an operator that is linear.
int scaling_past_linear(const Site& site, GraphEditor* editor) { return scaling_outward(site, editor, 0); }
int factor_past_linear(const Site& site, GraphEditor* editor) { return scaling_outward(site, editor, 1); }

// c (A B) -> (c A) B, and rows of a product scaled before it.
int scaling_into_product(const Site& site, GraphEditor* editor) {
  if (!is_scaling(&site.node) || site.node.op == Op::kNormalize || site.operand != 0) return -1;
  const KernelNode* product = site.maker(site.tensor(0));
  if (!plain_product(product) && !(product && product->op == Op::kMatmul && site.node.op == Op::kScale)) return -1;
  std::vector<int> inputs = editor->keep(product->inputs);
  if (site.node.op == Op::kScale) {
    inputs[0] = editor->add(Op::kScale, {inputs[0]}, site.node.attributes);
  } else {
    if (from_end(site.dims(site.tensor(1)), 0) != 1) return -1;
    const Dims before = site.dims(product->inputs[0]);
    inputs[0] = editor->add(site.node.op, {inputs[0], editor->keep(site.tensor(1))});
    if (inputs[0] < 0 || editor->spec(inputs[0]).dims != before) return -1;
  }
  return editor->add(Op::kMatmul, inputs, product->attributes);
}

// --- sums and products ----------------------------------------------------------------------------------------------

int sum_as_product(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kSum) return -1;
  const Dims& dims = site.dims(site.tensor(0));
  if (dims.size() < 2 || site.node.attributes.dim != last(dims)) return -1;
  Attributes ones;
  ones.dims = {dims.back(), 1};
  ones.type = site.graph.spec(site.tensor(0)).type;
  return editor->add(Op::kMatmul, {editor->keep(site.tensor(0)), editor->add(Op::kConstant, {}, ones)});
}

int product_as_sum(const Site& site, GraphEditor* editor) {
  if (!plain_product(&site.node)) return -1;
  const KernelNode* ones = site.maker(site.tensor(1));
  if (!ones || ones->op != Op::kConstant || ones->attributes.factor != 1) return -1;
  if (ones->attributes.dims.size() != 2 || ones->attributes.dims.back() != 1) return -1;
  return editor->add(Op::kSum, {editor->keep(site.tensor(0))}, attributes_along(last(site.dims(site.tensor(0)))));
}

// (A B) C -> A (B C)
int reassociate_right(const Site& site, GraphEditor* editor) {
  const KernelNode* left = plain_product(&site.node) ? site.maker(site.tensor(0)) : nullptr;
  if (!plain_product(left)) return -1;
  const int right = editor->add(Op::kMatmul, {editor->keep(left->inputs[1]), editor->keep(site.tensor(1))});
  return editor->add(Op::kMatmul, {editor->keep(left->inputs[0]), right});
}

// A (B C) -> (A B) C
int reassociate_left(const Site& site, GraphEditor* editor) {
  const KernelNode* right = plain_product(&site.node) ? site.maker(site.tensor(1)) : nullptr;
  if (!plain_product(right)) return -1;
  const int left = editor->add(Op::kMatmul, {editor->keep(site.tensor(0)), editor->keep(right->inputs[0])});
  return editor->add(Op::kMatmul, {left, editor->keep(right->inputs[1])});
}

// A B + A C -> A (B + C), A C + B C -> (A + B) C
int factor_common_operand(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kAdd && site.node.op != Op::kSub) return -1;
  const KernelNode *a = site.maker(site.tensor(0)), *b = site.maker(site.tensor(1));
  if (!a || !b || a->op != Op::kMatmul || b->op != Op::kMatmul || a->attributes != b->attributes) return -1;
  for (const std::size_t common : {std::size_t{0}, std::size_t{1}}) {
    const int x = a->inputs[1 - common], y = b->inputs[1 - common];
    if (a->inputs[common] != b->inputs[common] || site.dims(x) != site.dims(y)) continue;
    std::vector<int> inputs = editor->keep(a->inputs);
    inputs[1 - common] = editor->add(site.node.op, {editor->keep(x), editor->keep(y)});
    return editor->add(Op::kMatmul, inputs, a->attributes);
  }
  return -1;
}

// A (B + C) -> A B + A C, likewise on the left
int distribute_product(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kMatmul) return -1;
  const KernelNode* sum = site.maker(site.tensor(site.operand));
  if (!sum || (sum->op != Op::kAdd && sum->op != Op::kSub)) return -1;
  if (site.dims(sum->inputs[0]) != site.dims(sum->inputs[1])) return -1;
  std::vector<int> parts, inputs = editor->keep(site.node.inputs);
  for (const int part : sum->inputs) {
    inputs[site.operand] = editor->keep(part);
    parts.push_back(editor->add(Op::kMatmul, inputs, site.node.attributes));
  }
  return editor->add(sum->op, parts);
}

// --- exponents ------------------------------------------------------------------------------------------------------

// What moves when all that is under this exponential moves by a number of each row; nothing where an output does.
std::optional<std::vector<Shift>> inner_shifts(const KernelGraph& graph, int exponential) {
  std::vector<Shift> shifts(graph.tensors().size());
  shifts[static_cast<std::size_t>(exponential)] = {exponential, 1, 0};
  for (const KernelNode& node : graph.nodes()) {
    if (node.outputs[0] == exponential) continue;
    std::vector<Shift> operands;
    for (const int input : node.inputs) operands.push_back(shifts[static_cast<std::size_t>(input)]);
    if (operands.empty()) continue;
    const auto shift = shift_of(node.op, operands);
    if (!shift) return std::nullopt;
    for (const int output : node.outputs) shifts[static_cast<std::size_t>(output)] = *shift;
  }
  const std::vector<int> outputs = graph.outputs();
  if (std::any_of(outputs.begin(), outputs.end(),
                  [&](int output) { return !shifts[static_cast<std::size_t>(output)].free(); }))
    return std::nullopt;
  return shifts;
}

// The dimension over which the exponentials are summed; -1: none.
std::int64_t summed_dim(const KernelGraph& graph, int exponential) {
  for (const KernelNode& node : graph.nodes()) {
    if (node.inputs.empty() || node.inputs[0] != exponential) continue;
    if (node.op == Op::kSum) return node.attributes.dim;
    if (plain_product(&node)) return last(graph.spec(exponential).dims);
  }
  return -1;
}

// a without what is the same all along dim, taken off somewhere in it: it moves a and its maximum alike.
int without_shift(const Site& site, int a, std::int64_t dim, GraphEditor* editor) {
  const KernelNode* maker = site.maker(a);
  if (!maker || site.dims(a) != site.dims(maker->inputs[0])) return editor->keep(a);
  if (maker->op == Op::kSub && from_end(site.dims(maker->inputs[1]), back_of(site.dims(a), dim)) == 1)
    return without_shift(site, maker->inputs[0], dim, editor);
  if (maker->op != Op::kAdd) return editor->keep(a);
  return editor->add(Op::kAdd, {without_shift(site, maker->inputs[0], dim, editor), editor->keep(maker->inputs[1])});
}

// exp(a) -> exp(a - max(a)), where the result is a quotient that does not see it: nothing overflows any more.
int subtract_maximum(const Site& site, GraphEditor* editor) {
  if (site.node.op != Op::kExp || maximum_taken_off(site.graph, site.tensor(0))) return -1;
  const std::int64_t dim = summed_dim(site.graph, site.node.outputs[0]);
  const auto shifts = dim < 0 ? std::nullopt : inner_shifts(site.graph, site.node.outputs[0]);
  if (!shifts) return -1;
  for (std::size_t at = 0; at < shifts->size(); ++at) {
    if (!(*shifts)[at].free()) editor->alter(static_cast<int>(at));
  }
  const int a = without_shift(site, site.tensor(0), dim, editor);
  return editor->add(Op::kExp, {editor->add(Op::kSubMax, {a, editor->add(Op::kMax, {a}, attributes_along(dim))})});
}

}  // namespace

const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = {
      {"open_softmax", true, open_softmax},
      {"open_rms_norm", true, open_rms_norm},
      {"open_mean", true, open_mean},
      {"drop_broadcast", true, drop_broadcast},
      {"fold_constant", true, fold_constant},
      {"natural_exponent", true, natural_exponent},
      {"divide_by_reciprocal", true, divide_by_reciprocal},
      {kSubtractMaximum, false, subtract_maximum},
      {"scaling_past_linear", false, scaling_past_linear},
      {"factor_past_linear", false, factor_past_linear},
      {"scaling_into_product", false, scaling_into_product},
      {"sum_as_product", false, sum_as_product},
      {"product_as_sum", false, product_as_sum},
      {"reassociate_right", false, reassociate_right},
      {"reassociate_left", false, reassociate_left},
      {"factor_common_operand", false, factor_common_operand},
      {"distribute_product", false, distribute_product},
  };
  return kRules;
}

}  // namespace gqa
