// kernel.h: a generated CUDA kernel, compiled for the CPU and run there: its numbers, its bounds and its barriers
// judged without a GPU.
// Owns: a kernel loaded from what kernel_store.h compiled, and its launches.
// Never: times anything: the numbers are a GPU's, the speed is not.
// Threads: one launch at a time, on the calling thread.
//
//   if (const char* why = simt::unavailable()) GTEST_SKIP() << why;
//   std::string why;
//   const auto kernel = simt::Kernel::compile(source, "gqa_attention", &why);
//   ASSERT_NE(nullptr, kernel) << why;
//   simt::Buffer in("in", values), out("out", bytes);      // pages that fault around them; out begins as NaN
//   Params params = {in.data(), out.data()};
//   void* arguments[] = {&params};                         // as for cuLaunchKernel
//   for (const simt::Schedule& schedule : simt::schedules()) {
//     const Status status = kernel->launch({{grid, 1, 1}, {threads, 1, 1}, dynamic_shared, arguments}, schedule);
//     ASSERT_TRUE(status.ok()) << status.message();        // what went wrong, in which thread, at which line
//     ... compare out.values<float>(), the same bits under every schedule; out.poison() before the next
//   }
//
// An error of launch() is one of: a race in shared memory (race.h), a fault (memory outside every Buffer, misaligned
// vectors, an index outside an array), a guard overwritten, a divergent barrier or warp function, a deadlock, an
// instruction that the emulator does not know (give it a line in ptx_*.cc), shared memory outside dynamic_shared.
//
// Launch::cluster CTAs, where it is not 1, run together as a Hopper cluster: one may run far ahead of the others, their
// multicasts land in each apart, and a CTA whose threads have all ended has no shared memory any more. An error is then
// also: a rank or a mask outside the cluster, a use of a CTA that has ended or of a barrier there that no
// barrier.cluster showed, a load that lands in an ended CTA. Copies by cp.async happen at the wait that covers them
// (Copies::kLate) or at once (kEarly), and blocks and warps run in several orders: a result that differs between the
// schedules is a race, too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/embedded.h"
#include "search/status.h"
#include "tests/simt/emulator/buffer.h"
#include "tests/simt/emulator/emulator.h"

namespace gqa::simt {

// Why no kernel can run here (no compiler, a sanitizer that knows no fibers), or null.
const char* unavailable();

// Different enough that races show.
const std::vector<Schedule>& schedules();
// And with the other CTA of a cluster ahead, or loads that land the other way.
const std::vector<Schedule>& cluster_schedules();

class Kernel {
 public:
  // `entry`: the extern "C" __global__ function. Null and the compiler's words, where it does not compile.
  static std::unique_ptr<Kernel> compile(const std::string& source, const std::string& entry, std::string* why,
                                         const std::vector<EmbeddedHeader>& headers = embedded_headers());
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  Status launch(const Launch& launch, const Schedule& schedule = {}) const;

 private:
  Kernel() = default;

  void* library_ = nullptr;
  Binding binding_{};
};

}  // namespace gqa::simt
