// abstract.cc: see abstract.h.
#include "search/graph/rewrite/abstract.h"

#include <algorithm>

#include "search/graph/prove/field.h"

namespace gqa {
namespace {

constexpr std::size_t kMostMonomials = 64;
constexpr std::string_view kMaximum = "max", kSumOfMany = "several";

std::int64_t inner_size(const KernelGraph& graph, const KernelNode& node) {
  if (node.inputs.empty()) return 1;
  const Dims& dims = graph.spec(node.inputs[0]).dims;
  if (node.op == Op::kMatmul) return dims[dims.size() - (node.attributes.transpose_a ? 2 : 1)];
  return node.op == Op::kSum ? dims[static_cast<std::size_t>(node.attributes.dim)] : 1;
}

std::uint64_t inverse_factor(std::uint64_t factor) { return power_mod(factor, kFieldQ - 2, kFieldQ); }

}  // namespace

AbstractSpace::Id AbstractSpace::intern(Poly poly) {
  if (poly.size() > kMostMonomials) return kUnknown;
  std::sort(poly.begin(), poly.end());
  const auto [known, fresh] = known_polys_.emplace(poly, static_cast<Id>(polys_.size()));
  if (fresh) polys_.push_back(std::move(poly));
  return known->second;
}

AbstractSpace::Id AbstractSpace::atom(const std::string& function, const std::vector<Id>& arguments) {
  if (std::count(arguments.begin(), arguments.end(), kUnknown) > 0) return kUnknown;
  const auto [known, fresh] = known_atoms_.emplace(std::pair(function, arguments), static_cast<int>(atoms_.size()));
  if (fresh) atoms_.emplace_back(function, arguments);
  return intern({Monomial{{1, 0, {{known->second, 1}}}, {}}});
}

AbstractSpace::Id AbstractSpace::input(int number) { return atom("input " + std::to_string(number), {}); }

const AbstractSpace::Monomial* AbstractSpace::single(Id id) const {
  const Poly& poly = polys_[static_cast<std::size_t>(id)];
  return poly.size() == 1 ? &poly[0] : nullptr;
}

AbstractSpace::Product AbstractSpace::multiply(const Product& a, const Product& b, int sign) {
  std::map<int, int> powers(a.powers.begin(), a.powers.end());
  for (const auto& [atom, power] : b.powers) powers[atom] += sign * power;
  Product result = {multiply_mod(a.factor, sign > 0 ? b.factor : inverse_factor(b.factor), kFieldQ),
                    a.steps + sign * b.steps};
  for (const auto& [atom, power] : powers) {
    if (power != 0) result.powers.emplace_back(atom, power);
  }
  return result;
}

AbstractSpace::Monomial AbstractSpace::multiply(const Monomial& a, const Monomial& b, int sign) {
  return {multiply(a.above, b.above, sign), multiply(a.below, b.below, sign)};
}

bool AbstractSpace::whole(const Product& product) {
  return product.steps >= 0 && std::all_of(product.powers.begin(), product.powers.end(),
                                           [](const std::pair<int, int>& power) { return power.second > 0; });
}

AbstractSpace::Id AbstractSpace::add(Id a, Id b) {
  if (a == kUnknown || b == kUnknown) return kUnknown;
  Poly sum = polys_[static_cast<std::size_t>(a)];
  const Poly& other = polys_[static_cast<std::size_t>(b)];
  sum.insert(sum.end(), other.begin(), other.end());
  return intern(std::move(sum));
}

AbstractSpace::Id AbstractSpace::multiply(Id a, Id b) {
  if (a == kUnknown || b == kUnknown) return kUnknown;
  Poly product;
  for (const Monomial& x : polys_[static_cast<std::size_t>(a)]) {
    for (const Monomial& y : polys_[static_cast<std::size_t>(b)]) product.push_back(multiply(x, y, 1));
    if (product.size() > kMostMonomials) return kUnknown;
  }
  return intern(std::move(product));
}

AbstractSpace::Id AbstractSpace::inverse(Id a) {
  if (a == kUnknown) return kUnknown;
  if (!single(a)) a = atom(std::string(kSumOfMany), {a});
  return intern({Monomial{single(a)->below, single(a)->above}});
}

AbstractSpace::Id AbstractSpace::sum(Id of, std::int64_t size, int steps) {
  if (of == kUnknown) return kUnknown;
  Poly scaled;
  const Monomial sizes = {{static_cast<std::uint64_t>(size) % kFieldQ, steps, {}}, {}};
  for (const Monomial& monomial : polys_[static_cast<std::size_t>(of)]) scaled.push_back(multiply(monomial, sizes, 1));
  return intern(std::move(scaled));
}

// A maximum is only there to be subtracted: a free choice.
bool AbstractSpace::is_maximum(Id id) const {
  if (id == kUnknown || !single(id) || single(id)->above.powers.size() != 1) return false;
  return atoms_[static_cast<std::size_t>(single(id)->above.powers[0].first)].first == kMaximum;
}

AbstractSpace::Id AbstractSpace::apply(Op op, const Attributes& attributes, const std::vector<Id>& operands) {
  switch (op) {
    case Op::kConstant:
      return intern({Monomial()});
    case Op::kAdd:
      return add(operands[0], operands[1]);
    case Op::kSub:
    case Op::kSubMax:
      return is_maximum(operands[1]) ? operands[0] : add(operands[0], operands[1]);
    case Op::kAddConstant:
      return add(operands[0], intern({Monomial()}));
    case Op::kMatmul:
    case Op::kMul:
      return multiply(operands[0], operands[1]);
    case Op::kSquare:
      return multiply(operands[0], operands[0]);
    case Op::kDiv:
    case Op::kNormalize:
      return multiply(operands[0], inverse(operands[1]));
    case Op::kReciprocal:
      return inverse(operands[0]);
    case Op::kScale:
    case Op::kSum:
      return operands[0];
    case Op::kMax:
      return is_maximum(operands[0]) ? operands[0] : atom(std::string(kMaximum), operands);
    case Op::kMask:
    case Op::kClamp:
      return atom(std::string(name(op)) + to_text(attributes), operands);
    default:
      return info(op).kind == OpClass::kView ? operands[0] : atom(std::string(name(op)), operands);
  }
}

AbstractSpace::Id AbstractSpace::node(const KernelGraph& graph, const KernelNode& node,
                                      const std::vector<Id>& operands) {
  return sum(apply(node.op, node.attributes, operands), inner_size(graph, node));
}

std::vector<AbstractSpace::Id> AbstractSpace::tensors(const KernelGraph& graph) {
  std::vector<Id> ids(graph.tensors().size(), kUnknown);
  for (std::size_t at = 0; at < graph.inputs().size(); ++at)
    ids[static_cast<std::size_t>(graph.inputs()[at])] = input(static_cast<int>(at));
  for (const KernelNode& made : graph.nodes()) {
    if (made.block) continue;
    std::vector<Id> operands;
    for (const int of : made.inputs) operands.push_back(ids[static_cast<std::size_t>(of)]);
    ids[static_cast<std::size_t>(made.outputs[0])] = node(graph, made, operands);
  }
  return ids;
}

void AbstractSpace::collect(Id id) {
  if (id == kUnknown || std::count(goal_parts_.begin(), goal_parts_.end(), id) > 0) return;
  goal_parts_.push_back(id);
  const Poly poly = polys_[static_cast<std::size_t>(id)];
  for (const Monomial& monomial : poly) {
    if (monomial.below != Product()) collect(intern({Monomial{monomial.below, {}}}));
    for (const auto& [atom, power] : monomial.above.powers) {
      const std::vector<Id> arguments = atoms_[static_cast<std::size_t>(atom)].second;
      for (const Id argument : arguments) collect(argument);
    }
  }
}

void AbstractSpace::set_goal(const std::vector<Id>& outputs) {
  goal_parts_.clear();
  answers_.clear();
  for (const Id output : outputs) collect(output);
  if (std::count(outputs.begin(), outputs.end(), kUnknown) > 0) goal_parts_.clear();
}

// Whether whole = part * M + rest for some monomial M.
bool AbstractSpace::divides(const Poly& part, const Poly& whole) const {
  for (const Monomial& candidate : whole) {
    const Monomial quotient = multiply(candidate, part[0], -1);
    if (!AbstractSpace::whole(quotient.above) || !AbstractSpace::whole(quotient.below)) continue;
    const bool all = std::all_of(part.begin(), part.end(), [&](const Monomial& monomial) {
      return std::binary_search(whole.begin(), whole.end(), multiply(monomial, quotient, 1));
    });
    if (all) return true;
  }
  return false;
}

AbstractSpace::Id AbstractSpace::without_maximum(Id id) const {
  return is_maximum(id) ? atoms_[static_cast<std::size_t>(single(id)->above.powers[0].first)].second[0] : id;
}

bool AbstractSpace::part_of_goal(Id id) {
  if (id == kUnknown || goal_parts_.empty()) return true;
  id = without_maximum(id);
  const auto [known, fresh] = answers_.emplace(id, false);
  if (!fresh) return known->second;
  const Poly& part = polys_[static_cast<std::size_t>(id)];
  for (const Id whole : goal_parts_)
    known->second = known->second || divides(part, polys_[static_cast<std::size_t>(whole)]);
  return known->second;
}

}  // namespace gqa
