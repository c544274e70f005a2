// The kernel that merges states, run on the CPU, in its launches' own order, and held against the trial's own cases;
// and faults planted in it, each of which the trial must refuse.
#include <gtest/gtest.h>

#include "runtime/cuda/launch/cuda_merger.h"
#include "runtime/verify/merge_case.h"
#include "tests/simt/kernels/emulated_memory.h"
#include "tests/simt/kernels/judged.h"
#include "tests/simt/kernels/planted.h"

namespace gqa::simt {
namespace {

constexpr const char* kHeader = "merge/merge_states.cuh";

KernelText kernel_text(const std::string& from = "", const std::string& to = "") {
  return {merge_source(), planted(from.empty() ? "" : kHeader, from, to), kMergeEntryPoint};
}

class Emulated final : public LoadedProgram {
 public:
  Emulated(const Kernel& kernel, const Schedule& schedule) : kernel_(kernel), schedule_(schedule) {}
  Status run(const ProgramCall& call) const override {
    for (int next = 0; next < call.merge->count;) {
      MergeParams params = next_merge(*call.merge, &next);
      void* arguments[] = {&params};
      const Launch launch = {{merge_blocks(params), 1, 1}, {kMergeThreads, 1, 1}, 0, arguments};
      if (const Status status = kernel_.launch(launch, schedule_); !status.ok()) return status;
    }
    return {};
  }

 private:
  const Kernel& kernel_;
  const Schedule& schedule_;
};

// Whether the kernel merges such a case rightly, under a schedule.
::testing::AssertionResult merges(const Kernel& kernel, const MergeSizes& sizes, const Schedule& schedule = {}) {
  MergeCase one(sizes);
  EmulatedMemory memory;
  const Verdict verdict = verify(&one, Emulated(kernel, schedule), &memory);
  return verdict.passed ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << verdict.reason;
}

class MergeStates : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = unavailable()) GTEST_SKIP() << why;
  }
  // True where some case shows the fault.
  static bool seen(const std::string& from, const std::string& to) {
    return !judged(kernel_text(from, to), [](const Kernel& kernel) {
      for (const MergeSizes& sizes : merge_sizes())
        if (auto right = merges(kernel, sizes); !right) return right;
      return ::testing::AssertionSuccess();
    });
  }
};

TEST_F(MergeStates, MergesAsFloat64Does) {
  EXPECT_TRUE(judged_whole(kernel_text(), [](const Kernel& kernel) {
    for (const MergeSizes& sizes : merge_sizes())
      for (const Schedule& schedule : schedules()) EXPECT_TRUE(merges(kernel, sizes, schedule));
  }));
}

TEST_F(MergeStates, ALaunchTakesAsManyPartsAsItsArgumentHolds) {
  for (const auto& [count, launches] : {std::pair(1, 1), {32, 1}, {33, 2}, {63, 2}, {64, 3}, {94, 3}, {95, 4}}) {
    MergeCase t({ElementType::kF16, count, 1, 1, 1, 8, 0});
    EmulatedMemory memory;
    ASSERT_TRUE(t.place(&memory).ok());
    int next = 0, counted = 0;
    for (; next < count; ++counted) {
      const MergeParams params = next_merge(t.call(), &next);
      EXPECT_LE(params.count, kMergeParts);
      EXPECT_EQ(params.parts[0].out, counted == 0 ? t.call().parts[0].out : t.call().merged.out);
    }
    EXPECT_EQ(launches, counted) << count;
  }
}

TEST_F(MergeStates, ALostPartIsSeen) {
  EXPECT_TRUE(seen("for (int i = 0; i < p.count; ++i) {\n      const MergePart",
                   "for (int i = 1; i < p.count; ++i) {\n      const MergePart"));
  EXPECT_TRUE(seen("for (int i = 0; i < p.count; ++i) sum", "for (int i = 0; i + 1 < p.count; ++i) sum"));
}

TEST_F(MergeStates, AMaximumNotTakenIsSeen) {
  EXPECT_TRUE(seen("maximum = fmaxf(maximum, row.lse(p.parts[i]))", "maximum = row.lse(p.parts[0])"));
  EXPECT_TRUE(seen("maximum + logf(sum)", "logf(sum)"));
}

TEST_F(MergeStates, AnEmptyPartThatIsReadIsSeen) {
  EXPECT_TRUE(seen("if (lse == negative_infinity()) continue;", ""));
  EXPECT_TRUE(seen("lse == negative_infinity() ? 0.f : ", ""));
  EXPECT_TRUE(seen("lse == -negative_infinity() ? negative_infinity() : lse", "lse"));
}

// Weights that are divided by their sum at the end only add up to infinity.
TEST_F(MergeStates, AShareTakenTooLateIsSeen) {
  EXPECT_TRUE(
      seen("sums[d] = fmaf(weight, x[d], sums[d])", "sums[d] = fmaf(weight / share, x[d], sums[d] / share) * share"));
}

TEST_F(MergeStates, AnotherPartsStridesAreSeen) {
  EXPECT_TRUE(seen("row.offset(part.out_strides)", "row.offset(p.merged.out_strides)"));
  EXPECT_TRUE(seen("part.lse + offset(part.lse_strides)", "part.lse + offset(part.out_strides)"));
}

TEST_F(MergeStates, AnElementPastARowIsSeen) {
  EXPECT_TRUE(seen("if (i < count) to[i]", "to[i]"));
  EXPECT_TRUE(seen("i < count ? Element::to_float(from[i]) : 0.f", "Element::to_float(from[i])"));
}

TEST_F(MergeStates, ARowThatDoesNotExistIsSeen) {
  EXPECT_TRUE(seen("const bool exists = number < p.rows;", "const bool exists = true;"));
}

// Where the merged state is a part: its lse is read by all lanes before one writes it.
TEST_F(MergeStates, ALseWrittenTooEarlyIsSeen) {
  EXPECT_TRUE(seen("  if (exists && type == ElementType::kF32) merge",
                   "  if (exists && lane == 0) *row.lse_at(p.merged) = weights.lse();\n  __syncwarp();\n"
                   "  if (exists && type == ElementType::kF32) merge"));
}

}  // namespace
}  // namespace gqa::simt
