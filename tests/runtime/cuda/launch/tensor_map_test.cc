// tensor_map_test.cc: what the driver is asked to encode for a call, seen by a driver that only writes it down.
// Owns: the recording driver; ranks, sizes, strides and boxes of all four maps; the maps a thread caches.
// Needs no GPU and no CUDA driver.
#include "runtime/cuda/launch/tensor_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gqa {
namespace {

struct Encoded {
  CUtensorMapDataType type;
  void* data;
  std::vector<cuuint64_t> sizes, strides;  // strides: bytes, of all dimensions but the first
  std::vector<cuuint32_t> boxes, steps;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

thread_local std::vector<Encoded> encoded;
thread_local CUresult answer = CUDA_SUCCESS;

// The map's first word is its data pointer, so that each can be told from the others.
CUresult record(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data, const cuuint64_t* sizes,
                const cuuint64_t* strides, const cuuint32_t* boxes, const cuuint32_t* steps, CUtensorMapInterleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  encoded.push_back({type,
                     data,
                     {sizes, sizes + rank},
                     {strides, strides + rank - 1},
                     {boxes, boxes + rank},
                     {steps, steps + rank},
                     swizzle,
                     promotion,
                     fill});
  std::memset(static_cast<void*>(map), 0, sizeof *map);
  std::memcpy(static_cast<void*>(map), &data, sizeof data);
  return answer;
}

CUresult no_text(CUresult, const char** text) {
  *text = "refused by the test";
  return CUDA_SUCCESS;
}

Driver map_driver() {
  Driver driver;
  driver.cuTensorMapEncodeTiled = record;
  driver.cuGetErrorName = driver.cuGetErrorString = no_text;
  return driver;
}

// Tensors of (batch, length, heads, dim) one after the other, at addresses no other call of this program has.
Call call_of(const char* text) {
  static char* next = reinterpret_cast<char*>(1ULL << 40);
  Call c;
  EXPECT_TRUE(parse(text, &c.problem).ok());
  const Problem& p = c.problem;
  const auto place = [&] { return next += 1 << 20; };
  const auto compact = [](std::int64_t length, std::int64_t heads, std::int64_t dim) {
    return Strides{length * heads * dim, heads * dim, dim};
  };
  c.place(Role::kQ, place());
  c.place(Role::kK, place());
  c.place(Role::kV, place());
  c.place(Role::kOut, place());
  c.strides(Role::kQ) = compact(p.q_len, p.q_heads, p.head_dim);
  c.strides(Role::kK) = compact(p.kv_len, p.kv_heads, p.head_dim);
  c.strides(Role::kV) = compact(p.kv_len, p.kv_heads, p.head_dim_v);
  c.strides(Role::kOut) = compact(p.q_len, p.q_heads, p.head_dim_v);
  return c;
}

// As of a tile of m rows and n keys.
TensorBoxes tile(int m, int n, int pack) { return {m, n, 64, pack}; }

class TensorMapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    encoded.clear();
    answer = CUDA_SUCCESS;
  }

  const Driver driver_ = map_driver();
  TensorMaps maps_{};
};

using Sizes = std::vector<cuuint64_t>;
using Boxes = std::vector<cuuint32_t>;

TEST_F(TensorMapTest, DimensionsStridesAndBoxes) {
  const Call c = call_of("b=3,hq=8,hk=2,sq=100,sk=300,d=192,dv=128");
  ASSERT_TRUE(tensor_maps(driver_, c, tile(128, 80, 4), &maps_).ok());
  ASSERT_EQ(encoded.size(), 4U);
  const Encoded &q = encoded[0], &k = encoded[1], &v = encoded[2], &out = encoded[3];

  EXPECT_EQ(q.data, c.at(Role::kQ));  // column, head in group, row, head group, batch
  EXPECT_EQ(q.sizes, (Sizes{192, 4, 100, 2, 3}));
  EXPECT_EQ(q.strides, (Sizes{2 * 192, 2 * 8 * 192, 2 * 4 * 192, 2 * 100 * 8 * 192}));
  EXPECT_EQ(q.boxes, (Boxes{64, 4, 32, 1, 1}));

  EXPECT_EQ(k.data, c.at(Role::kK));  // column, row, head, batch
  EXPECT_EQ(k.sizes, (Sizes{192, 300, 2, 3}));
  EXPECT_EQ(k.strides, (Sizes{2 * 2 * 192, 2 * 192, 2 * 300 * 2 * 192}));
  EXPECT_EQ(k.boxes, (Boxes{64, 80, 1, 1}));

  EXPECT_EQ(v.data, c.at(Role::kV));
  EXPECT_EQ(v.sizes, (Sizes{128, 300, 2, 3}));
  EXPECT_EQ(v.strides, (Sizes{2 * 2 * 128, 2 * 128, 2 * 300 * 2 * 128}));
  EXPECT_EQ(v.boxes, (Boxes{64, 80, 1, 1}));

  EXPECT_EQ(out.data, c.to(Role::kOut));  // as q, 64 rows at once
  EXPECT_EQ(out.sizes, (Sizes{128, 4, 100, 2, 3}));
  EXPECT_EQ(out.strides, (Sizes{2 * 128, 2 * 8 * 128, 2 * 4 * 128, 2 * 100 * 8 * 128}));
  EXPECT_EQ(out.boxes, (Boxes{64, 4, 16, 1, 1}));
}

