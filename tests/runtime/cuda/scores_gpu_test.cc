// Steps on scores and sinks on a GPU: a soft cap and others, sinks, in every family, arrays of heads, rows and scores
// in flash and split, by the trial's own verification and against float64 on the CPU; verification that catches what is
// left out.
#include <string>

#include "runtime/session/session.h"
#include "search/problem/signature.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

using test::problem_of;

class ScoresGpu : public test::CudaGpu {
 protected:
  // A kernel of `compiled` in a trial of `tried`.
  bool passes(const Problem& tried, const Problem& compiled, const Candidate& c) {
    std::unique_ptr<Trial> trial;
    EXPECT_TRUE(compile_and_try(*device_, {tried}, Effort(60), &trial).ok());
    return trial->verify(*kernel_for(compiled, compiled, c, c)).passed;
  }
};

TEST_F(ScoresGpu, SoftcapInEveryFamily) {
  for (const char* text :
       {"b=1,hq=16,hk=8,sq=1000,sk=1000,d=256,causal,softcap", "b=2,hq=8,hk=2,sq=700,sk=700,d=128,softcap,dtype=f16",
        "b=2,hq=8,hk=8,sq=700,sk=900,d=64,softcap,lse=0", "b=7,hq=16,hk=8,sq=1,sk=900,d=256,softcap",
        "b=5,hq=8,hk=2,sq=3,sk=700,d=128,causal,left=100,page=16,lens,softcap",
        "b=5,hq=8,hk=2,sq=150,sk=700,d=64,causal,page=7,lens,softcap"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 4)));
  }
}

TEST_F(ScoresGpu, OtherChains) {
  for (const char* scores : {"tanh", "add1+relu", "mul2+silu+sub3+div1", "gelu+exp2", "square+add1+rsqrt"}) {
    const Problem p = problem_of("b=2,hq=8,hk=2,sq=200,sk=500,d=64,causal,scores=" + std::string(scores));
    EXPECT_TRUE(verified(p, best(p, 2)));
  }
}

TEST_F(ScoresGpu, SinksInFlashAndSplit) {
  for (const char* text :
       {"b=1,hq=64,hk=8,sq=1000,sk=1000,d=64,causal,sink", "b=2,hq=8,hk=2,sq=200,sk=700,d=128,causal,left=127,sink",
        "b=7,hq=64,hk=8,sq=1,sk=900,d=64,sink", "b=1,hq=8,hk=1,sq=1,sk=9000,d=64,sink",
        "b=7,hq=64,hk=8,sq=1,sk=900,d=64,left=127,page=16,lens,sink",
        "b=5,hq=8,hk=2,sq=150,sk=700,d=64,causal,page=7,lens,softcap,sink",
        "b=2,hq=8,hk=2,sq=90,sk=50,d=64,causal,sink",
        "b=5,hq=8,hk=2,sq=150,sk=300,d=64,causal,packk,packq,softcap,sink"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 4)));
  }
}

TEST_F(ScoresGpu, ArraysInFlashAndSplit) {
  for (const char* text : {"b=1,hq=16,hk=8,sq=1000,sk=1000,d=128,causal,scores=addtensor",
                           "b=2,hq=8,hk=2,sq=700,sk=700,d=64,dtype=f16,scores=addtensor32",
                           "b=2,hq=8,hk=2,sq=200,sk=700,d=128,causal,left=127,scores=mulrow+addtensor",
                           "b=2,hq=8,hk=2,sq=300,sk=500,d=128,dtype=f16,causal,scores=div0+mulhead+tanh+mul0",
                           "b=7,hq=16,hk=8,sq=1,sk=900,d=256,scores=div0+tanh+mul0+addtensor",
                           "b=1,hq=8,hk=1,sq=1,sk=9000,d=64,scores=mulhead",
                           "b=5,hq=8,hk=2,sq=3,sk=700,d=128,causal,page=16,lens,sink,scores=mulrow+addtensor32",
                           "b=5,hq=8,hk=2,sq=150,sk=300,d=64,causal,packk,packq,scores=mulhead"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 4)));
  }
}

TEST_F(ScoresGpu, AgreesWithFloat64) {
  SessionOptions options;
  options.policy.budget_seconds = 2;
  Session session(std::move(device_), cache::Store::open({"", cache::Mode::kOff, 10}), options);
  for (const char* text :
       {"b=2,hq=8,hk=2,sq=150,sk=300,d=64,causal,softcap", "b=2,hq=8,hk=2,sq=1,sk=300,d=128,softcap",
        "b=5,hq=8,hk=2,sq=2,sk=300,d=64,causal,page=16,lens,softcap,sink",
        "b=2,hq=8,hk=2,sq=150,sk=300,d=64,causal,scores=addtensor",
        "b=2,hq=8,hk=2,sq=150,sk=300,d=64,dtype=f16,scores=mulrow+addtensor32",
        "b=2,hq=8,hk=2,sq=2,sk=300,d=128,scores=div0+mulhead+tanh+mul0",
        "b=5,hq=8,hk=2,sq=2,sk=300,d=64,causal,page=16,lens,scores=addtensor",
        "b=2,hq=8,hk=2,sq=150,sk=300,d=64,dtype=f16,causal,sink", "b=2,hq=8,hk=2,sq=60,sk=30,d=64,causal,sink"}) {
    test::AttentionCase attention(problem_of(text));
    test::GpuCopy copy(*driver_, &attention);
    const Status status = session.run(copy.call());
    ASSERT_TRUE(status.ok()) << status.message();
    copy.fetch();
    EXPECT_TRUE(test::matches_float64(attention)) << text;
  }
}

TEST_F(ScoresGpu, VerificationCatchesWhatIsLeftOut) {
  const std::string text = "b=3,hq=4,hk=2,sq=2,sk=300,d=64,causal";
  const Candidate c = best(problem_of(text + ",sink"), 1).front();
  const Problem capped = problem_of(text + ",softcap"), sunk = problem_of(text + ",sink");
  EXPECT_TRUE(passes(capped, capped, c));
  EXPECT_FALSE(passes(capped, problem_of(text + ",scores=div0+mul0"), c)) << "without the tanh";
  EXPECT_TRUE(passes(sunk, sunk, c));
  EXPECT_FALSE(passes(sunk, problem_of(text), c));
  for (const char* steps : {"addtensor", "mulhead", "mulrow"}) {
    const Problem with = problem_of(text + ",scores=" + steps);
    EXPECT_TRUE(passes(with, with, c)) << steps;
    EXPECT_FALSE(passes(with, problem_of(text + ",scores=mul1+div1"), c)) << "without " << steps;
  }
}

}  // namespace
}  // namespace gqa
