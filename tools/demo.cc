// demo.cc: gqa-demo, one process of tools/demo: answers one call and prints how long each step took.
// Owns: the call's tensors, the rows it prints. A process that finds a new cache file shows a cold call; a second one,
// given the same file, shows what a cache hit costs. With --arch it compiles for a GPU that is not here.
// Never: tunes or verifies by itself; the session and the device's trial do.
// Threads: one; the library uses its own.
#include <dlpack/dlpack.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/driver/context.h"
#include "runtime/cuda/driver/memory.h"
#include "runtime/session/session.h"
#include "runtime/tuner/compile_pool.h"
#include "runtime/workload/attention_workload.h"
#include "runtime/workload/keys.h"

namespace gqa {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Arguments {
  std::string cache, device = "auto", shape, arch;
};

// ---- printing

std::string text_of(double seconds) {
  char text[32];
  if (seconds >= 1) {
    std::snprintf(text, sizeof text, "%.2f s", seconds);
  } else if (seconds >= 1e-3) {
    std::snprintf(text, sizeof text, "%.2f ms", 1e3 * seconds);
  } else {
    std::snprintf(text, sizeof text, "%.1f us", 1e6 * seconds);
  }
  return text;
}

void row(const char* name, const std::string& value, const std::string& note = "") {
  std::printf("  %-13s%12s%s%s\n", name, value.c_str(), note.empty() ? "" : "  ", note.c_str());
  std::fflush(stdout);
}

void row(const char* name, double seconds, const std::string& note = "") { row(name, text_of(seconds), note); }

[[noreturn]] void fail(const Status& status) {
  std::fprintf(stderr, "gqa-demo: %s\n", status.message().c_str());
  std::exit(1);
}

void must(const Status& status) {
  if (!status.ok()) fail(status);
}

// ---- the call's tensors

// On a GPU, its primary context, current until the end of the scope: what cudaSetDevice does for a caller's own memory.
class CurrentDevice {
 public:
  explicit CurrentDevice(const Device& device) {
    if (device.spec().kind != DeviceKind::kCuda) return;
    Status status;
    const Driver* driver = Driver::get(&status);
    must(status);
    CUdevice ordinal = 0;
    while (!device.owns(kDLCUDA, ordinal)) ++ordinal;
    must(Context::retain(*driver, ordinal, &context_));
    current_.emplace(context_);
  }

 private:
  Context context_;
  std::optional<Current> current_;
};

// Memory of the device that computes.
class Buffer {
 public:
  static Buffer make(const Device& device, std::size_t count) {
    Buffer buffer;
    if (device.spec().kind == DeviceKind::kCuda) {
      Status status;
      buffer.driver_ = Driver::get(&status);
      must(status);
      must(DeviceMemory::allocate(*buffer.driver_, 2 * count, &buffer.on_device_));
    } else {
      buffer.on_host_.resize(count);
    }
    return buffer;
  }

  void* data() { return driver_ != nullptr ? on_device_.as<void>() : on_host_.data(); }

  void fill(std::vector<std::uint16_t> values) {
    if (driver_ == nullptr) {
      on_host_ = std::move(values);
      return;
    }
    const CUresult result = driver_->cuMemcpyHtoDAsync(on_device_.address(), values.data(), 2 * values.size(), nullptr);
    if (result != CUDA_SUCCESS) fail(driver_->error("cuMemcpyHtoDAsync", result));
    wait();
  }

  void wait() const {
    if (driver_ == nullptr) return;
    if (const CUresult result = driver_->cuStreamSynchronize(nullptr); result != CUDA_SUCCESS) {
      fail(driver_->error("cuStreamSynchronize", result));
    }
  }

 private:
  const Driver* driver_ = nullptr;  // null on the host
  DeviceMemory on_device_;
  std::vector<std::uint16_t> on_host_;
};

// Numbers of either sign between 0.5 and 1, the same at every run.
std::vector<std::uint16_t> numbers(ElementType dtype, std::size_t count, unsigned seed) {
  const unsigned mantissa = dtype == ElementType::kBF16 ? 0x7f : 0x3ff;
  const unsigned exponent = dtype == ElementType::kBF16 ? 0x3f00 : 0x3800;
  std::mt19937 random(seed);
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    const unsigned bits = random();
    value = static_cast<std::uint16_t>((bits & 0x8000) | exponent | (bits & mantissa));
  }
  return values;
}

// q, k, v, out and, where it is asked for, lse of one call, compact.
struct Tensors {
  Buffer q, k, v, out, lse;
  Call call;
};

