// append_gpu_test.cc: appending on a GPU: every slot, query and list of each kind of call, by the kernel that the
// device compiles; and by attention's own kernels, where these append.
#include <string>

#include "runtime/cuda/cuda_device.h"
#include "search/families/resources.h"
#include "tests/runtime/append_case.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/runtime/new_tokens_case.h"

namespace gqa {
namespace {

using test::AppendCase;
using test::AppendKind;
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

// A case's buffers on the device.
class AppendCopy {
 public:
  AppendCopy(const Driver& driver, AppendCase* t) : memory_(driver), case_(t) {
    Call& call = t->call;
    call.place(Role::kQ, memory_.moved(t->q));
    call.place(Role::kK, memory_.moved(t->k));
    call.place(Role::kV, memory_.moved(t->v));
    call.place(Role::kKvLengths, memory_.moved(t->lengths));
    if (t->kind.page > 0) call.place(Role::kPageTable, memory_.moved(t->table));
    if (t->kind.packed) call.place(Role::kQStarts, memory_.moved(t->starts));
    if (t->kind.packed) call.place(Role::kNewStarts, memory_.moved(t->starts));
    if (t->kind.adds) call.place(Role::kNewK, memory_.moved(t->k_new));
    call.place(Role::kNewV, memory_.moved(t->v_new));
    call.place(Role::kCos, memory_.moved(t->cos));
    call.place(Role::kSin, memory_.moved(t->sin));
    if (t->kind.own_rotary) call.place(Role::kRotaryStarts, memory_.moved(t->rotary_starts));
    if (t->kind.batch_idx) call.place(Role::kBatchIdx, memory_.moved(t->rows));
    if (t->kind.leftpad) call.place(Role::kLeftpad, memory_.moved(t->leftpad));
  }

  // What is wrong once the call attends.
  std::string wrong(const Call& attended) const {
    const AppendCase& t = *case_;
    const auto table = t.kind.table()
                           ? memory_.fetched<int>(attended.list(Role::kPageTable), t.kBatch * t.out_columns())
                           : std::vector<int>();
    const auto starts =
        t.kind.starts() ? memory_.fetched<int>(attended.list(Role::kKStarts), t.kBatch) : std::vector<int>(t.kBatch);
    const auto value_starts = t.kind.values_apart ? memory_.fetched<int>(attended.v_starts, t.kBatch) : starts;
    return t.wrong(memory_.fetched<std::uint16_t>(attended.at(Role::kK), t.k.size()),
                   memory_.fetched<std::uint16_t>(attended.at(Role::kV), t.v.size()),
                   memory_.fetched<std::uint16_t>(attended.at(Role::kQ), t.rotated_size()).data(),
                   memory_.fetched<int>(attended.list(Role::kKvLengths), t.kBatch).data(), starts.data(),
                   value_starts.data(), table.data());
  }

 private:
  DeviceVectors memory_;
  AppendCase* case_;
};

// Stands where attention does, and looks.
struct AppendLooker : LoadedProgram {
  explicit AppendLooker(const AppendCopy& given) : copy(given) {}
  Status run(const ProgramCall& call) const override {
    wrong = copy.wrong(*call.attention);
    return {};
  }
  const AppendCopy& copy;
  mutable std::string wrong = "nothing attended";
};

class AppendGpu : public test::CudaGpu {};

TEST_F(AppendGpu, PutsEveryRowWhereItBelongs) {
  Binary binary;
  ASSERT_TRUE(device_->compile(device_->append_kernel(), &binary).ok());
  std::unique_ptr<Appender> appender;
  const Status loaded = device_->load_appender(binary, &appender);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  int at = 0;
  for (const AppendKind& kind : test::append_kinds()) {
    AppendCase t(kind);
    const AppendCopy copy(*driver_, &t);
    const AppendLooker program(copy);
    ASSERT_TRUE(appender->run(t.call, program).ok()) << at;
    EXPECT_EQ(program.wrong, "") << "kind " << at++;
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
      if (!plan(problem, candidate).new_tokens) continue;
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
