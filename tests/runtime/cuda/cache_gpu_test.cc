// KV caches on a GPU: pages, lengths of their own and windows, by the trial's own verification and against float64 on
// the CPU. Unused slots hold NaN, entries past a length no page.
#include <string>

#include "runtime/cuda/cached_lists.h"
#include "runtime/session/session.h"
#include "search/problem/mask.h"
#include "tests/runtime/cuda/cuda_fixture.h"
#include "tests/tile_kinds.h"

namespace gqa {
namespace {

using test::problem_of;

class CacheGpu : public test::CudaGpu {};

TEST_F(CacheGpu, PagesOfEverySize) {
  for (const char* page : {"1", "3", "16", "24", "64", "256"}) {
    const Problem p = problem_of("b=7,hq=32,hk=8,sq=1,sk=900,d=128,lens,page=" + std::string(page));
    EXPECT_TRUE(verified(p, best(p, 3)));
  }
}

TEST_F(CacheGpu, EveryPart) {
  for (const char* text :
       {"b=5,hq=8,hk=2,sq=1,sk=700,d=64,page=16", "b=5,hq=8,hk=2,sq=4,sk=700,d=64,causal,lens",
        "b=3,hq=8,hk=2,sq=5,sk=700,d=128,causal,left=100", "b=3,hq=8,hk=2,sq=5,sk=700,d=128,left=33,right=2,lens",
        "b=9,hq=8,hk=1,sq=16,sk=700,d=128,causal,left=64,page=16,lens",
        "b=4,hq=6,hk=2,sq=3,sk=300,d=80,align=2,causal,page=3,lens",
        "b=4,hq=4,hk=4,sq=2,sk=300,d=256,causal,page=64,lens,dtype=f16",
        "b=4,hq=4,hk=1,sq=2,sk=300,d=192,dv=128,causal,page=16,lens,lse=0"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 3)));
  }
}

// More rows than split takes: prefills and chunks of them.
// A test a problem, so that their kernels compile side by side.
class ManyQueries : public CacheGpu, public ::testing::WithParamInterface<const char*> {};

TEST_P(ManyQueries, AreVerified) {
  const Problem p = problem_of(GetParam());
  EXPECT_TRUE(verified(p, best(p, 6)));
}
INSTANTIATE_TEST_SUITE_P(CacheGpu, ManyQueries,
                         ::testing::Values("b=7,hq=16,hk=4,sq=100,sk=900,d=128,causal,lens,page=1",
                                           "b=7,hq=16,hk=4,sq=100,sk=900,d=128,causal,lens,page=7",
                                           "b=7,hq=16,hk=4,sq=300,sk=900,d=128,causal,lens,page=16",
                                           "b=7,hq=8,hk=8,sq=900,sk=900,d=64,causal,lens,page=64",
                                           "b=3,hq=8,hk=2,sq=700,sk=1000,d=128,causal,lens,page=128",
                                           "b=3,hq=8,hk=2,sq=200,sk=700,d=64,page=16",
                                           "b=5,hq=8,hk=2,sq=200,sk=700,d=128,lens",
                                           "b=2,hq=8,hk=2,sq=700,sk=700,d=128,causal,left=100",
                                           "b=2,hq=8,hk=2,sq=300,sk=700,d=64,left=33,right=9,lens,dtype=f16",
                                           "b=5,hq=8,hk=1,sq=300,sk=700,d=128,causal,left=64,page=16,lens",
                                           "b=4,hq=6,hk=2,sq=130,sk=300,d=80,align=2,causal,page=3,lens",
                                           "b=4,hq=4,hk=4,sq=100,sk=300,d=256,causal,page=64,lens,dtype=f16",
                                           "b=4,hq=4,hk=1,sq=100,sk=300,d=192,dv=128,causal,page=16,lens,lse=0"));

TEST_F(CacheGpu, EveryTileOfFlashOnPages) {
  const Problem p = problem_of("b=5,hq=8,hk=2,sq=300,sk=900,d=64,causal,page=16,lens");
  EXPECT_TRUE(verified(p, best(p, 1000)));
}

