// host_program_test.cc: programs on the host give what evaluate() gives: every operator, every program of the search.
#include "runtime/host/host_program.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <set>
#include <thread>

#include "program_case.h"
#include "runtime/host/host_program_trial.h"
#include "search/graph/attention_program.h"
#include "tests/search/graph/search_support.h"
#include "tests/search/graph/small_graphs.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // these have a heap, and threads, of their own
#else
constexpr bool kSanitized = false;
// Every allocation of this program is counted: a warm launch must make none.
static std::atomic<std::int64_t> allocations = 0;
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace gqa {
namespace {

// Both NaN, both the same infinity, or near.
void expect_same(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t at = 0; at < found.size(); ++at) {
    if (found[at] == expected[at] || (std::isnan(found[at]) && std::isnan(expected[at]))) continue;
    ASSERT_NEAR(found[at], expected[at], tolerance * std::max(1.0, std::abs(expected[at]))) << "element " << at;
  }
}

double tolerance_of(ElementType type) {
  return type == ElementType::kF32 ? 4e-6 : type == ElementType::kF16 ? 0x1p-10 : 0x1p-7;
}

void expect_values_of(const KernelGraph& graph, unsigned seed, double scale, int threads, const HostOps& ops) {
  const auto inputs = typed_inputs(graph, seed, scale);
  const auto found = run_on_host(graph, inputs, threads, ops), expected = values_of(graph, inputs);
  const std::vector<int> outputs = graph.outputs();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t at = 0; at < outputs.size(); ++at) {
    SCOPED_TRACE("output " + graph.tensor(outputs[at]).name);
    ASSERT_NO_FATAL_FAILURE(expect_same(found[at], expected[at], tolerance_of(graph.spec(outputs[at]).type)));
  }
}

// TYPE stands for each element type in turn.
const std::string kOperators[] = {
    R"(graph 1
x = input TYPE[3,5,21]
a = exp(x)
b = exp2(x)
c = square(x)
d = sqrt(c)
e = relu(x)
f = silu(x)
g = gelu(x)
h = tanh(x)
i = clamp(x) lo=-0.5 hi=0.75
j = scale(x) c=3 count=7
k = add_constant(x) c=1.5
outputs a, b, c, d, e, f, g, h, i, j, k
)",
    R"(graph 1
x = input TYPE[4,9]
c = add_constant(x) c=6
a = rsqrt(c)
b = reciprocal(c)
y = input TYPE[9]
z = input TYPE[2,4,1]
e = add(x, y)
f = sub(z, x)
g = mul(y, z)
h = div(x, c)
i = sub_max(x, y)
j = normalize(z, c)
outputs a, b, e, f, g, h, i, j
)",
    R"(graph 1
x = input TYPE[3,7,300]
a = sum(x) dim=0
b = sum(x) dim=2
c = max(x) dim=1
d = max(x) dim=-1
e = mean(x) dim=2
f = softmax(x) dim=1
g = softmax(x) dim=-1
h = rms_norm(x) eps=0.01
w = input TYPE[300]
i = rms_norm(x, w) eps=0.01
outputs a, b, c, d, e, f, g, h, i
)",
    R"(graph 1
x = input TYPE[2,20000]
a = sum(x) dim=1
b = max(x) dim=1
c = mean(x) dim=1
t = input TYPE[20000,3]
d = sum(t) dim=0
outputs b, c
)",
    R"(graph 1
x = input TYPE[2,13,19]
a = mask(x) right=0
b = mask(x) left=2 right=1
c = mask(x) left=3
d = transpose(x) dims=[2,0,1]
f = unsqueeze(x) dim=0
outputs a, b, c, d, f
)",
    R"(graph 1
x = input TYPE[13,1]
a = broadcast(x) dims=[2,13,70]
b = squeeze(x) dim=1
c = unsqueeze(x) dim=1
d = constant() dims=[5,600] c=0.3 type=TYPE
outputs a, b, c, d
)",
    R"(graph 1
a = input TYPE[2,3,70,40]
b = input TYPE[3,40,90]
c = matmul(a, b)
)",
    R"(graph 1
a = input TYPE[40,70]
b = input TYPE[90,40]
c = matmul(a, b) ta=1 tb=1
)",
    R"(graph 1
a = input TYPE[2,4,1,600]
b = input TYPE[2,1,1,300,600]
c = matmul(a, b) tb=1
)",
};

std::string of_type(std::string text, ElementType type) {
  for (std::size_t at = 0; (at = text.find("TYPE")) != std::string::npos;) text.replace(at, 4, name(type));
  return text;
}

}  // namespace
}  // namespace gqa
