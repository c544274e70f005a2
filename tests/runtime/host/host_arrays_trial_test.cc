// Verification of chains that read arrays: the search's kernels pass, and a kernel that reads a neighbour's number does
// not.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

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

TEST(HostArraysTrial, HonestKernelsPass) {
  for (const char* steps :
       {"mulhead", "mulrow", "addtensor", "addtensor32", "div0+mulrow+tanh+mul0", "div0+tanh+mul0+addtensor"})
    EXPECT_EQ(verdict_on(steps, [](Call*) {}), "passed") << steps;
}

TEST(HostArraysTrial, ANeighboursNumberIsSeen) {
  const auto scores = [](std::int64_t step) {
    return [step](Call* call) { call->arrays.scores = static_cast<const std::uint16_t*>(call->arrays.scores) + step; };
  };
  EXPECT_NE(verdict_on("addtensor", scores(1)), "passed");
  EXPECT_NE(verdict_on("addtensor", [](Call* call) { call->arrays.score_strides.row = 0; }), "passed");
  EXPECT_NE(verdict_on("addtensor", [](Call* call) { call->arrays.score_strides.head = 0; }), "passed");
  EXPECT_NE(verdict_on("addtensor", [](Call* call) { call->arrays.score_strides.batch = 0; }), "passed");
  EXPECT_NE(verdict_on("mulhead", [](Call* call) { ++call->arrays.heads; }), "passed");
  EXPECT_NE(verdict_on("mulrow", [](Call* call) { call->arrays.row_strides.row = 0; }), "passed");
  EXPECT_NE(verdict_on("mulrow", [](Call* call) { call->arrays.row_strides.head = 0; }), "passed");
}

}  // namespace
}  // namespace gqa
