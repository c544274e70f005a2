// abstract.h: what a value is made of, dimensions and order forgotten: abstract expressions (Wu et al., Mirage, OSDI
// 2025).
// Owns: AbstractSpace: expressions in a normal form (sums of products of atoms), numbered, so that equal values have
// equal numbers; whether one can be a part of another.
// Never: decides that two programs are equal: it forgets broadcasts, constant factors and maxima. What it says is no
// part of the goal is none.
// Threads: one space a thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "search/graph/ir/kernel_graph.h"

namespace gqa {

class AbstractSpace {
 public:
  using Id = int;
  static constexpr Id kUnknown = -1;  // too large to follow: part of anything

  Id input(int number);
  Id apply(Op op, const Attributes& attributes, const std::vector<Id>& operands);
  // The sum over `size` elements; over the tile of a loop's step (steps -1), and then over the steps (size 1, steps 1).
  Id sum(Id of, std::int64_t size, int steps = 0);
  // An operator of a kernel graph with its sums: matmul's inner dimension, a reduction's.
  Id node(const KernelGraph& graph, const KernelNode& node, const std::vector<Id>& operands);
  std::vector<Id> tensors(const KernelGraph& graph);  // one a tensor

  void set_goal(const std::vector<Id>& outputs);
  bool part_of_goal(Id id);

 private:
  // What stands above or below a monomial's line; the two do not cancel, as E v / E is not v once E is a matrix.
  struct Product {
    std::uint64_t factor = 1;                      // of the sizes summed over, as a number mod a prime
    int steps = 0;                                 // power of a loop's number of steps
    std::vector<std::pair<int, int>> powers = {};  // of atoms
    friend auto operator<=>(const Product&, const Product&) = default;
  };
  struct Monomial {
    Product above, below;
    friend auto operator<=>(const Monomial&, const Monomial&) = default;
  };
  using Poly = std::vector<Monomial>;  // sorted

  Id intern(Poly poly);
  Id atom(const std::string& function, const std::vector<Id>& arguments);
  Id add(Id a, Id b);
  Id multiply(Id a, Id b);
  Id inverse(Id a);
  static Product multiply(const Product& a, const Product& b, int sign);  // sign -1: a / b, powers may go below 0
  static Monomial multiply(const Monomial& a, const Monomial& b, int sign);
  static bool whole(const Product& product);  // no power below 0
  bool divides(const Poly& part, const Poly& whole) const;
  const Monomial* single(Id id) const;
  bool is_maximum(Id id) const;
  Id without_maximum(Id id) const;
  void collect(Id id);

  std::vector<Poly> polys_;
  std::map<Poly, Id> known_polys_;
  std::map<std::pair<std::string, std::vector<Id>>, int> known_atoms_;
  std::vector<std::pair<std::string, std::vector<Id>>> atoms_;
  std::vector<Id> goal_parts_;
  std::map<Id, bool> answers_;
};

}  // namespace gqa