TEST_F(TensorMapTest, TransposedKeysAreBoxesOf64KeysAndAllColumns) {
  Call c = call_of("b=3,hq=8,hk=2,sq=100,sk=300,d=192,dv=128,ktrans");
  c.strides(Role::kK) = {2 * 192 * 304, 304, 192 * 304};
  ASSERT_TRUE(tensor_maps(driver_, c, tile(128, 128, 4), &maps_).ok());
  ASSERT_EQ(encoded.size(), 4U);
  const Encoded& k = encoded[1];
  EXPECT_EQ(k.data, c.at(Role::kK));  // key, column, head, batch
  EXPECT_EQ(k.sizes, (Sizes{300, 192, 2, 3}));
  EXPECT_EQ(k.strides, (Sizes{2 * 304, 2 * 192 * 304, 2 * 2 * 192 * 304}));
  EXPECT_EQ(k.boxes, (Boxes{64, 192, 1, 1}));
  c.problem.keys = KeyLayout::kDense;  // the same bytes are other keys then: not the map that is cached
  ASSERT_TRUE(tensor_maps(driver_, c, tile(128, 128, 4), &maps_).ok());
  EXPECT_EQ(encoded.size(), 5U);
}

TEST_F(TensorMapTest, SwizzlePromotionFillAndType) {
  ASSERT_TRUE(tensor_maps(driver_, call_of("hq=2,sq=100,d=64"), tile(64, 128, 1), &maps_).ok());
  ASSERT_TRUE(tensor_maps(driver_, call_of("hq=2,sq=100,d=64,dtype=f16"), tile(64, 128, 1), &maps_).ok());
  ASSERT_EQ(encoded.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(encoded[i].type, i < 4 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
    EXPECT_EQ(encoded[i].swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
    EXPECT_EQ(encoded[i].promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
    EXPECT_EQ(encoded[i].fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);  // zeros
    EXPECT_EQ(encoded[i].steps, Boxes(encoded[i].boxes.size(), 1));
  }
}

// Keys that the kernel's warps copy.
TEST_F(TensorMapTest, NoBoxesOfKeysNeedNoMaps) {
  const Call c = call_of("b=3,hq=8,hk=2,sq=100,sk=300,d=64,page=1");
  std::memset(&maps_, 1, sizeof maps_);
  ASSERT_TRUE(tensor_maps(driver_, c, tile(128, 0, 4), &maps_).ok());
  ASSERT_EQ(encoded.size(), 2U);
  EXPECT_EQ(encoded[0].data, c.at(Role::kQ));
  EXPECT_EQ(encoded[1].data, c.to(Role::kOut));
  EXPECT_EQ(maps_.k.opaque[0] | maps_.v.opaque[15], 0U);
}

// Nothing is stepped along it, so any stride may come with it; not all are ones that the driver takes.
TEST_F(TensorMapTest, ADimensionOfOneGetsALegalStride) {
  Call c = call_of("hq=4,hk=1,sq=1,sk=1,d=64");
  c.strides(Role::kQ) = {0, 0, 64};
  c.strides(Role::kK) = c.strides(Role::kV) = {0, 0, 0};
  c.strides(Role::kOut) = {-8, 5, 64};
  ASSERT_TRUE(tensor_maps(driver_, c, tile(64, 64, 4), &maps_).ok());
  for (const Encoded& map : encoded) {
    for (const cuuint64_t stride : map.strides) {
      EXPECT_GT(stride, 0U);
      EXPECT_EQ(stride % 16, 0U);
      EXPECT_LT(stride, cuuint64_t{1} << 40);
    }
  }
}

TEST_F(TensorMapTest, ExpandedDimensionsKeepTheirStrideOfZero) {
  Call c = call_of("b=3,hq=8,hk=2,sq=100,sk=300,d=64");
  c.strides(Role::kQ).head = c.strides(Role::kK).batch = c.strides(Role::kV).head = 0;
  ASSERT_TRUE(tensor_maps(driver_, c, tile(128, 80, 4), &maps_).ok());
  EXPECT_EQ(encoded[0].strides, (Sizes{0, 2 * 8 * 64, 0, 2 * 100 * 8 * 64}));  // heads are two dimensions of q
  EXPECT_EQ(encoded[1].strides, (Sizes{2 * 2 * 64, 2 * 64, 0}));
  EXPECT_EQ(encoded[2].strides, (Sizes{2 * 2 * 64, 0, 2 * 300 * 2 * 64}));
}

TEST_F(TensorMapTest, MapsAreCachedWhileNothingChanges) {
  const Call c = call_of("b=3,hq=8,hk=2,sq=100,sk=300,d=64");
  ASSERT_TRUE(tensor_maps(driver_, c, tile(128, 80, 1), &maps_).ok());
  const TensorMaps first = maps_;
  std::memset(&maps_, 0, sizeof maps_);
  ASSERT_TRUE(tensor_maps(driver_, c, tile(128, 80, 1), &maps_).ok());
  EXPECT_EQ(encoded.size(), 4U);
  EXPECT_EQ(std::memcmp(&first, &maps_, sizeof first), 0);
}

// Which of q, k, v and out are encoded anew, in this order.
TEST_F(TensorMapTest, EverythingThatShapesAMapMakesANewOne) {
  const Call base = call_of("b=3,hq=8,hk=2,sq=100,sk=300,d=64");
  const auto encodes = [&](auto change) {
    Call c = base;
    c.place(Role::kQ, call_of("hq=1,sq=1,d=64").at(Role::kQ));  // nothing of it is cached
    c.place(Role::kK, c.at<char>(Role::kQ) + 0x1000);
    c.place(Role::kV, c.at<char>(Role::kQ) + 0x2000);
    c.place(Role::kOut, c.to<char>(Role::kQ) + 0x3000);
    TensorBoxes t = tile(128, 80, 1);
    EXPECT_TRUE(tensor_maps(driver_, c, t, &maps_).ok());
    const TensorMaps before = maps_;
    change(&c, &t);
    encoded.clear();
    EXPECT_TRUE(tensor_maps(driver_, c, t, &maps_).ok());
    const bool same = std::memcmp(&before, &maps_, sizeof before) == 0;
    std::string which(same ? "" : "other ");
    for (const Encoded& map : encoded)
      which += map.data == c.at(Role::kQ)     ? "q"
               : map.data == c.at(Role::kK)   ? "k"
               : map.data == c.at(Role::kV)   ? "v"
               : map.data == c.to(Role::kOut) ? "o"
                                              : "?";
    return which;
  };
  EXPECT_EQ(encodes([](Call*, TensorBoxes*) {}), "");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->scale = 3; }), "");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->place(Role::kQ, c->at<char>(Role::kQ) + 16); }), "other q");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->place(Role::kK, c->at<char>(Role::kK) + 16); }), "other k");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->place(Role::kV, c->at<char>(Role::kV) + 16); }), "other v");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->place(Role::kOut, c->to<char>(Role::kOut) + 16); }), "other o");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) {
              const void* const keys = c->at(Role::kK);
              c->place(Role::kK, c->at(Role::kV));
              c->place(Role::kV, keys);
            }),
            "other ")
      << "they have the same shape";
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->strides(Role::kQ).row += 8; }), "q");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->strides(Role::kK).head += 8; }), "k");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->strides(Role::kV).batch += 8; }), "v");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->strides(Role::kOut).row += 8; }), "o");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { --c->problem.batch; }), "qkvo");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { --c->problem.q_len; }), "qo");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { --c->problem.kv_len; }), "kv");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->problem.q_heads = 4; }), "qo");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->problem.kv_heads = 1; }), "kv");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->problem.head_dim = 32; }), "qk");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->problem.head_dim_v = 32; }), "vo");
  EXPECT_EQ(encodes([](Call* c, TensorBoxes*) { c->problem.set_types(ElementType::kF16); }), "qkvo");
  EXPECT_EQ(encodes([](Call*, TensorBoxes* t) { t->query_rows = 64; }), "q");
  EXPECT_EQ(encodes([](Call*, TensorBoxes* t) { t->out_rows = 128; }), "o");
  EXPECT_EQ(encodes([](Call*, TensorBoxes* t) { t->keys = 64; }), "kv");
  EXPECT_EQ(encodes([](Call*, TensorBoxes* t) { t->pack = 2; }), "qo");
}

