// graph_fuzz_c_test.cc: random calls of the graph builder.
// Owns: a fixed-seed stream of calls with good and wild arguments. Every call either makes a value that its own rule of
// shapes (written here once more, naively) allows, or refuses with a status of gqa.h, says why, and changes nothing; no
// graph so built fails to be written and read back.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/api/gqa_graph.h"

namespace {

using Dims = std::vector<std::int64_t>;

struct Known {
  gqa_value value;
  Dims dims;
  DLDataType dtype;
};

class Fuzz {
 public:
  explicit Fuzz(unsigned seed) : random_(seed) { EXPECT_EQ(gqa_graph_create(&graph_), GQA_OK); }
  ~Fuzz() { gqa_graph_destroy(graph_); }

  void step();
  int made() const { return made_; }
  int refused() const { return refused_; }
  std::string text() { return gqa_graph_text(graph_); }
  std::string hash() { return gqa_graph_hash(graph_); }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  bool chance(int in) { return pick(in) == 0; }
  std::int64_t any_number() {
    const std::int64_t edges[] = {0,
                                  -1,
                                  1 << 20,
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min(),
                                  static_cast<std::int64_t>(random_())};
    return edges[pick(6)];
  }
  Known& known() { return known_[static_cast<std::size_t>(pick(static_cast<int>(known_.size())))]; }

  void input();
  void unary();
  void binary();
  void matmul();
  void reduce();
  void broadcast();
  void transpose();
  void strange();
  // expected: the sizes of the result, or nothing where the call has to be refused.
  void judge(gqa_status status, const gqa_value& result, const std::optional<Dims>& expected);

  std::mt19937_64 random_;
  gqa_graph graph_ = nullptr;
  std::vector<Known> known_;
  int made_ = 0, refused_ = 0;
};

bool mix(const Known& a, const Known& b) {
  return a.dtype.bits == 32 || b.dtype.bits == 32 || a.dtype.code == b.dtype.code;
}

std::optional<Dims> stretched(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()));
  for (std::size_t back = 0; back < result.size(); ++back) {
    const std::int64_t x = back < a.size() ? a[a.size() - 1 - back] : 1;
    const std::int64_t y = back < b.size() ? b[b.size() - 1 - back] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - back] = x == 1 ? y : x;
  }
  return result;
}

void Fuzz::judge(gqa_status status, const gqa_value& result, const std::optional<Dims>& expected) {
  ASSERT_EQ(status == GQA_OK, expected.has_value()) << gqa_last_error();
  if (status != GQA_OK) {
    ++refused_;
    ASSERT_GE(status, GQA_ERROR_NULL_ARGUMENT);
    ASSERT_LE(status, GQA_ERROR_OPTION);
    ASSERT_STRNE(gqa_last_error(), "");
    return;
  }
  ASSERT_STREQ(gqa_last_error(), "");
  Known made = {result, {}, {}};
  std::int64_t sizes[8];
  int rank = 0;
  ASSERT_EQ(gqa_graph_describe(graph_, result, &rank, sizes, &made.dtype), GQA_OK);
  made.dims.assign(sizes, sizes + rank);
  ASSERT_EQ(made.dims, *expected);
  known_.push_back(made);
  ++made_;
}

void Fuzz::input() {
  const DLDataType dtypes[] = {{kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}};
  const std::int64_t sizes[] = {1, 2, 3, 4};
  const int dtype = chance(4) ? pick(4) : 0, rank = chance(8) ? pick(12) - 1 : 1 + pick(4);
  Dims dims(12, 1);
  for (std::int64_t& size : dims) size = sizes[pick(4)];
  if (chance(10)) dims[static_cast<std::size_t>(pick(4))] = any_number();
  gqa_value made = {};
  const gqa_status status = gqa_graph_input(graph_, rank, dims.data(), nullptr, dtypes[dtype], &made);
  bool valid = rank >= 1 && rank <= 8 && dtype < 3;
  dims.resize(static_cast<std::size_t>(std::clamp(rank, 0, 8)));
  for (const std::int64_t size : dims) valid = valid && size >= 1 && size <= 1 << 20;
  judge(status, made, valid ? std::optional(dims) : std::nullopt);
}

void Fuzz::unary() {
  using Function = gqa_status (*)(gqa_graph, gqa_value, gqa_value*);
  const Function functions[] = {gqa_graph_exp,  gqa_graph_sqrt, gqa_graph_square, gqa_graph_relu,
                                gqa_graph_silu, gqa_graph_gelu, gqa_graph_tanh};
  const Known x = known();
  gqa_value made = {};
  const gqa_status status = functions[pick(7)](graph_, x.value, &made);
  judge(status, made, x.dims);
}

void Fuzz::binary() {
  using Function = gqa_status (*)(gqa_graph, gqa_value, gqa_value, gqa_value*);
  const Function functions[] = {gqa_graph_add, gqa_graph_sub, gqa_graph_mul, gqa_graph_div};
  const Known a = known(), b = known();
  gqa_value made = {};
  const gqa_status status = functions[pick(4)](graph_, a.value, b.value, &made);
  judge(status, made, mix(a, b) ? stretched(a.dims, b.dims) : std::nullopt);
}

