// family_test.cc: attention families as a user's graph uses them, on the CPU: the chain on the scores and keys that lie
// transposed, from the user's graph through retiling to the kernel, against the graph's own evaluation.

#include "runtime/cuda/launch/cuda_kernel.h"
#include "runtime/element.h"
#include "search/families/resources.h"
#include "search/graph/attention/retile.h"
#include "search/graph/tile/kernel_plan.h"
#include "tests/search/graph/enumerate/search_support.h"
#include "tests/simt/kernels/judged.h"

namespace gqa {
namespace {

struct FamilyCase {
  const char *name, *graph, *candidate, *problem;
};

// The issue's graph, with rows and keys that no tile divides.
const char* const kTransposed = R"(graph 1
q = input f16[2,40,64]
k = input f16[2,64,152]
v = input f16[2,152,64]
a = matmul(q, k)
e = exp(a)
s = sum(e) dim=2
d = div(e, s)
o = matmul(d, v)
)";

// Rows of 150 keys are aligned to nothing.
const char* const kTransposedOdd = R"(graph 1
q = input bf16[2,3,2,40,32]
k = input bf16[2,3,1,32,150]
v = input bf16[2,3,1,150,64]
a = matmul(q, k)
b = scale(a) c=0.05
t = tanh(b)
c = scale(t) c=20
m = mask(c) right=0
p = softmax(m) dim=-1
o = matmul(p, v)
)";

// 150 keys in rows of 152: the last piece of a row is short.
const char* const kTransposedShort = R"(graph 1
q = input f16[2,2,4,3,64]
k = input f16[2,2,1,64,150] strides=[19456,9728,9728,152,1]
v = input f16[2,2,1,150,64]
a = matmul(q, k)
b = scale(a) c=0.125
c = clamp(b) lo=-1 hi=2
p = softmax(c) dim=-1
o = matmul(p, v)
)";

const char* const kSoftcap = R"(graph 1
q = input f16[1,40,2,64]
k = input f16[1,200,2,64]
v = input f16[1,200,2,32]
x = transpose(q) dims=[0,2,1,3]
y = transpose(k) dims=[0,2,1,3]
z = transpose(v) dims=[0,2,1,3]
a = matmul(x, y) tb=1
b = scale(a) c=0.02
t = tanh(b)
c = scale(t) c=50
p = softmax(c) dim=-1
w = matmul(p, z)
o = transpose(w) dims=[0,2,1,3]
)";

const FamilyCase kCases[] = {
    {"FlashTransposed", kTransposed, "flash m=64 n=32 warps=4 stages=2 pack=1",
     "b=2,hq=1,hk=1,sq=40,sk=152,d=64,dtype=f16,ktrans"},
    {"FlashTransposedOneStage", kTransposed, "flash m=64 n=64 warps=2 stages=1 pack=1",
     "b=2,hq=1,hk=1,sq=40,sk=152,d=64,dtype=f16,ktrans"},
    {"FlashTransposedUnalignedSoftcapCausal", kTransposedOdd, "flash m=32 n=48 warps=2 stages=3 pack=2",
     "b=2,hq=6,hk=3,sq=40,sk=150,d=32,dv=64,dtype=bf16,causal,align=2,ktrans,softcap"},
    {"SplitTransposedShortRows", kTransposedShort, "split m=16 n=16 warps=2 stages=3 pack=4 splits=3",
     "b=2,hq=8,hk=2,sq=3,sk=150,d=64,dtype=f16,ktrans,scores=clamp0"},
    {"FlashSoftcap", kSoftcap, "flash m=32 n=64 warps=2 stages=2 pack=1",
     "b=2,hq=1,hk=1,sq=40,sk=200,d=64,dv=32,dtype=f16,softcap"},
    {"SplitSoftcap", kSoftcap, "split m=64 n=32 warps=2 stages=2 pack=1 splits=2",
     "b=2,hq=1,hk=1,sq=40,sk=200,d=64,dv=32,dtype=f16,softcap"},
};

// The kernel that a program the search found becomes under the candidate.
FamilyKernel kernel_of(const KernelGraph& user, const Candidate& candidate) {
  for (const RankedProgram& ranked : search(user, "attention").programs) {
    const KernelGraph& program = ranked.program.graph;
    if ((program.nodes().size() == 2) != (shape_of(candidate).splits > 1) || !attention_form(program)) continue;
    const auto graph = retile(program, candidate);
    KernelPlan plan;
    if (!graph || !prove_equal(user, *graph, 1, nullptr).ok() || !plan_kernels(*graph, &plan).ok()) continue;
    EXPECT_EQ(plan.kernels.size(), 1U);
    return *plan.kernels[0].family;
  }
  ADD_FAILURE() << "no program is attention for " << to_text(candidate);
  return {};
}

// Elements of a tensor that lies with strides, in row-major order: their places.
std::vector<std::size_t> places(const TensorSpec& spec) {
  const Dims strides = strides_of(spec);
  std::vector<std::size_t> found;
  for (std::int64_t at = 0; at < elements(spec.dims); ++at) {
    std::int64_t place = 0, left = at;
    for (std::size_t dim = spec.dims.size(); dim-- > 0; left /= spec.dims[dim])
      place += left % spec.dims[dim] * strides[dim];
    found.push_back(static_cast<std::size_t>(place));
  }
  return found;
}

