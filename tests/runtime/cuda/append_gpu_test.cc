// append_gpu_test.cc: appending on a GPU: the kernel that does nothing else before its trial, as it is and with a
// fault; and attention's own kernels, where these append.
#include <string>

#include "runtime/cuda/cuda_device.h"
#include "search/families/resources.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/runtime/new_tokens_case.h"

namespace gqa {
namespace {

using test::NewTokensCase;
using test::NewTokensLaunch;

// Vectors on the device. Needs the context to be current.
class DeviceVectors {
 public:
  explicit DeviceVectors(const Driver& driver) : driver_(driver) {}
  ~DeviceVectors() {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  DeviceVectors(const DeviceVectors&) = delete;
  DeviceVectors& operator=(const DeviceVectors&) = delete;

  template <typename Number>
  std::vector<Number> fetched(const void* from, std::size_t count) const {
    std::vector<Number> host(count);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyDtoHAsync(host.data(), reinterpret_cast<CUdeviceptr>(from),
                                                      count * sizeof(Number), nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    return host;
  }

  template <typename Number>
  Number* moved(const std::vector<Number>& host) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&address, std::max<std::size_t>(1, host.size() * sizeof(Number))));
    memory_.push_back(address);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(address, host.data(), host.size() * sizeof(Number), nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    return reinterpret_cast<Number*>(address);
  }

 private:
  const Driver& driver_;
  std::vector<CUdeviceptr> memory_;
};

class AppendGpu : public test::CudaGpu {};

// The kernel as it is, and where a product is left out of each rotation.
TEST_F(AppendGpu, ItsTrialPassesItAndRefusesAWrongRotation) {
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {Operation::kAppend}, Effort(60), &trial).ok());
  for (const bool right : {true, false, true}) {
    Program program = program_of(Operation::kAppend, DeviceKind::kCuda);
    if (!right) program.sources.front().text.insert(0, "#define fmaf(a, b, c) (c)\n");
    std::unique_ptr<LoadedProgram> appender;
    const Status status = compile_and_load(*device_, program, &appender);
    ASSERT_TRUE(status.ok()) << status.message();
    const Verdict verdict = trial->verify(*appender);
    EXPECT_EQ(verdict.passed, right) << verdict.reason;
    EXPECT_EQ(verdict.reason.starts_with("k: element"), !right) << verdict.reason;
    std::vector<double> microseconds;
    EXPECT_TRUE(trial->time(*appender, 2, &microseconds).ok());
    EXPECT_EQ(microseconds.size(), 2u);
  }
}

TEST_F(AppendGpu, AttentionsOwnKernelsAppend) {
  for (const NewTokensLaunch& run : test::new_tokens_launches()) {
    NewTokensCase t(run);
    test::CacheCase& attended = t.attended;
    Call call = t.call;
    Candidate candidate;
    ASSERT_TRUE(parse(run.candidate, &candidate).ok()) << run.candidate;
    DeviceVectors memory(*driver_);
    std::uint16_t* const k = memory.moved(t.k);
    std::uint16_t* const v = memory.moved(t.v);
    std::uint16_t* const out = memory.moved(attended.out);
    float* const lse = memory.moved(attended.lse);
    call.place(Role::kQ, memory.moved(t.q));
    call.place(Role::kK, k);
    call.place(Role::kV, v);
    call.place(Role::kOut, out);
    call.place(Role::kLse, lse);
    call.place(Role::kKvLengths, memory.moved(t.cached));
    if (call.has(Role::kPageTable)) call.place(Role::kPageTable, memory.moved(attended.table));
    call.place(Role::kNewK, memory.moved(t.k_new));
    call.place(Role::kNewV, memory.moved(t.v_new));
    call.place(Role::kCos, memory.moved(t.cos));
    call.place(Role::kSin, memory.moved(t.sin));
    if (run.kind.own_rotary) call.place(Role::kRotaryStarts, memory.moved(t.rotary_starts));
    const auto kernel = kernel_for(call.problem, call.problem, candidate, candidate);
    ASSERT_TRUE(kernel->appends(call)) << run.problem;
    const Status status = kernel->run(call);
    ASSERT_TRUE(status.ok()) << status.message();
    attended.out = memory.fetched<std::uint16_t>(out, attended.out.size());
    attended.lse = memory.fetched<float>(lse, attended.lse.size());
    EXPECT_TRUE(attended.right()) << run.candidate;
    EXPECT_EQ(memory.fetched<std::uint16_t>(k, t.k.size()), attended.k) << run.candidate;
    EXPECT_EQ(memory.fetched<std::uint16_t>(v, t.v.size()), attended.v) << run.candidate;
  }
}

// A trial's own verification, of a kernel that reads the cache as it was.
TEST_F(AppendGpu, VerificationCatchesWhatIsNotAppended) {
  for (const char* keys : {"", ",page=16"}) {
    const Problem problem = test::problem_of("b=6,hq=8,hk=2,sq=1,sk=300,d=64,causal,lens" + std::string(keys));
    for (const Candidate& candidate : best(problem, 1)) {
      if (!plan(problem, candidate).brings(LaunchArgument::kTokens)) continue;
      std::unique_ptr<Trial> trial;
      ASSERT_TRUE(compile_and_try(*device_, {problem}, Effort(60), &trial).ok());
      for (const bool appends : {true, false, true}) {
        Program program = program_of(problem, candidate, DeviceKind::kCuda);
        std::string& text = program.sources.front().text;
        const std::string says = "kAppends = true";
        ASSERT_NE(text.find(says), std::string::npos);
        if (!appends) text.replace(text.find(says), says.size(), "kAppends = false");
        Binary binary;
        ASSERT_TRUE(device_->compile(program.sources.front(), &binary).ok());
        std::unique_ptr<LoadedProgram> kernel;
        ASSERT_TRUE(device_->load(program, {binary}, &kernel).ok());
        const Verdict verdict = trial->verify(*kernel);
        EXPECT_EQ(verdict.passed, appends) << to_text(candidate) << ": " << verdict.reason;
      }
    }
  }
}

}  // namespace
}  // namespace gqa