void Fuzz::matmul() {
  const Known a = known(), b = known();
  const int ta = pick(2), tb = pick(2);
  std::optional<Dims> expected;
  if (a.dims.size() >= 2 && b.dims.size() >= 2 && mix(a, b)) {
    Dims x = a.dims, y = b.dims;
    if (ta) std::swap(x[x.size() - 1], x[x.size() - 2]);
    if (tb) std::swap(y[y.size() - 1], y[y.size() - 2]);
    const std::int64_t row = x[x.size() - 2], column = y.back();
    const bool meet = x.back() == y[y.size() - 2];
    expected = stretched(Dims(x.begin(), x.end() - 2), Dims(y.begin(), y.end() - 2));
    if (!meet) expected.reset();
    if (expected) expected->insert(expected->end(), {row, column});
  }
  gqa_value made = {};
  const gqa_status status = gqa_graph_matmul(graph_, a.value, b.value, ta, tb, &made);
  judge(status, made, expected);
}

void Fuzz::reduce() {
  using Function = gqa_status (*)(gqa_graph, gqa_value, int, gqa_value*);
  const Function functions[] = {gqa_graph_sum, gqa_graph_max, gqa_graph_mean, gqa_graph_softmax};
  const Known x = known();
  const int which = pick(4), rank = static_cast<int>(x.dims.size());
  const int dim = chance(8) ? static_cast<int>(any_number()) : pick(2 * rank + 2) - rank - 1;
  Dims dims = x.dims;
  const bool valid = dim >= -rank && dim < rank;
  if (valid && which != 3) dims[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)] = 1;
  gqa_value made = {};
  const gqa_status status = functions[which](graph_, x.value, dim, &made);
  judge(status, made, valid ? std::optional(dims) : std::nullopt);
}

void Fuzz::broadcast() {
  const Known x = known();
  Dims dims = chance(2) ? known().dims : x.dims;
  if (chance(3)) dims.insert(dims.begin(), 1 + pick(3));
  if (chance(6)) dims[0] = any_number();
  const std::optional<Dims> common = dims.size() <= 8 ? stretched(x.dims, dims) : std::nullopt;
  const bool sane = std::all_of(dims.begin(), dims.end(), [](std::int64_t d) { return d >= 1 && d <= 1 << 20; });
  gqa_value made = {};
  const gqa_status status = gqa_graph_broadcast(graph_, x.value, static_cast<int>(dims.size()), dims.data(), &made);
  judge(status, made, sane && common == dims ? common : std::nullopt);
}

void Fuzz::transpose() {
  const Known x = known();
  std::vector<int> order(x.dims.size());
  for (int& entry : order) entry = chance(20) ? static_cast<int>(any_number()) : pick(static_cast<int>(order.size()));
  if (chance(2)) {
    for (std::size_t at = 0; at < order.size(); ++at) order[at] = static_cast<int>(order.size() - 1 - at);
  }
  std::optional<Dims> expected = Dims();
  for (std::size_t at = 0; at < order.size(); ++at) {
    const bool there = std::count(order.begin(), order.end(), static_cast<int>(at)) == 1;
    if (!there) expected.reset();
  }
  if (expected) {
    for (const int from : order) expected->push_back(x.dims[static_cast<std::size_t>(from)]);
  }
  gqa_value made = {};
  const gqa_status status = gqa_graph_transpose(graph_, x.value, order.data(), &made);
  judge(status, made, expected);
}

// A value that is none of this graph's.
void Fuzz::strange() {
  gqa_value value = known().value, made = {};
  (chance(2) ? value.graph : reinterpret_cast<std::uint32_t&>(value.index)) += 1u << (10 + pick(20));
  const gqa_status status =
      chance(2) ? gqa_graph_exp(graph_, value, &made) : gqa_graph_rms_norm(graph_, known().value, &value, 1e-5, &made);
  judge(status, made, std::nullopt);
}

void Fuzz::step() {
  using Step = void (Fuzz::*)();
  const Step steps[] = {&Fuzz::input,  &Fuzz::unary,     &Fuzz::binary,    &Fuzz::matmul,
                        &Fuzz::reduce, &Fuzz::broadcast, &Fuzz::transpose, &Fuzz::strange};
  (this->*(known_.empty() ? steps[0] : steps[pick(8)]))();
}

TEST(GraphFuzzC, EveryCallIsRightOrRefused) {
  int made = 0, refused = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Fuzz fuzz(seed);
    for (int round = 0; round < 80 && !testing::Test::HasFatalFailure(); ++round) fuzz.step();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << "\n" << fuzz.text();
    made += fuzz.made();
    refused += fuzz.refused();
    gqa_graph parsed = nullptr;
    ASSERT_EQ(gqa_graph_parse(fuzz.text().c_str(), &parsed), GQA_OK) << gqa_last_error();
    EXPECT_EQ(gqa_graph_text(parsed), fuzz.text());
    EXPECT_EQ(gqa_graph_hash(parsed), fuzz.hash());
    gqa_graph_destroy(parsed);
  }
  EXPECT_GT(made, 1500);
  EXPECT_GT(refused, 1000);
}

}  // namespace
