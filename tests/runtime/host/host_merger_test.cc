// host_merger_test.cc: states merged on the CPU: many rows on several threads; one part is copied.
#include "runtime/host/attention/host_merger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "runtime/verify/host_memory.h"
#include "runtime/verify/merge_case.h"

namespace gqa::test {
namespace {

TEST(HostMerger, SharesManyRowsOutAmongThreads) {
  const MergeSizes sizes = {ElementType::kF16, 5, 3, 70, 16, 64, 0};
  MergeCase one(sizes), several(sizes);
  HostMemory memory;
  EXPECT_TRUE(verify(&one, HostMerger(1), &memory).passed);
  EXPECT_TRUE(verify(&several, HostMerger(4), &memory).passed);
  EXPECT_EQ(one.merged(), several.merged());
  EXPECT_EQ(one.merged_lse(), several.merged_lse());
}

TEST(HostMerger, OnePartIsCopied) {
  for (const ElementType type : kElementTypes) {
    MergeCase t({type, 1, 2, 3, 4, 64, 0});
    HostMemory memory;
    ASSERT_TRUE(verify(&t, HostMerger(1), &memory).passed);
    const std::size_t empty = 64 * static_cast<std::size_t>(element_bytes(type));  // row 0, of no keys
    EXPECT_TRUE(std::equal(t.merged().begin() + empty, t.merged().end(), t.part(0).begin() + empty));
  }
}

}  // namespace
}  // namespace gqa::test
