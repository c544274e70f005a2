// Every arithmetic of the space, forced by name, is as exact as FlashAttention-2: beside float64, the norm of its error
// is at most 1.15 of the stand-in's, the largest error of an element 1.6 of it, the medians of five seeds. Log-sum-exp,
// where a candidate gives it, is within 1e-6 of float64's or 2e-6, at deviations of 1 and 2. Prints what it measured.
// Skipped by name where there is no GPU. GQA_FULL_RUN: all cases of accuracy_cases.h; GQA_ACCURACY="d=64 dtype=bf16
// deviation=4": of them only those that have all these words.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

#include "jit/device/check/check_params.h"
#include "runtime/cuda/driver/module.h"
#include "runtime/cuda/launch/cuda_kernel.h"
#include "search/families/arithmetic.h"
#include "tests/accuracy_cases.h"
#include "tests/runtime/cuda/accuracy_kernels.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

using test::AccuracyCase;

constexpr int kSeeds = 5;
constexpr std::int64_t kRows = 1024;  // that are compared
constexpr double kMostNorm = 1.15, kMostWorst = 1.6;
constexpr double kMostFloat32Norm = 1.5;   // of float32, to the formula in float32
constexpr int kMostOrdinaryDeviation = 2;  // of inputs whose log-sum-exp is judged

// Errors of one run, or ratios of two: the error's norm, its largest element, and log-sum-exp's share of what it may
// be.
struct Errors {
  double norm = 0, worst = 0, lse = 0;
};

Errors medians(std::array<Errors, kSeeds> seeds) {
  Errors found;
  for (double Errors::*const one : {&Errors::norm, &Errors::worst, &Errors::lse}) {
    std::sort(seeds.begin(), seeds.end(), [&](const Errors& a, const Errors& b) { return a.*one < b.*one; });
    found.*one = seeds[kSeeds / 2].*one;
  }
  return found;
}

// Whether GQA_ACCURACY leaves the case in.
bool is_wanted(const std::string& text) {
  const char* const words = std::getenv("GQA_ACCURACY");
  std::istringstream in(words == nullptr ? "" : words);
  for (std::string word; in >> word;)
    if (("," + text + ",").find("," + word + ",") == std::string::npos) return false;
  return true;
}

std::string text_of(const Problem& problem, int deviation) {
  return to_text(problem) + ",deviation=" + std::to_string(deviation);
}

