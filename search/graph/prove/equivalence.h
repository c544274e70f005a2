// equivalence.h: whether two graphs compute the same, proved by trying them on random numbers of a finite field.
// Owns: prove_equal() and what it reports.
// Never: looks at how the graphs were made; a wrong rewrite is caught because its values differ.
// Threads: pure functions.
//
// Both graphs are evaluated, blocks and loop steps and all, over field.h's numbers on the same random inputs. If the
// graphs are equal in exact arithmetic, whatever the running maxima, the outputs are equal. (Where inputs can hide
// keys, hiding.h, once more with keys hidden: of what is a number then it must stay one.) If they are not, some output
// is a difference that is not zero as a formal expression, and it comes out as zero only by chance:
// - Sums, products and quotients: a polynomial of degree d over the inputs mod p that is not zero vanishes at a random
//   point with probability at most d / p (Schwartz-Zippel); so do the denominators.
// - Exponentials: a difference is a sum of c_i ω^(f_i), f_i different polynomials of the inputs mod q. Two of t
// exponents
//   fall together with probability at most t² d / (2 q); apart, their powers under a random ω are taken to behave as
//   random elements of the group of order q, so that the sum vanishes with probability about 1 / q. (The theorem for
//   graphs with exponentials is in Wu et al., Mirage, OSDI 2025.)
// - Random functions and running maxima: two different arguments hash alike with probability about 1 / p.
// With p and q near 2^61 and the small graphs here (d under 2^6, t under 2^8) a round errs with less than 2^-40, and
// two rounds of different sizes are run. What is left to trust is shrink.h: that graphs which agree at both small sizes
// agree at theirs. The other way round, equal graphs may be refused: laws of relu, silu or max beyond order and
// grouping are not known here, nor that a rounded constant stands for another (two factors multiplied out), nor the law
// of exponents in an exponential of exponentials.
#pragma once

#include <cstdint>
#include <string>

#include "search/graph/ir/kernel_graph.h"
#include "search/graph/workers.h"

namespace gqa {

struct EquivalenceReport {
  bool equal = false;
  int rounds = 0;              // run
  std::int64_t elements = 0;   // of outputs compared, in all rounds
  std::int64_t undefined = 0;  // of these, equal only in that both divide by zero
  std::string sizes;           // that the dimensions were shrunk to, of the last round; empty: not shrunk
  std::string difference;      // where the graphs differ first; empty: nowhere
};

// Inputs and outputs correspond by position and must agree in shape and type. Ok: equal. kNoCandidate: they differ, and
// the message says where. Other codes: cannot be compared (shapes, −inf where no rule gives it meaning, too large to
// try). kCancelled: it was told to stop. *report may be null.
Status prove_equal(const KernelGraph& a, const KernelGraph& b, std::uint64_t seed, EquivalenceReport* report,
                   const Stop& stop = {});

// Whether a program may stand for the graph: it is the graph as it stands (even one too strange to be tried), or is
// proved equal.
bool proves(const KernelGraph& graph, const KernelGraph& program, std::uint64_t seed, const Stop& stop = {});

}  // namespace gqa
