// Reading the assembler's report.

#include "jit/ptxas_log.h"

#include <gtest/gtest.h>

namespace gqa {
namespace {

TEST(PtxasLog, ReadsRegistersSpillsAndSharedMemory) {
  const PtxasReport report = read_ptxas_report(
      "ptxas info    : Compiling entry function 'f' for 'sm_90a'\n"
      "ptxas         .     32 bytes stack frame, 44 bytes spill stores, 48 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 3072 bytes smem\n");
  EXPECT_EQ(255, report.registers);
  EXPECT_EQ(44, report.spill_bytes);
  EXPECT_EQ(3072, report.static_smem);
}

TEST(PtxasLog, TakesTheLargestOfSeveralKernels) {
  const PtxasReport report = read_ptxas_report("Used 12 registers\nUsed 99 registers\nUsed 40 registers\n");
  EXPECT_EQ(99, report.registers);
  EXPECT_EQ(0, report.spill_bytes);
}

TEST(PtxasLog, EmptyLogIsZero) { EXPECT_EQ(0, read_ptxas_report("").registers); }

TEST(PtxasLog, FirstErrorLine) {
  EXPECT_EQ("a.cu(3): error: no", first_error("note\na.cu(3): error: no\nmore error\n", "fallback"));
  EXPECT_EQ("error: only", first_error("error: only", "fallback"));
  EXPECT_EQ("fallback", first_error("all well", "fallback"));
}

}  // namespace
}  // namespace gqa