TEST_F(TensorMapTest, ALayersKeysStayWhileQueriesMove) {
  std::vector<Call> layers;
  for (int i = 0; i < 32; ++i) layers.push_back(call_of("b=3,hq=8,hk=2,sq=1,sk=300,d=64"));
  for (int token = 0; token < 20; ++token)
    for (Call& layer : layers) {
      const Call moved = call_of("b=3,hq=8,hk=2,sq=1,sk=300,d=64");
      layer.place(Role::kQ, moved.at(Role::kQ));
      layer.place(Role::kOut, moved.at(Role::kOut));
      ASSERT_TRUE(tensor_maps(driver_, layer, tile(64, 64, 4), &maps_).ok());
    }
  EXPECT_LE(encoded.size(), 32U * 2 + 20 * 32 * 2 + 10);
}

// 1024 places in sets of 16: few of them are asked for more.
TEST_F(TensorMapTest, MostMapsOf128CallsAreEncodedOnce) {
  std::vector<Call> calls;
  for (int i = 0; i < 128; ++i) calls.push_back(call_of("hq=2,sq=100,d=64"));
  for (int round = 0; round < 3; ++round)
    for (const Call& c : calls) {
      ASSERT_TRUE(tensor_maps(driver_, c, tile(64, 64, 1), &maps_).ok());
      ASSERT_EQ(maps_.k.opaque[0], reinterpret_cast<std::uintptr_t>(c.at(Role::kK)));
    }
  EXPECT_LE(encoded.size(), 4U * 128 * 105 / 100);
}