// A test a problem, so that they run side by side. Each arithmetic and kind of tile (tile_kinds.h) has its best
// candidate: on Hopper 6 to 25 of a problem's 29 to 216 kernels. Numbers of the same code (keys a step, stages) are
// left to the emulator and to tuning, which verifies what it takes.
class EveryKindOnLengths : public CacheGpu, public ::testing::WithParamInterface<const char*> {};

TEST_P(EveryKindOnLengths, IsVerified) {
  const Problem p = problem_of(GetParam());
  EXPECT_TRUE(verified(p, test::one_of_each_kind(enumerate(p, device_->spec()))));
}
INSTANTIATE_TEST_SUITE_P(CacheGpu, EveryKindOnLengths, ::testing::ValuesIn(test::kProblemsOnLengths));

TEST_F(CacheGpu, ManySequences) {
  const Problem p = problem_of("b=1500,hq=4,hk=1,sq=1,sk=64,d=64,page=16,lens");
  EXPECT_TRUE(verified(p, best(p, 2)));
}

// What the trial does not see of its own rules, plain float64 does.
TEST_F(CacheGpu, AgreesWithFloat64) {
  SessionOptions options;
  options.policy.budget_seconds = 2;
  Session session(std::move(device_), cache::Store::open({"", cache::Mode::kOff, 10}), options);
  for (const char* text : {"b=5,hq=8,hk=2,sq=2,sk=300,d=64,causal,page=16,lens",
                           "b=5,hq=8,hk=2,sq=3,sk=300,d=128,dtype=f16,causal,left=40,page=1,lens",
                           "b=4,hq=4,hk=2,sq=3,sk=200,d=80,align=2,left=9,right=1,lens",
                           "b=4,hq=4,hk=2,sq=150,sk=300,d=128,causal,page=16,lens",
                           "b=3,hq=4,hk=2,sq=150,sk=300,d=64,left=40,right=3,page=7,lens"}) {
    test::AttentionCase attention(problem_of(text));
    test::GpuCopy copy(*driver_, &attention);
    const Status status = session.run(copy.call());
    ASSERT_TRUE(status.ok()) << status.message();
    copy.fetch();
    EXPECT_TRUE(test::matches_float64(attention)) << text;
  }
}

TEST_F(CacheGpu, VerificationCatchesAMissingWindow) {
  const Problem windowed = problem_of("b=3,hq=4,hk=2,sq=2,sk=300,d=64,causal,left=40,lens");
  Problem causal = windowed;
  set_window(-1, 0, &causal);
  const Candidate c = best(windowed, 1).front();
  std::unique_ptr<Trial> trial;
  ASSERT_TRUE(compile_and_try(*device_, {windowed}, Effort(60), &trial).ok());
  EXPECT_FALSE(trial->verify(*kernel_for(causal, windowed, c, c)).passed);
}

TEST_F(CacheGpu, CheckedListsAreReadBack) {
  test::AttentionCase attention(problem_of("b=5,hq=8,hk=2,sq=2,sk=300,d=64,causal,page=16,lens"));
  EXPECT_TRUE(device_->check_lists(test::GpuCopy(*driver_, &attention).call(), nullptr).ok());
  attention.page_table[0] = 1 << 20;
  const std::int32_t length = attention.lengths[1];
  attention.lengths[0] = 20;
  EXPECT_NE(std::string::npos, device_->check_lists(test::GpuCopy(*driver_, &attention).call(), nullptr)
                                   .message()
                                   .find("page_table[0][0] is 1048576, expected 0 to "));
  attention.lengths[1] = 301;
  attention.lengths[0] = 0;
  EXPECT_NE(std::string::npos, device_->check_lists(test::GpuCopy(*driver_, &attention).call(), nullptr)
                                   .message()
                                   .find("cache_seqlens[1] is 301, expected 0 to 300"));
  attention.lengths[1] = length;
  EXPECT_TRUE(device_->check_lists(test::GpuCopy(*driver_, &attention).call(), nullptr).ok());
}

}  // namespace
}  // namespace gqa
