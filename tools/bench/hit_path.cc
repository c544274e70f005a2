// hit_path.cc: what gqa_run costs above the bare launch.
// Owns: the hit path (argument checks, signature, look-up, launch) measured on a device whose launch does nothing,
// against that launch alone; and, for each family of kernels (hit_launches.h), against cuLaunchKernelEx with arguments
// that are ready, on a GPU, or where there is none on a driver that does nothing. With --check it measures no more than
// is judged. Exits 1 if a median is over its bound or a hit allocates.
// Never: tunes anything that is timed; the shape is made ready first.
// Threads: one, and --benchmark_filter=threads for several on one session.
#include <benchmark/benchmark.h>
#include <dlpack/dlpack.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "runtime/api/args/args.h"
#include "runtime/session/session.h"
#include "tools/bench/hit_launches.h"

// What each thread allocates is counted: a hit must allocate nothing. Compilers that outlive the miss that began them
// (runtime/tuner/compile_pool.h) allocate on threads of their own.
static thread_local std::size_t allocations = 0;
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace gqa {
namespace {

constexpr double kMostNanoseconds = 1000;
constexpr double kMostAboveLaunch = 600;
// A call that appends may take 100 ns more than one that does not, which takes 150 on a core that nothing shares.
constexpr double kMostAppending = 250.0 / 150;  // times the other's
// The same bound for a machine without a GPU, in launches by the driver that does nothing: 600 ns where such a launch
// takes 2.1 ns, on a core of 3.2 GHz that nothing shares. On a slower core, or beside work on its other hyperthread,
// launch and hit take as much longer.
constexpr double kMostEmptyLaunches = 285;

// A kernel whose launch does nothing that the compiler could leave out.
class EmptyProgram : public LoadedProgram {
 public:
  using LoadedProgram::run;
  Status run(const ProgramCall& call) const override {
    benchmark::DoNotOptimize(&call);
    return {};
  }
  bool appends(const Call&) const override { return true; }
};

class EmptyTrial : public Trial {
 public:
  Verdict verify(const LoadedProgram&) override { return {true, 0, 1, ""}; }
  Status time(const LoadedProgram&, int samples, std::vector<double>* microseconds) override {
    microseconds->insert(microseconds->end(), static_cast<std::size_t>(samples), 1.0);
    return {};
  }
};

class EmptyDevice : public Device {
 public:
  EmptyDevice() : Device({{kDLCUDA}, 0}) {}
  const DeviceSpec& spec() const override { return spec_; }
  std::string compiler() const override { return "none"; }
  std::string timing_method() const override { return "none"; }
  Status compile(const Source&, Binary*) const override { return {}; }
  Status load(const Program&, const std::vector<Binary>&, std::unique_ptr<LoadedProgram>* loaded) override {
    *loaded = std::make_unique<EmptyProgram>();
    return {};
  }
  Status make_trial(const Reference&, const Binary&, const Effort&, std::unique_ptr<Trial>* trial) override {
    *trial = std::make_unique<EmptyTrial>();
    return {};
  }

 private:
  DeviceSpec spec_ = *DeviceSpec::for_arch("sm_80");
};

struct Tensor {
  static constexpr std::int64_t kBatch = 4, kHeadDim = 128;
  Tensor(std::uintptr_t address, std::int64_t length, std::int64_t heads) : shape{kBatch, length, heads, kHeadDim} {
    strides[3] = 1;
    for (int i = 3; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
    tensor = {reinterpret_cast<void*>(address), {kDLCUDA, 0}, 4, {kDLBfloat, 16, 1}, shape, strides, 0};
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  std::int64_t shape[4], strides[4];
  DLTensor tensor;
};

// A number a sequence.
struct List {
  explicit List(std::uintptr_t address)
      : tensor{reinterpret_cast<void*>(address), {kDLCUDA, 0}, 1, {kDLInt, 32, 1}, shape, nullptr, 0} {}
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  std::int64_t shape[1] = {Tensor::kBatch};
  DLTensor tensor;
};

// How a decode is called.
enum class Caller { kPlain, kOfAnOlderHeader, kAppending };

// A session with twenty shapes ready, with lengths and without, and a decode call of one of them.
class Setting {
 public:
  Setting() {
    cache::Store::Options store;
    store.mode = cache::Mode::kOff;
    SessionOptions options;
    options.tuning = Tuning::kGuess;
    session_ = std::make_unique<Session>(std::make_unique<EmptyDevice>(), cache::Store::open(store), options);
    Problem problem;
    problem.head_dim = problem.head_dim_v = 128;
    problem.q_heads = 32;
    problem.kv_heads = 8;
    problem.q_len = 1;
    problem.batch = 4;
    for (const Lengths lengths : {Lengths::kOne, Lengths::kEach}) {
      problem.kv_lengths = lengths;
      for (int i = 0; i < 20; ++i) {
        problem.kv_len = 64 << (i / 2) | (i % 2 == 1 ? 32 << (i / 2) : 0);
        ready_ = ready_ && session_->ready(problem).ok();
      }
    }
    older_.size = offsetof(gqa_call, tuning);
    appending_.cache_seqlens = &lengths_.tensor;
    appending_.k_new = &k_new_.tensor;
    appending_.v_new = &v_new_.tensor;
    for (const Caller caller : {Caller::kPlain, Caller::kOfAnOlderHeader, Caller::kAppending})
      ready_ = ready_ && run(caller).ok();
  }

  bool ready() const { return ready_; }

  // What gqa_run_ex does once its handle is known.
  Status run(Caller caller = Caller::kPlain) const {
    const gqa_call& options = caller == Caller::kPlain ? plain_ : caller == Caller::kAppending ? appending_ : older_;
    Call call;
    if (Status status =
            make_call(session_->device(), &q_.tensor, &k_.tensor, &v_.tensor, &out_.tensor, &options, &call);
        !status.ok()) {
      return status;
    }
    return session_->run(call);
  }

  Status launch() const { return bare_->run(call_); }

 private:
  std::unique_ptr<Session> session_;
  std::unique_ptr<LoadedProgram> bare_ = std::make_unique<EmptyProgram>();
  Tensor q_{1u << 28, 1, 32}, k_{1u << 29, 3000, 8}, v_{1u << 30, 3000, 8}, out_{1u << 31, 1, 32};
  Tensor k_new_{3u << 28, 1, 8}, v_new_{5u << 28, 1, 8};
  List lengths_{7u << 28};
  gqa_call plain_ = [] {
    gqa_call call{};
    call.size = sizeof call;
    call.causal = 1;
    return call;
  }();
  gqa_call older_ = plain_, appending_ = plain_;
  Call call_;
  bool ready_ = true;
};

Setting& setting() {
  static Setting made;
  return made;
}

void bare_launch(benchmark::State& state) {
  for (auto unused : state) benchmark::DoNotOptimize(setting().launch().ok());
}

void hit(benchmark::State& state) {
  if (!setting().ready()) return state.SkipWithError("the session could not be made ready");
  for (auto unused : state) benchmark::DoNotOptimize(setting().run().ok());
}

BENCHMARK(bare_launch);
BENCHMARK(hit);
BENCHMARK(hit)->Name("hit/threads")->Threads(2)->UseRealTime();

// Median nanoseconds a call of each, over 31 batches in turns, so that what disturbs one disturbs all.
template <std::size_t Count, typename Work>
std::array<double, Count> nanoseconds(const std::array<Work, Count>& works) {
  constexpr int kBatches = 31, kCalls = 20000;
  std::array<std::vector<double>, Count> batches;
  for (int batch = 0; batch < kBatches; ++batch)
    for (std::size_t at = 0; at < Count; ++at) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) benchmark::DoNotOptimize(works[at]());
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
      batches[at].push_back(took.count() / kCalls);
    }
  std::array<double, Count> medians{};
  for (std::size_t at = 0; at < Count; ++at) {
    std::nth_element(batches[at].begin(), batches[at].begin() + kBatches / 2, batches[at].end());
    medians[at] = batches[at][kBatches / 2];
  }
  return medians;
}

// 0: within the bound.
int compare() {
  if (!setting().ready()) {
    std::fprintf(stderr, "the session could not be made ready\n");
    return 1;
  }
  const std::size_t before = allocations;
  bool good = true;
  for (const Caller caller : {Caller::kPlain, Caller::kOfAnOlderHeader, Caller::kAppending})
    for (int i = 0; i < 1000; ++i) good = good && setting().run(caller).ok();
  const std::size_t allocated = allocations - before;
  using Timed = bool (*)();
  const auto [bare, plain, older, appending] = nanoseconds(
      std::array<Timed, 4>{[] { return setting().launch().ok(); }, [] { return setting().run(Caller::kPlain).ok(); },
                           [] { return setting().run(Caller::kOfAnOlderHeader).ok(); },
                           [] { return setting().run(Caller::kAppending).ok(); }});
  std::printf(
      "bare launch %.1f ns, hit %.1f ns: gqa_run adds %.1f ns (at most %.0f) and %zu allocations (none) a call\n"
      "a caller of an older header: %.1f ns more; an appending decode: %.1f ns more (at most %.0f)\n",
      bare, plain, plain - bare, kMostNanoseconds, allocated / 3000, older - plain, appending - plain,
      (kMostAppending - 1) * plain);
  return good && allocated == 0 && plain - bare <= kMostNanoseconds && appending <= kMostAppending * plain ? 0 : 1;
}

// The device that compiles for the first GPU; null if there is none.
std::unique_ptr<Device> gpu() {
  using bench::RecordedDriver;
  std::unique_ptr<Device> device;
  const Status status = open_cuda_device(0, "", &device);
  Status loaded;
  if (status.ok()) RecordedDriver::driver = *Driver::get(&loaded);
  if (!status.ok()) {
    std::printf("no GPU (%s): launches are calls of a driver that does nothing\n", status.message().c_str());
    RecordedDriver::driver = bench::empty_driver();
  }
  RecordedDriver::launch = RecordedDriver::driver.cuLaunchKernel;
  RecordedDriver::launch_ex = RecordedDriver::driver.cuLaunchKernelEx;
  return device;
}

// True if the family is within the bound, or not for this GPU.
bool compare_family(const bench::MeasuredFamily& family, const Device* compiler) {
  Candidate candidate;
  if (!parse(family.candidate, &candidate).ok()) return false;
  if (compiler != nullptr && name(candidate) == "warpgroup" && compiler->spec().arch != "sm_90a") {
    std::printf("%-10s not on %s\n", family.name, compiler->spec().arch.c_str());
    return true;
  }
  bench::FamilyLaunches launches;
  bench::CallTimes times;
  if (const Status status = launches.prepare(family, compiler); !status.ok()) {
    std::fprintf(stderr, "%s: %s\n", family.name, status.message().c_str());
    return false;
  }
  const std::size_t before = allocations;
  bool good = true;
  for (std::size_t set = 0; set < bench::kSets; ++set) good = launches.run(set).ok() && good;
  const std::size_t allocated = allocations - before;
  good = time_calls(&launches, &times) && good;
  const double above = times.hit - times.ready;
  const double most = compiler != nullptr ? kMostAboveLaunch : kMostEmptyLaunches * times.ready;
  std::printf("%-10s launch %7.1f ns, hit %7.1f ns: %6.1f ns above it (at most %.0f), %zu allocations (none)%s\n",
              family.name, times.ready, times.hit, above, most, allocated, good ? "" : ", and something failed");
  return good && allocated == 0 && above <= most;
}

int compare_families() {
  const std::unique_ptr<Device> compiler = gpu();
  std::printf("over %zu sets of tensors, medians:\n", bench::kSets);
  bool good = true;
  for (const bench::MeasuredFamily& family : bench::kFamilies) good = compare_family(family, compiler.get()) && good;
  return good ? 0 : 1;
}

int compare_all() {
  const int host = compare(), families = compare_families();
  return host != 0 ? host : families;
}

}  // namespace
}  // namespace gqa

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--check") == 0) return gqa::compare_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return gqa::compare_all();
}
