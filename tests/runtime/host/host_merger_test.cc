// host_merger_test.cc: states merged on the CPU, against float64; many rows on several threads; one part is copied.
#include "runtime/host/attention/host_merger.h"

#include <gtest/gtest.h>

#include "tests/runtime/merge_case.h"

namespace gqa::test {
namespace {

TEST(HostMerger, MergesAsFloat64Does) {
  for (const MergeSizes& sizes : merge_sizes()) {
    MergeCase t(sizes);
    ASSERT_TRUE(HostMerger(2).run(t.call).ok());
    EXPECT_TRUE(t.right()) << text_of(sizes);
  }
}

TEST(HostMerger, SharesManyRowsOutAmongThreads) {
  MergeCase one({ElementType::kF16, 5, 3, 70, 16, 64, 0}), several(one.sizes);
  ASSERT_TRUE(HostMerger(1).run(one.call).ok() && HostMerger(4).run(several.call).ok());
  EXPECT_TRUE(several.right());
  EXPECT_EQ(one.out, several.out);
  EXPECT_EQ(0, std::memcmp(one.lse.data(), several.lse.data(), one.lse.size() * sizeof(float)));
}

TEST(HostMerger, OnePartIsCopied) {
  for (const ElementType type : kElementTypes) {
    MergeCase t({type, 1, 2, 3, 4, 64, 0});
    ASSERT_TRUE(HostMerger(1).run(t.call).ok());
    const std::size_t empty = 64 * static_cast<std::size_t>(element_bytes(type));  // row 0, of no keys
    EXPECT_TRUE(std::equal(t.out.begin() + static_cast<std::ptrdiff_t>(empty), t.out.end(),
                           t.outs[0].begin() + static_cast<std::ptrdiff_t>(empty)));
  }
}

}  // namespace
}  // namespace gqa::test
