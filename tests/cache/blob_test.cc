// blob_test.cc: packing and its checksum.
#include "cache/file/blob.h"

#include "support.h"

namespace gqa::cache {
namespace {

TEST(Hash, KnownValues) {
  // XXH3-128 of nothing, from the algorithm's own test vectors.
  EXPECT_EQ(hash128(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash128("a"), hash128("b"));
  EXPECT_EQ(hash128(std::string(1000, 'q')).size(), 32u);
}

TEST(Blob, RoundTrips) {
  for (const std::string& raw : {std::string(), std::string("x"), std::string(100000, 'y'), noise(50000, 3)}) {
    const Blob blob = pack(raw);
    std::string back = "something else";
    ASSERT_TRUE(unpack(blob.packed, blob.sum, blob.raw_bytes, &back));
    EXPECT_EQ(back, raw);
  }
  EXPECT_LT(pack(std::string(100000, 'y')).packed.size(), 1000u);
}

TEST(Blob, NoFlippedBitGivesOtherBytes) {
  const std::string raw = "the quick brown fox " + std::string(200, 'z') + noise(64, 1);
  const Blob blob = pack(raw);
  for (std::size_t bit = 0; bit < 8 * blob.packed.size(); ++bit) {
    std::string flipped = blob.packed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    std::string back;
    EXPECT_TRUE(!unpack(flipped, blob.sum, blob.raw_bytes, &back) || back == raw) << "bit " << bit;
  }
}

TEST(Blob, RefusesTruncationAndSizesBeyondTheRow) {
  const Blob blob = pack(noise(1000, 5));
  std::string back;
  for (std::size_t size = 0; size < blob.packed.size(); ++size) {
    EXPECT_FALSE(unpack(blob.packed.substr(0, size), blob.sum, blob.raw_bytes, &back)) << size;
  }
  EXPECT_FALSE(unpack(blob.packed, blob.sum, blob.raw_bytes - 1, &back));
  EXPECT_FALSE(unpack(blob.packed, hash128("other"), blob.raw_bytes, &back));
}

}  // namespace
}  // namespace gqa::cache
