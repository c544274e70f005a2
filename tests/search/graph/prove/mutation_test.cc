// mutation_test.cc: programs of the search with a random mistake in them: none that float64 tells from the user's graph
// is proved equal to it. The subtraction that knows -inf, replaced by the one that does not, is among the mistakes.
// Programs are those that the search finds for graphs of a few elements; their texts are changed word by word.
#include <cmath>
#include <cstdlib>
#include <random>
#include <regex>
#include <set>
#include <string>

#include "search/graph/prove/equivalence.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/search/graph/masked_graphs.h"

namespace gqa {
namespace {

// Wrong programs, of all graphs together. The many take a minute and a half.
constexpr int kWrong = 1500, kWrongInFullRuns = 10000;
constexpr std::size_t kPrograms = 12;  // of a graph

const std::string kGraphs[] = {
    R"(graph 1
q = input f32[2,3,4]
k = input f32[2,4,16]
v = input f32[2,16,3]
a = matmul(q, k)
c = mask(a) left=5 right=0
p = softmax(c) dim=2
o = matmul(p, v)
)",
    R"(graph 1
q = input f32[2,3,4]
k = input f32[2,16,4]
v = input f32[2,16,4]
a = matmul(q, k) tb=1
s = scale(a) c=0.5
t = tanh(s)
e = exp(t)
l = sum(e) dim=2
d = div(e, l)
o = matmul(d, v)
)",
    R"(graph 1
x = input f32[4,32]
g = input f32[32]
w = input f32[32,6]
n = rms_norm(x, g) eps=0.01
y = matmul(n, w)
)",
    R"(graph 1
x = input f32[4,32]
u = input f32[32,6]
w = input f32[32,6]
a = matmul(x, u)
b = matmul(x, w)
s = silu(a)
y = mul(s, b)
)",
    R"(graph 1
x = input f32[4,32]
w = input f32[32,6]
a = input f32[32,2]
b = input f32[2,6]
y = matmul(x, w)
h = matmul(x, a)
z = matmul(h, b)
o = add(y, z)
)",
    R"(graph 1
x = input f32[5,32]
m = mean(x) dim=1
c = sub(x, m)
s = square(c)
v = mean(s) dim=1
e = add_constant(v) c=0.01
r = sqrt(e)
o = div(c, r)
)",
};

const std::string kOperators[][9] = {
    {"exp", "tanh", "square", "relu", "silu", "sqrt", "rsqrt", "reciprocal", "gelu"},
    {"add", "sub", "mul", "div", "sub_max", "normalize"},
    {"sum", "max", "mean"},
    {"accumulate", "accumulate_max"},
};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  // One word or two of the text are others; the same text where there was none to change.
  std::string mutated(const std::string& text) {
    const std::string once = mutated_once(text);
    return below(2) == 0 ? once : mutated_once(once);
  }

 private:
  std::string mutated_once(const std::string& text) {
    switch (below(4)) {
      case 0:
        return with_operator(text);
      case 1:
        return with_operand(text);
      case 2:
        return with_number(text);
      default:
        return with_operands_swapped(text);
    }
  }

  std::size_t below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

  // One match of the pattern is replaced.
  template <typename Make>
  std::string replaced(const std::string& text, const std::regex& pattern, const Make& make) {
    std::vector<std::smatch> found;
    for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) found.push_back(*at);
    if (found.empty()) return text;
    const std::smatch& one = found[below(found.size())];
    const auto begin = static_cast<std::size_t>(one.position(0));
    return text.substr(0, begin) + make(one) + text.substr(begin + static_cast<std::size_t>(one.length(0)));
  }

  std::string with_operator(const std::string& text) {
    static const std::regex kUse("= ([a-z_]+)\\(");
    return replaced(text, kUse, [&](const std::smatch& use) {
      for (const auto& group : kOperators) {
        std::vector<std::string> others;
        bool among = false;
        for (const std::string& each : group) {
          among = among || each == use[1];
          if (!each.empty() && each != use[1]) others.push_back(each);
        }
        if (among) return "= " + others[below(others.size())] + "(";
      }
      return use.str();
    });
  }

  std::string with_operand(const std::string& text) {
    static const std::regex kName("\\n *([a-z][a-z0-9_]*) = "), kOperand("([(,] ?)([a-z][a-z0-9_]*)(?=[,)])");
    std::vector<std::string> names;
    for (std::sregex_iterator at(text.begin(), text.end(), kName), end; at != end; ++at) names.push_back((*at)[1]);
    return replaced(text, kOperand, [&](const std::smatch& use) { return use[1].str() + names[below(names.size())]; });
  }

  std::string with_number(const std::string& text) {
    static const std::regex kNumber("((?:c|count|dim|eps|left|right|steps|loop)=)([0-9.]+)");
    static const std::string kOthers[] = {"0", "1", "2", "3", "4", "8", "16", "0.5"};
    return replaced(text, kNumber, [&](const std::smatch& use) { return use[1].str() + kOthers[below(8)]; });
  }

  std::string with_operands_swapped(const std::string& text) {
    static const std::regex kTwo("\\(([a-z][a-z0-9_]*), ([a-z][a-z0-9_]*)\\)");
    return replaced(text, kTwo, [&](const std::smatch& use) { return "(" + use[2].str() + ", " + use[1].str() + ")"; });
  }

  std::mt19937 random_;
};