Strides compact(std::int64_t length, std::int64_t heads, std::int64_t dim) {
  return {length * heads * dim, heads * dim, dim};
}

Tensors make_tensors(const Device& device, const Problem& p) {
  const auto count = [&](std::int64_t length, std::int64_t heads, std::int64_t dim) {
    return static_cast<std::size_t>(p.batch * length * heads * dim);
  };
  Tensors tensors{Buffer::make(device, count(p.q_len, p.q_heads, p.head_dim)),
                  Buffer::make(device, count(p.kv_len, p.kv_heads, p.head_dim)),
                  Buffer::make(device, count(p.kv_len, p.kv_heads, p.head_dim_v)),
                  Buffer::make(device, count(p.q_len, p.q_heads, p.head_dim_v)),
                  p.lse ? Buffer::make(device, 2 * count(p.q_len, p.q_heads, 1)) : Buffer(),  // float32
                  {}};
  tensors.q.fill(numbers(p.q_type, count(p.q_len, p.q_heads, p.head_dim), 1));
  tensors.k.fill(numbers(p.q_type, count(p.kv_len, p.kv_heads, p.head_dim), 2));
  tensors.v.fill(numbers(p.q_type, count(p.kv_len, p.kv_heads, p.head_dim_v), 3));
  Call& call = tensors.call;
  call.place(Role::kQ, tensors.q.data());
  call.place(Role::kK, tensors.k.data());
  call.place(Role::kV, tensors.v.data());
  call.place(Role::kOut, tensors.out.data());
  call.strides(Role::kQ) = compact(p.q_len, p.q_heads, p.head_dim);
  call.strides(Role::kK) = compact(p.kv_len, p.kv_heads, p.head_dim);
  call.strides(Role::kV) = compact(p.kv_len, p.kv_heads, p.head_dim_v);
  call.strides(Role::kOut) = compact(p.q_len, p.q_heads, p.head_dim_v);
  call.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
  if (p.lse) {
    call.place(Role::kLse, static_cast<float*>(tensors.lse.data()));
    call.strides(Role::kLse).batch = std::int64_t{p.q_heads} * p.q_len;
    call.strides(Role::kLse).head = p.q_len;
    call.strides(Role::kLse).row = 1;
  }
  call.problem = p;
  return tensors;
}

double answer(Session& session, const Tensors& tensors) {
  const Clock::time_point start = Clock::now();
  must(session.run(tensors.call));
  tensors.out.wait();
  return seconds_since(start);
}