TEST_F(TensorMapTest, AnOldCallIsEncodedAgainAfterMany) {
  const Call old = call_of("hq=2,sq=100,d=64");
  ASSERT_TRUE(tensor_maps(driver_, old, tile(64, 64, 1), &maps_).ok());
  for (int i = 0; i < 2000; ++i)
    ASSERT_TRUE(tensor_maps(driver_, call_of("hq=2,sq=100,d=64"), tile(64, 64, 1), &maps_).ok());
  encoded.clear();
  ASSERT_TRUE(tensor_maps(driver_, old, tile(64, 64, 1), &maps_).ok());
  EXPECT_EQ(encoded.size(), 4U);
  EXPECT_EQ(maps_.q.opaque[0], reinterpret_cast<std::uintptr_t>(old.at(Role::kQ)));
}

TEST_F(TensorMapTest, ThreadsKeepTheirOwn) {
  std::vector<Call> calls;
  for (int i = 0; i < 12; ++i) calls.push_back(call_of("hq=2,sq=100,d=64"));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 5000; ++i) {
        const Call& c = calls[(i * (t + 1)) % calls.size()];
        TensorMaps maps;
        wrong += !tensor_maps(driver_, c, tile(64, 64, 1), &maps).ok();
        wrong += maps.q.opaque[0] != reinterpret_cast<std::uintptr_t>(c.at(Role::kQ));
        wrong += maps.out.opaque[0] != reinterpret_cast<std::uintptr_t>(c.to(Role::kOut));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(TensorMapTest, ARefusalNamesTheTensorAndIsNotKept) {
  const Call c = call_of("hq=2,sq=100,d=64");
  answer = CUDA_ERROR_INVALID_VALUE;
  const Status status = tensor_maps(driver_, c, tile(64, 64, 1), &maps_);
  EXPECT_EQ(status.code(), Code::kDeviceFailed);
  EXPECT_NE(status.message().find("tensor map of q for b=1,hq=2,hk=2,sq=100"), std::string::npos) << status.message();
  answer = CUDA_SUCCESS;
  encoded.clear();
  EXPECT_TRUE(tensor_maps(driver_, c, tile(64, 64, 1), &maps_).ok());
  EXPECT_EQ(encoded.size(), 4U);
}

TEST_F(TensorMapTest, ADriverWithoutTheCallIsNamedTooOld) {
  EXPECT_TRUE(can_map_tensors(driver_).ok());
  const Status status = can_map_tensors(Driver());
  EXPECT_EQ(status.code(), Code::kNoDevice);
  EXPECT_NE(status.message().find("cuTensorMapEncodeTiled"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace gqa