// What float64 gives on the same inputs; empty: it cannot be evaluated.
using Values = std::vector<std::vector<double>>;
Values evaluated(const KernelGraph& graph, const Values& inputs) {
  Values outputs;
  if (!evaluate(graph, inputs, &outputs).ok()) outputs.clear();
  return outputs;
}

bool told_apart(const Values& expected, const Values& found) {
  if (expected.size() != found.size()) return true;
  for (std::size_t output = 0; output < expected.size(); ++output) {
    if (expected[output].size() != found[output].size()) return true;
    for (std::size_t at = 0; at < expected[output].size(); ++at) {
      const double wanted = expected[output][at], given = found[output][at];
      if (std::isfinite(wanted) && !(std::abs(given - wanted) <= 1e-5 * std::max(1.0, std::abs(wanted)))) return true;
    }
  }
  return false;
}

// A user's graph, inputs that show what it computes, and programs for it.
struct Subject {
  KernelGraph user;
  std::vector<Values> inputs;
  std::vector<Values> expected;
  std::vector<std::string> programs;
};

Subject subject_of(KernelGraph user, std::vector<Values> inputs) {
  Subject subject = {std::move(user), std::move(inputs), {}, {}};
  for (const Values& each : subject.inputs) subject.expected.push_back(values_of(subject.user, each));
  for (const RankedProgram& ranked : search(subject.user, "", kPrograms).programs)
    subject.programs.push_back(to_text(ranked.program.graph));
  return subject;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const std::string& text : kGraphs) {
    const KernelGraph user = graph_of(text);
    all.push_back(subject_of(user, {random_inputs(user, 1), random_inputs(user, 2, 0.5)}));
  }
  const masked::Shape shape = {2, 4, 16, 4};  // a mask as an input, which hides the first tile, and the last one
  for (const std::size_t spelling : {0U, 1U, 5U}) {
    const KernelGraph user = graph_of(masked::text_of(masked::kSpellings[spelling], shape));
    std::vector<Values> inputs = {random_inputs(user, 1)};
    for (const std::size_t mask : {0U, 1U, 2U})
      inputs.push_back(masked::inputs_of(user, shape, masked::kSpellings[spelling], masked::kMasks[mask]));
    all.push_back(subject_of(user, std::move(inputs)));
  }
  return all;
}

bool wrong(const Subject& subject, const KernelGraph& program) {
  for (std::size_t at = 0; at < subject.inputs.size(); ++at)
    if (told_apart(subject.expected[at], evaluated(program, subject.inputs[at]))) return true;
  return false;
}

// The same outputs of the same types, or there is nothing to prove.
bool comparable(const KernelGraph& user, const KernelGraph& program) {
  if (user.inputs().size() != program.inputs().size() || user.outputs().size() != program.outputs().size())
    return false;
  for (std::size_t at = 0; at < user.outputs().size(); ++at)
    if (!(user.spec(user.outputs()[at]) == program.spec(program.outputs()[at]))) return false;
  return true;
}

TEST(Mutation, NoProgramThatFloat64TellsApartIsProved) {
  const int wanted = std::getenv("GQA_FULL_RUN") != nullptr ? kWrongInFullRuns : kWrong;
  const std::vector<Subject> all = subjects();
  Mutator mutator(20261127);
  std::set<std::string> met;
  int found = 0, subtractions = 0;
  for (int tried = 0; found < wanted && tried < 100 * wanted; ++tried) {
    const Subject& subject = all[static_cast<std::size_t>(tried) % all.size()];
    const std::string& right = subject.programs[static_cast<std::size_t>(tried) / all.size() % subject.programs.size()];
    const std::string text = mutator.mutated(right);
    KernelGraph program;
    if (!met.insert(text).second || !parse(text, &program).ok() || !comparable(subject.user, program)) continue;
    if (!wrong(subject, program)) continue;
    ++found;
    subtractions += std::count(text.begin(), text.end(), '\n') > 0 && text.find("sub_max") == std::string::npos &&
                    right.find("sub_max") != std::string::npos;
    EXPECT_FALSE(prove_equal(subject.user, program, 1, nullptr).ok()) << text << "\nfor\n" << to_text(subject.user);
  }
  EXPECT_EQ(found, wanted);
  EXPECT_GT(subtractions, 5) << "of those that know -inf";
}

}  // namespace
}  // namespace gqa
