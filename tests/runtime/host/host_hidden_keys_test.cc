// NaN and infinities in keys and values outside the windows of all rows never show in what the host's kernels compute,
// for every instruction set that runs here.
#include <gtest/gtest.h>

#include "runtime/host/attention/host_kernel.h"
#include "tests/runtime/hidden_keys_case.h"
#include "tests/search/from_text.h"

namespace gqa {
namespace {

TEST(HostHiddenKeys, NeverShow) {
  for (const char* problem : test::kHidingProblems)
    for (const char* candidate :
         {"flash m=32 n=32 warps=1 stages=1 pack=1", "split m=32 n=32 warps=1 stages=1 pack=2 splits=3"})
      for (const TileKernels* kernels : usable_tile_kernels()) {
        test::AttentionCase t(test::problem_of(problem));
        test::poison_hidden_keys(&t);
        ASSERT_TRUE(HostKernel(gqa::candidate_of(candidate), 2, *kernels).run(t.call).ok());
        EXPECT_TRUE(test::matches_float64(t)) << kernels->name << " " << candidate << " " << problem;
      }
}

}  // namespace
}  // namespace gqa
