// Verification of chains that read arrays: the search's kernels pass, and a kernel that reads a neighbour's number does
// not.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/workload/programs.h"
#include "runtime/workload/workload.h"
#include "search/families/space.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

using Misleads = std::function<void(Call*)>;

class Misled final : public LoadedProgram {
 public:
  Misled(std::unique_ptr<LoadedProgram> kernel, Misleads fault)
      : kernel_(std::move(kernel)), fault_(std::move(fault)) {}
  Status run(const ProgramCall& given) const override {
    Call call = *given.attention;
    fault_(&call);
    return kernel_->run(ProgramCall{nullptr, nullptr, nullptr, &call});
  }

 private:
  std::unique_ptr<LoadedProgram> kernel_;
  Misleads fault_;
};

std::string verdict_on(const std::string& steps, const Misleads& fault) {
  std::unique_ptr<Device> device;
  EXPECT_TRUE(open_host_device(2, &device).ok());
  const Problem p = problem_of("b=2,hq=4,hk=2,sq=40,sk=64,d=64,causal,lse,scores=" + steps);
  std::unique_ptr<Trial> trial;
  EXPECT_TRUE(compile_and_try(*device, {p}, Effort(60), &trial).ok());
  std::unique_ptr<LoadedProgram> kernel;
  const Candidate candidate = enumerate(p, device->spec()).ranked.front().candidate;
  EXPECT_TRUE(compile_and_load(*device, program_of(p, candidate, DeviceKind::kHost), &kernel).ok());
  const Verdict verdict = trial->verify(Misled(std::move(kernel), fault));
  return verdict.passed ? "passed" : verdict.reason;
}

std::int64_t score_count(const Call& call) {
  const Problem& p = call.problem;
  const Strides& s = call.strides(Role::kBias);
  return s.batch * (p.batch - 1) + s.head * (p.q_heads - 1) + s.row * (p.q_len - 1) + p.kv_len;
}

// The second number of a copy that has one more at its end, so that none is read past it.
template <typename Number>
const Number* second_of(const void* numbers, std::int64_t count, std::vector<Number>* copy) {
  const auto* first = static_cast<const Number*>(numbers);
  copy->assign(first, first + count);
  copy->push_back(copy->back());
  return copy->data() + 1;
}

TEST(HostArraysTrial, HonestKernelsPass) {
  for (const char* steps :
       {"mulhead", "mulrow", "addtensor", "addtensor32", "div0+mulrow+tanh+mul0", "div0+tanh+mul0+addtensor"})
    EXPECT_EQ(verdict_on(steps, [](Call*) {}), "passed") << steps;
}

TEST(HostArraysTrial, ANeighboursNumberIsSeen) {
  std::vector<std::uint16_t> scores;
  std::vector<float> heads;
  EXPECT_NE(verdict_on("addtensor",
                       [&](Call* call) {
                         call->place(Role::kBias, second_of(call->at(Role::kBias), score_count(*call), &scores));
                       }),
            "passed");
  EXPECT_NE(verdict_on("addtensor", [](Call* call) { call->strides(Role::kBias).row = 0; }), "passed");
  EXPECT_NE(verdict_on("addtensor", [](Call* call) { call->strides(Role::kBias).head = 0; }), "passed");
  EXPECT_NE(verdict_on("addtensor", [](Call* call) { call->strides(Role::kBias).batch = 0; }), "passed");
  EXPECT_NE(verdict_on("mulhead",
                       [&](Call* call) {
                         call->place(Role::kScoreScale,
                                     second_of(call->at(Role::kScoreScale), call->problem.q_heads, &heads));
                       }),
            "passed");
  EXPECT_NE(verdict_on("mulrow", [](Call* call) { call->strides(Role::kScoreScale).row = 0; }), "passed");
  EXPECT_NE(verdict_on("mulrow", [](Call* call) { call->strides(Role::kScoreScale).head = 0; }), "passed");
}

}  // namespace
}  // namespace gqa
