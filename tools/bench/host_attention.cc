// host_attention.cc: attention on the host device, as a caller meets it: gqa's session, tuned, inputs in memory.
// Owns: Llama-8B's prefill at 1k and a decode step. host_vs_torch.py runs it beside PyTorch.
// Never: verifies; the tuner did, before a candidate was timed.
// Threads: the device's; --threads=N, else all that this process may use.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/element.h"
#include "runtime/session/session.h"

namespace gqa {
namespace {

std::unique_ptr<Session> open_session(int threads) {
  std::unique_ptr<Device> device;
  if (const Status status = open_host_device(threads, &device); !status.ok()) return nullptr;
  cache::Store::Options off;
  off.mode = cache::Mode::kOff;
  return std::make_unique<Session>(std::move(device), cache::Store::open(off), SessionOptions());
}

// A call on compact tensors of its own.
struct Inputs {
  explicit Inputs(const Problem& p) {
    fill(&q, p.q_len, p.q_heads, p.head_dim, p, &call.strides(Role::kQ));
    fill(&k, p.kv_len, p.kv_heads, p.head_dim, p, &call.strides(Role::kK));
    fill(&v, p.kv_len, p.kv_heads, p.head_dim_v, p, &call.strides(Role::kV));
    fill(&out, p.q_len, p.q_heads, p.head_dim_v, p, &call.strides(Role::kOut));
    call.place(Role::kQ, q.data());
    call.place(Role::kK, k.data());
    call.place(Role::kV, v.data());
    call.place(Role::kOut, out.data());
    call.scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
    call.problem = p;
  }

  void fill(std::vector<std::uint16_t>* data, std::int64_t length, std::int64_t heads, std::int64_t dim,
            const Problem& p, Strides* strides) {
    data->resize(static_cast<std::size_t>(p.batch * length * heads * dim));
    for (std::uint16_t& bits : *data) bits = store(p.q_type, normal(random));
    *strides = {length * heads * dim, heads * dim, dim};
  }

  std::mt19937 random{1};
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> q, k, v, out;
  Call call;
};

// One shape, made ready at its first run: the benchmark library calls a benchmark several times.
struct Shape {
  std::string name, text;
  Problem problem;
  ReadyResult readied;
  bool ready = false;

  Status make_ready(Session& session) {
    if (ready) return {};
    if (Status status = parse(text, &problem); !status.ok()) return status;
    const Status status = session.ready(problem, &readied);
    ready = status.ok();
    return status;
  }
};

void attention(benchmark::State& state, Session& session, Shape& shape) {
  Status status = shape.make_ready(session);
  if (!status.ok()) return state.SkipWithError(status.message().c_str());
  Inputs inputs(shape.problem);
  for (auto _ : state)
    if (status = session.run(inputs.call); !status.ok()) return state.SkipWithError(status.message().c_str());
  const DeviceSpec& spec = session.device().spec();
  state.SetLabel(spec.arch + " threads=" + std::to_string(spec.sms) + " " + shape.readied.ready->winner.candidate);
  state.counters["FLOP/s"] = benchmark::Counter(flops(shape.problem), benchmark::Counter::kIsIterationInvariantRate);
}

int threads_of(int* argc, char** argv) {
  int threads = 0, kept = 1;
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0)
      threads = std::atoi(argv[i] + 10);
    else
      argv[kept++] = argv[i];
  }
  *argc = kept;
  return threads;
}

int run(int argc, char** argv) {
  const auto session = open_session(threads_of(&argc, argv));
  if (!session) return 1;
  Shape shapes[] = {{"prefill_1k_causal", "b=1,hq=32,hk=8,sq=1024,d=128,dtype=bf16,causal", {}, {}, false},
                    {"prefill_1k_full", "b=1,hq=32,hk=8,sq=1024,d=128,dtype=bf16", {}, {}, false},
                    {"decode_8k", "b=1,hq=32,hk=8,sq=1,sk=8192,d=128,dtype=bf16", {}, {}, false}};
  for (Shape& shape : shapes)
    benchmark::RegisterBenchmark(shape.name.c_str(),
                                 [&](benchmark::State& state) { attention(state, *session, shape); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace gqa

int main(int argc, char** argv) { return gqa::run(argc, argv); }