// The median of up to 21 calls, about a second of them.
double usual_answer(Session& session, const Tensors& tensors) {
  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  while (times.empty() || (times.size() < 21 && seconds_since(start) < 1)) times.push_back(answer(session, tensors));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// ---- the steps

// The winner that the cache file now holds, loaded once more and held against the reference in this process.
Verdict verify_kept(Session& session, const Problem& problem) {
  Device& device = session.device();
  const Signature kept(problem);
  const auto winner = session.store().find_winner(winner_key(device, to_text(kept)), device.compiler());
  auto row = winner ? session.store().find_kernel(winner->kernel) : std::nullopt;
  if (!row) fail({Code::kInternal, "the cache file holds no winner for " + to_text(kept) + " after the call"});
  AttentionWorkload workload{kept};
  Program program;
  must(workload.program(winner->candidate, device.spec(), &program));
  std::vector<Binary> binaries(1);
  must(binary_of(*std::move(row), program.sources.front(), &binaries.front()));
  std::unique_ptr<LoadedProgram> loaded;
  must(device.load(program, binaries, &loaded));
  std::unique_ptr<Trial> trial;
  must(compile_and_try(device, workload.reference(), Effort(60), &trial));
  return trial->verify(*loaded);
}

void show_phases(const ReadyResult& readied, const Progress& last) {
  const PhaseTimes& times = readied.times;
  row("search", times.search,
      std::to_string(last.enumerated) + " candidates, " + std::to_string(last.pruned) + " pruned, the best " +
          std::to_string(last.selected) + " kernels taken");
  row("compile", times.compile, std::to_string(last.compiled) + " made; what the tuner waited for them");
  row("verify", times.verify, std::to_string(last.verified) + " agree with the reference");
  row("time", times.time, std::to_string(last.timed) + " timed in turns");
  row("persist", times.persist, "the winner and all that was learnt, one SQLite file");
}

bool show_error(const Verdict& verdict) {
  char error[32], bound[96];
  std::snprintf(error, sizeof error, "%.2f", verdict.error);
  std::snprintf(bound, sizeof bound, "of the naive 16-bit computation's, in a trial just now; %.2f is allowed",
                verdict.bound);
  row("error", error, verdict.passed ? bound : "WRONG: " + verdict.reason);
  return verdict.passed;
}

std::unique_ptr<cache::Store> open_store(const std::string& path) {
  cache::Store::Options options;
  options.path = path;
  return cache::Store::open(options);
}

void warn(bool warning, const std::string& message) {
  if (warning) std::fprintf(stderr, "gqa-demo: %s\n", message.c_str());
}

bool answer_one(const Arguments& arguments, const Problem& problem) {
  const Clock::time_point opening = Clock::now();
  DeviceRequest request;
  request.name = arguments.device;
  std::unique_ptr<Device> opened;
  must(open_device(request, &opened));
  const CurrentDevice current(*opened);
  Progress last;
  SessionOptions options;
  options.log = warn;
  options.progress = [&last](const Progress& progress) { last = progress; };
  Session session(std::move(opened), open_store(arguments.cache), options);
  const double opened_after = seconds_since(opening);
  const DeviceSpec& spec = session.device().spec();
  row("device", spec.kind == DeviceKind::kCuda ? "cuda" : "host", spec.identity());
  row("open", opened_after, "the device and the cache file");

  const Tensors tensors = make_tensors(session.device(), problem);
  ReadyResult readied;
  const Clock::time_point start = Clock::now();
  must(session.ready(problem, &readied));
  if (readied.origin == Origin::kCache) {
    row("look-up", seconds_since(start), "found in the cache file and loaded: no search, no compiler");
  } else {
    show_phases(readied, last);
  }
  answer(session, tensors);
  row("first answer", seconds_since(start), "from the call to its result");
  row("next answers", usual_answer(session, tensors), "the median");
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.2f TFLOP/s in its timing",
                flops(problem) / readied.ready->winner.median_us * 1e-6);
  row("kernel", 1e-6 * readied.ready->winner.median_us, rate + (": " + readied.ready->winner.candidate));
  return show_error(verify_kept(session, problem));
}

bool compile_only(const Arguments& arguments, const Problem& problem) {
  std::unique_ptr<Device> device;
  must(open_compile_only_device(arguments.arch, "", &device));
  const std::unique_ptr<cache::Store> store = open_store(arguments.cache);
  std::vector<Attempt> attempts;
  TunePolicy policy;
  policy.budget_seconds = 60;
  const Clock::time_point start = Clock::now();
  AttentionWorkload workload{Signature(problem)};
  must(precompile(*device, *store, workload, policy, {}, &attempts));
  const double taken = seconds_since(start);
  int made = 0;
  for (const Attempt& attempt : attempts) {
    if (attempt.outcome == "pruned") continue;
    const bool kept = attempt.outcome == "compiled" || attempt.outcome == "in the cache already";
    made += kept;
    row(arguments.arch.c_str(), kept ? "ok" : "no", attempt.name + ": " + attempt.outcome);
  }
  row("in all", taken, std::to_string(made) + " kernels by " + device->compiler());
  return made > 0;
}

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Answers one attention call through a cache file and prints the time of every step.", "gqa-demo");
  app.add_option("cache", arguments.cache, "The cache file; a new one is a cold start")->required();
  app.add_option("--shape", arguments.shape, "e.g. b=1,hq=32,hk=8,sq=1024,sk=1024,d=128,dtype=bf16,causal")->required();
  app.add_option("--device", arguments.device, "auto, cuda, cuda:N or host")->capture_default_str();
  app.add_option("--arch", arguments.arch, "Compile for this architecture only, e.g. sm_90a");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Problem problem;
  if (const Status status = parse(arguments.shape, &problem); !status.ok()) {
    std::fprintf(stderr, "gqa-demo: --shape: %s\n", status.message().c_str());
    return 2;
  }
  return (arguments.arch.empty() ? answer_one(arguments, problem) : compile_only(arguments, problem)) ? 0 : 1;
}

}  // namespace
}  // namespace gqa

// tools/demo calls this one in a wheel's library, without a program (cmake/portable/).
extern "C" __attribute__((visibility("default"))) int gqa_demo_main(int argc, char** argv) {
  return gqa::run(argc, argv);
}

#ifndef GQA_DEMO_WITHOUT_MAIN
int main(int argc, char** argv) { return gqa_demo_main(argc, argv); }
#endif