// Device memory of the test's own.
class DeviceBuffer {
 public:
  DeviceBuffer(const Driver& driver, std::int64_t bytes) : driver_(driver) {
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&address_, static_cast<std::size_t>(bytes) + 16));
  }
  template <typename Element>
  DeviceBuffer(const Driver& driver, const std::vector<Element>& values)
      : DeviceBuffer(driver, static_cast<std::int64_t>(values.size() * sizeof(Element))) {
    driver_.cuMemcpyHtoDAsync(address_, values.data(), values.size() * sizeof(Element), nullptr);
    driver_.cuStreamSynchronize(nullptr);
  }
  ~DeviceBuffer() { driver_.cuMemFree(address_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  CUdeviceptr address() const { return address_; }
  template <typename Element>
  Element* as() const {
    return reinterpret_cast<Element*>(address_);
  }

 private:
  const Driver& driver_;
  CUdeviceptr address_ = 0;
};

// One problem on the device: its tensors, as compact as they can be, and what is compared.
struct DeviceCase {
  DeviceCase(const Driver& driver, const Problem& p)
      : q_size(std::int64_t{p.batch} * p.q_len * p.q_heads * p.head_dim),
        k_size(std::int64_t{p.batch} * p.kv_len * p.kv_heads * p.head_dim),
        v_size(std::int64_t{p.batch} * p.kv_len * p.kv_heads * p.head_dim_v),
        all_rows(std::int64_t{p.batch} * p.q_len * p.q_heads),
        numbers(row_numbers(all_rows)),
        q(driver, element_bytes(p.q_type) * q_size),
        k(driver, element_bytes(p.q_type) * k_size),
        v(driver, element_bytes(p.q_type) * v_size),
        out(driver, element_bytes(p.q_type) * all_rows * p.head_dim_v),
        lse(driver, 4 * all_rows),
        lengths(driver, verification_lists(p, 3).lengths),
        rows(driver, numbers),
        exact(driver, 8 * count() * p.head_dim_v),
        exact_lse(driver, 8 * count()),
        stand_in(driver, element_bytes(p.q_type) * count() * p.head_dim_v),
        errors(driver, 24 * count()) {
    call.problem = p;
    call.place(Role::kQ, q.as<void>());
    call.place(Role::kK, k.as<void>());
    call.place(Role::kV, v.as<void>());
    call.place(Role::kOut, out.as<void>());
    call.strides(Role::kQ) = strides(p.q_len, p.q_heads, p.head_dim);
    call.strides(Role::kK) = strides(p.kv_len, p.kv_heads, p.head_dim);
    call.strides(Role::kV) = strides(p.kv_len, p.kv_heads, p.head_dim_v);
    call.strides(Role::kOut) = strides(p.q_len, p.q_heads, p.head_dim_v);
    if (p.lengths_differ()) call.place(Role::kKvLengths, lengths.as<std::int32_t>());
    call.strides(Role::kLse).batch = std::int64_t{p.q_heads} * p.q_len;
    call.strides(Role::kLse).head = p.q_len;
    call.strides(Role::kLse).row = 1;
    call.scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
    check.rows = rows.as<long long>();
    check.scale = call.scale;
    check.head_dim = p.head_dim;
    check.head_dim_v = p.head_dim_v;
    check.causal = p.causal();
    check.type = static_cast<int>(p.q_type);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(numbers.size()); }
  static Strides strides(std::int64_t length, std::int64_t heads, std::int64_t dim) {
    return {length * heads * dim, heads * dim, dim};
  }
  // Spread evenly, by a step that is odd, so that places in a tile differ.
  static std::vector<long long> row_numbers(std::int64_t all) {
    const std::int64_t step = std::max<std::int64_t>(1, all / kRows) | 1;
    std::vector<long long> made;
    for (std::int64_t row = 0; row < all; row += step) made.push_back(row);
    return made;
  }

  std::int64_t q_size, k_size, v_size, all_rows;
  std::vector<long long> numbers;
  DeviceBuffer q, k, v, out, lse, lengths, rows, exact, exact_lse, stand_in, errors;
  Call call;
  CheckParams check{};
};

// A candidate to be measured on a problem.
struct Forced {
  std::string arithmetic;
  Candidate candidate;
  std::size_t source = 0;
  std::unique_ptr<LoadedProgram> kernel;
  std::array<Errors, kSeeds> ratios;
};

struct ForcedProblem {
  Problem problem;
  std::vector<int> deviations;
  std::vector<Forced> forced;
};

class AccuracyGpu : public test::CudaGpu {
 protected:
  void SetUp() override {
    CudaGpu::SetUp();
    if (IsSkipped()) return;
    Binary binary;
    Status status = device_->compile({test::kAccuracySource, "check", "check", "accuracy", ""}, &binary);
    ASSERT_TRUE(status.ok()) << status.message();
    status = Module::load(*driver_, binary.cubin, binary.ptx, &module_);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(module_.function("gqa_normal", 0, &normal_).ok());
    ASSERT_TRUE(module_.function("gqa_exact", 0, &exact_).ok());
    ASSERT_TRUE(module_.function("gqa_row_errors", 0, &row_errors_).ok());
  }
  void TearDown() override {
    module_ = Module();
    CudaGpu::TearDown();
  }

  void measure(const std::vector<AccuracyCase>& cases) {
    std::vector<ForcedProblem> problems = forced_problems(cases);
    compile(&problems);
    for (ForcedProblem& one : problems) {
      for (Forced& forced : one.forced) load_forced(one.problem, &forced);
      DeviceCase on_device(*driver_, one.problem);
      for (const int deviation : one.deviations) measure_deviation(deviation, &one, &on_device);
      one.forced.clear();
    }
    print_summary();
  }

 private:
  std::vector<ForcedProblem> forced_problems(const std::vector<AccuracyCase>& cases) {
    std::vector<ForcedProblem> problems;
    for (const AccuracyCase& one : cases) {
      ForcedProblem made;
      EXPECT_TRUE(parse(one.problem, &made.problem).ok()) << one.problem;
      for (const int deviation : one.deviations)
        if (is_wanted(text_of(made.problem, deviation))) made.deviations.push_back(deviation);
      if (made.deviations.empty()) continue;
      for (ArithmeticExample& example : arithmetic_examples(enumerate(made.problem, device_->spec())))
        made.forced.push_back({example.arithmetic, example.candidate, 0, nullptr, {}});
      EXPECT_FALSE(made.forced.empty()) << one.problem;
      problems.push_back(std::move(made));
    }
    return problems;
  }

  // All kernels of all problems, each once, on all cores.
  void compile(std::vector<ForcedProblem>* problems) {
    std::vector<Source> sources;
    std::map<std::string, std::size_t> known;
    for (ForcedProblem& one : *problems)
      for (Forced& forced : one.forced) {
        Source source = program_of(one.problem, forced.candidate, DeviceKind::kCuda).sources.front();
        const auto [at, fresh] = known.try_emplace(source.text, sources.size());
        forced.source = at->second;
        if (fresh) sources.push_back(std::move(source));
      }
    std::printf("%zu problems, %zu kernels\n", problems->size(), sources.size());
    binaries_.resize(sources.size());
    CompilePool compile_pool(*device_, test::kernel_store(), /*threads=*/0);
    const auto batch = compile_pool.make(std::move(sources), [] { return true; });
    const Effort unlimited(1e6);
    while (auto made = batch->next(unlimited)) {
      EXPECT_TRUE(made->status.ok()) << made->status.message();
      binaries_[made->index] = std::move(made->binary);
    }
  }

  void load_forced(const Problem& problem, Forced* forced) {
    const Status status = load(problem, forced->candidate, binaries_[forced->source], &forced->kernel);
    EXPECT_TRUE(status.ok()) << to_text(problem) << " | " << to_text(forced->candidate) << ": " << status.message();
  }

  void launch(CUfunction function, std::int64_t blocks, unsigned threads, void** arguments) {
    ASSERT_EQ(CUDA_SUCCESS, driver_->cuLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1, threads, 1, 1, 0,
                                                    nullptr, arguments, nullptr));
  }

  void fill(const DeviceBuffer& buffer, long long count, unsigned long long seed, float deviation, int type) {
    CUdeviceptr address = buffer.address();
    void* arguments[] = {&address, &count, &seed, &deviation, &type};
    launch(normal_, 2048, 256, arguments);
  }

  void make_exact(DeviceCase* c) {
    AttentionParams params = params_of(c->call, Candidate());
    CacheParams cache = cache_params_of(c->call);
    double *out = c->exact.as<double>(), *lse = c->exact_lse.as<double>();
    void* stand_in = c->stand_in.as<void>();
    void* arguments[] = {&params, &c->check, &cache, &out, &lse, &stand_in};
    launch(exact_, c->count(), 128, arguments);
  }

  // Errors of what out holds, or else of the stand-in.
  Errors errors_of(const Call& call, DeviceCase* c, bool of_stand_in) {
    AttentionParams params = params_of(call, Candidate());
    double *out = c->exact.as<double>(), *lse = c->exact_lse.as<double>(), *errors = c->errors.as<double>();
    void* stand_in = of_stand_in ? c->stand_in.as<void>() : nullptr;
    void* arguments[] = {&params, &c->check, &out, &lse, &stand_in, &errors};
    launch(row_errors_, c->count(), 128, arguments);
    std::vector<double> rows(static_cast<std::size_t>(3 * c->count()));
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuMemcpyDtoHAsync(rows.data(), c->errors.address(), 8 * rows.size(), nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_->cuStreamSynchronize(nullptr));
    Errors found;
    for (std::size_t row = 0; row < rows.size(); row += 3) {
      found.norm += rows[row];
      found.worst = std::max(found.worst, rows[row + 1]);
      found.lse = std::max(found.lse, rows[row + 2]);
    }
    found.norm = std::sqrt(found.norm);
    return found;
  }

  void measure_deviation(int deviation, ForcedProblem* one, DeviceCase* c) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      const unsigned long long first = 100ULL * static_cast<unsigned>(deviation) + 10ULL * static_cast<unsigned>(seed);
      fill(c->q, c->q_size, first + 1, static_cast<float>(deviation), c->check.type);
      fill(c->k, c->k_size, first + 2, 1, c->check.type);
      fill(c->v, c->v_size, first + 3, 1, c->check.type);
      make_exact(c);
      const Errors allowed = errors_of(c->call, c, true);
      for (Forced& forced : one->forced) {
        if (forced.kernel == nullptr) continue;
        const Errors found = run(forced, c);
        forced.ratios[static_cast<std::size_t>(seed)] = {found.norm / allowed.norm, found.worst / allowed.worst,
                                                         found.lse};
      }
    }
    for (const Forced& forced : one->forced)
      if (forced.kernel != nullptr) judge(text_of(one->problem, deviation), forced, one->problem, deviation);
  }

  // On poisoned outputs. Log-sum-exp is asked of who gives it: the same kernel then writes it.
  Errors run(const Forced& forced, DeviceCase* c) {
    Call call = c->call;
    call.problem.lse = true;
    if (reject_reason(call.problem, forced.candidate, device_->spec()).empty())
      call.place(Role::kLse, c->lse.as<float>());
    else
      call.problem.lse = false;
    driver_->cuMemsetD8Async(
        c->out.address(), 0xff,
        static_cast<std::size_t>(element_bytes(call.problem.q_type) * c->all_rows * call.problem.head_dim_v), nullptr);
    driver_->cuMemsetD8Async(c->lse.address(), 0xff, static_cast<std::size_t>(4 * c->all_rows), nullptr);
    const Status status = forced.kernel->run(call);
    EXPECT_TRUE(status.ok()) << to_text(forced.candidate) << ": " << status.message();
    return errors_of(call, c, false);
  }

  void judge(const std::string& text, const Forced& forced, const Problem& p, int deviation) {
    const Errors found = medians(forced.ratios);
    const bool fine = found.norm <= (p.q_type == ElementType::kF32 ? kMostFloat32Norm : kMostNorm) &&
                      found.worst <= kMostWorst && (found.lse <= 1 || deviation > kMostOrdinaryDeviation);
    char line[160];
    std::snprintf(line, sizeof line, "%6.3f %6.3f %8.3f %s", found.norm, found.worst, found.lse, fine ? " " : "!");
    std::printf("%s  %s | %s\n", line, text.c_str(), to_text(forced.candidate).c_str());
    EXPECT_TRUE(fine) << line << " " << text << " | " << to_text(forced.candidate);
    Errors& most = most_[std::string(name(p.q_type)) + (p.causal() ? " causal" : " all   ") + " deviation " +
                         std::to_string(deviation) + " | " + forced.arithmetic];
    most = {std::max(most.norm, found.norm), std::max(most.worst, found.worst), std::max(most.lse, found.lse)};
  }

  void print_summary() const {
    std::printf(
        "The most of each arithmetic: error's norm and largest error, to FlashAttention-2's; lse, to what it may be\n");
    for (const auto& [what, most] : most_)
      std::printf("= %6.3f %6.3f %8.3f  %s\n", most.norm, most.worst, most.lse, what.c_str());
    std::fflush(stdout);
  }

  Module module_;
  CUfunction normal_ = nullptr, exact_ = nullptr, row_errors_ = nullptr;
  std::vector<Binary> binaries_;
  std::map<std::string, Errors> most_;
};

TEST_F(AccuracyGpu, HeadDim64) { measure(test::prefill_cases(64, test::full_run())); }
TEST_F(AccuracyGpu, HeadDim128) { measure(test::prefill_cases(128, test::full_run())); }
TEST_F(AccuracyGpu, HeadDim256) { measure(test::prefill_cases(256, test::full_run())); }
TEST_F(AccuracyGpu, OtherHeadDims) { measure(test::other_head_dim_cases(test::full_run())); }
TEST_F(AccuracyGpu, Float32) { measure(test::float32_cases(test::full_run())); }
TEST_F(AccuracyGpu, LongCaches) { measure(test::cached_cases(test::full_run())); }

}  // namespace
}  // namespace gqa
