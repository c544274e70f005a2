// not_cached_test.cc: the refusal of a call that nothing may be tuned for names the line that warms it.
#include "runtime/session/not_cached.h"

#include <gtest/gtest.h>

#include "cache/store.h"
#include "search/problem/problem.h"

namespace gqa {
namespace {

constexpr const char* kShape = "b=1,hq=8,hk=2,sq=256,sk=256,d=64,dtype=bf16,causal";

DeviceSpec device(DeviceKind kind) {
  DeviceSpec spec;
  spec.kind = kind;
  spec.arch = kind == DeviceKind::kHost ? "x86-64-avx2" : "sm_90a";
  return spec;
}

TEST(NotCached, NamesTheLineThatWarmsIt) {
  const Status refused = not_cached(kShape, device(DeviceKind::kCuda), "/opt/gqa.db");
  EXPECT_EQ(refused.code(), Code::kNotCached);
  EXPECT_TRUE(refused.message().ends_with("gqa-cache --db /opt/gqa.db warm --shape " + std::string(kShape)))
      << refused.message();
  EXPECT_NE(refused.message().find("sm_90a"), std::string::npos);
  Problem problem;
  EXPECT_TRUE(parse(kShape, &problem).ok()) << "what warm reads";
}

TEST(NotCached, ADefaultFileNeedsNoName) {
  EXPECT_EQ(warming_line(kShape, device(DeviceKind::kCuda), cache::Store::default_path()),
            "gqa-cache warm --shape " + std::string(kShape));
  EXPECT_EQ(warming_line(kShape, device(DeviceKind::kHost), ""),
            "gqa-cache warm --device host --shape " + std::string(kShape));
}

TEST(NotCached, AShellReadsTheFilesNameBack) {
  const std::string line = warming_line(kShape, device(DeviceKind::kCuda), "/my caches/it's.db");
  EXPECT_EQ(warming_line(kShape, device(DeviceKind::kCuda), "/a:b.db").find("gqa-cache --db '/a\\:b.db' warm"), 0U)
      << "a colon would part two files";
  EXPECT_TRUE(line.starts_with("gqa-cache --db '/my caches/it'\\''s.db' warm ")) << line;
}

TEST(NotCached, ACacheThatIsOffAndAGraphAreToldSo) {
  EXPECT_NE(not_cached(kShape, device(DeviceKind::kCuda), "").message().find("open a cache and warm it"),
            std::string::npos);
  const std::string graph = not_cached("graph 0123 attention", device(DeviceKind::kCuda), "/opt/gqa.db").message();
  EXPECT_NE(graph.find("superoptimize"), std::string::npos) << graph;
  EXPECT_EQ(graph.find("gqa-cache"), std::string::npos) << graph;
}

TEST(NotCached, ALongShapeStaysWithin400Characters) {
  const std::string shape =
      "b=65535,hq=128,hk=8,sq=131072,sk=1048576,d=192,dv=128,dtype=bf16,causal,left=4095,align=2,page=16,lens,packq,"
      "scores=mulhead+div0+tanh+mul0+addtensor32,sink,lse";
  EXPECT_LE(not_cached(shape, device(DeviceKind::kHost), "/opt/caches/of/a/service/gqa.db").message().size(), 400u);
}

}  // namespace
}  // namespace gqa