class FamilyRun {
 public:
  FamilyRun(const KernelGraph& user, const FamilyKernel& kernel) : user_(user), kernel_(kernel) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 0.6F);  // float16 still holds the exponentials of a naive run
    for (const int input : user.inputs()) {
      const std::vector<std::size_t> at = places(user.spec(input));
      std::vector<std::uint16_t> bits(*std::max_element(at.begin(), at.end()) + 1);
      inputs_.emplace_back();
      for (const std::size_t place : at) {
        bits[place] = store(dtype(), normal(random));
        inputs_.back().push_back(load(dtype(), bits[place]));
      }
      buffers_.push_back(std::make_unique<simt::Buffer>(user.tensor(input).name, bits));
    }
    out_ = std::make_unique<simt::Buffer>("out", 2 * static_cast<std::size_t>(elements(out_spec().dims)));
  }

  Status run(const simt::Kernel& compiled, const simt::Schedule& schedule) {
    out_->poison();
    const LaunchPlan needed = plan(kernel_.form.problem, kernel_.candidate);
    const simt::Buffer partials("partials", std::vector<float>(static_cast<std::size_t>(needed.partial_floats) + 4));
    const simt::Buffer counters("counters", std::vector<unsigned>(static_cast<std::size_t>(needed.counters) + 4));
    AttentionParams params = params_of(call(), kernel_.candidate);
    params.partials = partials.as<float>();
    params.counters = counters.as<unsigned>();
    ScoreParams scores = score_params_of(call());
    void* arguments[] = {&params, &scores};  // what a kernel has no parameter for is not read
    return compiled.launch({{static_cast<unsigned>(needed.blocks), 1, 1},
                            {static_cast<unsigned>(needed.threads), 1, 1},
                            static_cast<std::size_t>(needed.shared_memory),
                            arguments},
                           schedule);
  }

  std::vector<std::uint16_t> bits() const { return out_->values<std::uint16_t>(); }

  // At most twice as far from the truth as a run that rounds every result.
  void expect_right() const {
    std::vector<std::vector<double>> truth, naive;
    ASSERT_TRUE(evaluate(user_, inputs_, &truth).ok());
    ASSERT_TRUE(evaluate(user_, inputs_, &naive, Rounding::kResults).ok());
    double allowed = 0, error = 0;
    const std::vector<std::uint16_t> got = bits();
    ASSERT_EQ(got.size(), truth[0].size());
    for (std::size_t at = 0; at < got.size(); ++at) {
      allowed = std::max(allowed, 2 * std::abs(naive[0][at] - truth[0][at]));
      const double here = std::abs(load(dtype(), got[at]) - truth[0][at]);
      ASSERT_TRUE(std::isfinite(here)) << "element " << at;
      error = std::max(error, here);
    }
    EXPECT_LE(error, allowed);
    EXPECT_GT(allowed, 0);
  }

 private:
  ElementType dtype() const { return kernel_.form.problem.q_type; }
  const TensorSpec& out_spec() const { return user_.spec(user_.outputs()[0]); }

  const void* data(const AttentionView& view) const { return buffers_[static_cast<std::size_t>(view.tensor)]->data(); }

  Call call() const {
    const AttentionForm& form = kernel_.form;
    const auto strides = [](const AttentionView& view) { return Strides{view.batch, view.row, view.head}; };
    Call call;
    call.place(Role::kQ, data(form.q));
    call.place(Role::kK, data(form.k));
    call.place(Role::kV, data(form.v));
    call.place(Role::kOut, out_->data());
    call.strides(Role::kQ) = strides(form.q);
    call.strides(Role::kK) = strides(form.k);
    if (form.problem.keys_transposed()) call.strides(Role::kK).row = form.k.column;
    call.strides(Role::kV) = strides(form.v);
    call.strides(Role::kOut) = strides(form.out);
    call.scale = form.scale;
    call.slots = form.slots;
    call.problem = form.problem;
    return call;
  }

  const KernelGraph& user_;
  const FamilyKernel& kernel_;
  std::vector<std::vector<double>> inputs_;
  std::vector<std::unique_ptr<simt::Buffer>> buffers_;
  std::unique_ptr<simt::Buffer> out_;
};

class Families : public testing::TestWithParam<FamilyCase> {};

TEST_P(Families, ComputeTheUsersGraph) {
  if (const char* why = simt::unavailable()) GTEST_SKIP() << why;
  const KernelGraph user = graph_of(GetParam().graph);
  const FamilyKernel kernel = kernel_of(user, candidate_of(GetParam().candidate));
  ASSERT_EQ(to_text(kernel.form.problem), GetParam().problem);
  const simt::KernelText text = {attention_source(kernel.form.problem, kernel.candidate)};
  EXPECT_TRUE(simt::judged_whole(text, [&](const simt::Kernel& compiled) {
    FamilyRun run(user, kernel);
    std::vector<std::uint16_t> first;
    for (const simt::Schedule& schedule : simt::schedules()) {
      const Status status = run.run(compiled, schedule);
      ASSERT_TRUE(status.ok()) << status.message();
      if (first.empty()) {
        first = run.bits();
        run.expect_right();
      }
      EXPECT_EQ(run.bits(), first) << simt::to_text(schedule);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Graphs, Families, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace gqa
