// Packed sequences on a GPU: by the trial's own verification, and tuned for calls with lists on the device against the
// naive loop on the CPU. Rows of nobody between sequences hold NaN in k and v and are not written in out.
#include <numeric>
#include <string>

#include "runtime/api/args/args.h"
#include "runtime/cuda/cached_lists.h"
#include "runtime/session/session.h"
#include "tests/runtime/cache_case.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

using test::problem_of;
using Lengths = std::vector<std::int32_t>;

// A CacheCase's buffers on the device. Needs the context to be current.
class PackedCopy {
 public:
  PackedCopy(const Driver& driver, test::CacheCase* t) : driver_(driver), case_(t), call_(t->call) {
    call_.place(Role::kQ, moved(t->q));
    call_.place(Role::kK, moved(t->k));
    call_.place(Role::kV, moved(t->v));
    call_.place(Role::kOut, moved(t->out));
    float* const lse = moved(t->lse);
    if (call_.has(Role::kLse)) call_.place(Role::kLse, lse);
    for (const auto& [list, numbers] : {std::pair(Role::kKvLengths, &t->lengths),
                                        {Role::kPageTable, &t->table},
                                        {Role::kQStarts, &t->q_starts},
                                        {Role::kKStarts, &t->k_starts},
                                        {Role::kQLengths, &t->packing.queries}})
      if (call_.has(list)) call_.place(list, moved(*numbers));
  }
  ~PackedCopy() {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  PackedCopy(const PackedCopy&) = delete;
  PackedCopy& operator=(const PackedCopy&) = delete;

  // On the legacy stream.
  const Call& call() const { return call_; }
  void fetch() {
    driver_.cuMemcpyDtoHAsync(case_->out.data(), memory_[3], case_->out.size() * 2, nullptr);
    driver_.cuMemcpyDtoHAsync(case_->lse.data(), memory_[4], case_->lse.size() * 4, nullptr);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
  }

 private:
  template <typename Element>
  Element* moved(const std::vector<Element>& host) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&address, host.size() * sizeof(Element) + 1));
    memory_.push_back(address);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(address, host.data(), host.size() * sizeof(Element), nullptr));
    return reinterpret_cast<Element*>(address);
  }

  const Driver& driver_;
  test::CacheCase* case_;
  Call call_;
  std::vector<CUdeviceptr> memory_;
};

class PackedGpu : public test::CudaGpu {
 protected:
  // Each case, tuned and run, against the naive loop.
  void expect_right(Session* session, const std::string& text, const Lengths& queries, const Lengths& keys, int gap) {
    test::CacheCase t(text, keys, false, {queries, gap});
    PackedCopy copy(*driver_, &t);
    const Status status = session->run(copy.call());
    ASSERT_TRUE(status.ok()) << text << ": " << status.message();
    copy.fetch();
    EXPECT_TRUE(t.right()) << text;
  }

  std::unique_ptr<Session> session() {
    SessionOptions options;
    options.policy.budget_seconds = 2;
    return std::make_unique<Session>(std::move(device_), cache::Store::open({"", cache::Mode::kOff, 10}), options);
  }
};

TEST_F(PackedGpu, Prefills) {
  for (const char* text :
       {"b=7,hq=16,hk=4,sq=300,sk=300,d=128,causal,packq,packk", "b=7,hq=8,hk=8,sq=900,sk=900,d=64,causal,packq,packk",
        "b=5,hq=8,hk=2,sq=200,sk=700,d=64,packq,packk,dtype=f16",
        "b=5,hq=8,hk=2,sq=300,sk=700,d=128,causal,left=100,packq,packk",
        "b=5,hq=8,hk=2,sq=300,sk=700,d=128,causal,packq,lens,page=16", "b=5,hq=8,hk=2,sq=300,sk=700,d=128,causal,packq",
        "b=5,hq=8,hk=2,sq=300,sk=700,d=128,causal,packk", "b=5,hq=4,hk=4,sq=100,sk=300,d=256,causal,packq,packk",
        "b=5,hq=6,hk=2,sq=130,sk=300,d=80,align=2,causal,packq,packk",
        "b=5,hq=4,hk=1,sq=100,sk=300,d=192,dv=128,causal,packq,packk,lse=0"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 6)));
  }
}

TEST_F(PackedGpu, Decodes) {
  for (const char* text :
       {"b=9,hq=32,hk=8,sq=1,sk=900,d=128,packq,packk", "b=9,hq=8,hk=2,sq=4,sk=700,d=64,causal,packq,packk",
        "b=9,hq=32,hk=8,sq=2,sk=900,d=128,causal,packq,lens,page=16",
        "b=9,hq=8,hk=1,sq=16,sk=700,d=128,causal,left=64,packq,lens,page=3",
        "b=9,hq=8,hk=2,sq=4,sk=700,d=64,causal,packq", "b=9,hq=8,hk=2,sq=4,sk=700,d=64,causal,packk,dtype=f16"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 6)));
  }
}

TEST_F(PackedGpu, EveryTile) {
  for (const char* text :
       {"b=5,hq=8,hk=2,sq=300,sk=900,d=64,causal,packq,packk", "b=9,hq=8,hk=2,sq=4,sk=700,d=64,causal,packq,packk"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 1000)));
  }
}

TEST_F(PackedGpu, HundredsOfShortSequences) {
  for (const char* text :
       {"b=700,hq=4,hk=1,sq=8,sk=64,d=64,causal,packq,packk", "b=700,hq=4,hk=1,sq=40,sk=64,d=64,causal,packq,packk"}) {
    const Problem p = problem_of(text);
    EXPECT_TRUE(verified(p, best(p, 3)));
  }
}

// What the trial does not see of its own rules, the naive loop does.
TEST_F(PackedGpu, TunedCallsAgreeWithTheNaiveLoop) {
  const auto tuned = session();
  const Lengths queries = {5, 0, 1, 70, 3, 40}, keys = {90, 7, 33, 20, 0, 140};
  const Lengths decodes = {1, 1, 0, 2, 1, 2}, cached = {150, 33, 20, 200, 0, 65};
  for (const int gap : {0, 3}) {
    for (const char* more : {",causal,packq,packk,lse", ",left=20,causal,packq,packk,dtype=f16,lse",
                             ",causal,packq,lens,page=7,lse", ",packq,packk"})
      expect_right(tuned.get(), "b=6,hq=4,hk=2,sq=70,sk=140,d=64" + std::string(more), queries, keys, gap);
    for (const char* more : {",causal,packq,packk,lse", ",causal,packq,lens,page=16,lse"})
      expect_right(tuned.get(), "b=6,hq=8,hk=2,sq=2,sk=200,d=128" + std::string(more), decodes, cached, gap);
  }
  expect_right(tuned.get(), "b=6,hq=8,hk=2,sq=2,sk=200,d=128,causal,packq,packk,lse", {0, 0, 0, 0, 1, 0},
               {9, 9, 9, 9, 0, 9}, 0);
}

// Tensors and lists of a caller, all on the device, as gqa_run_ex takes them.
TEST_F(PackedGpu, ACallWithListsOnTheDevice) {
  test::CacheCase t("b=6,hq=4,hk=2,sq=70,sk=140,d=64,causal,packq,packk", {90, 7, 33, 20, 0, 140}, false,
                    {{5, 0, 1, 70, 3, 40}});
  PackedCopy copy(*driver_, &t);
  const auto tensor = [](const void* data, std::vector<std::int64_t>* shape, DLDataType dtype) {
    return DLTensor{
        const_cast<void*>(data), {kDLCUDA, 0}, static_cast<int>(shape->size()), dtype, shape->data(), nullptr, 0};
  };
  constexpr DLDataType kBf16 = {kDLBfloat, 16, 1}, kInt32 = {kDLInt, 32, 1};
  std::vector<std::int64_t> q_shape = {119, 4, 64}, k_shape = {290, 2, 64}, starts_shape = {7};
  const DLTensor q = tensor(copy.call().at(Role::kQ), &q_shape, kBf16),
                 k = tensor(copy.call().at(Role::kK), &k_shape, kBf16),
                 v = tensor(copy.call().at(Role::kV), &k_shape, kBf16),
                 out = tensor(copy.call().at(Role::kOut), &q_shape, kBf16),
                 q_starts = tensor(copy.call().at(Role::kQStarts), &starts_shape, kInt32),
                 k_starts = tensor(copy.call().at(Role::kKStarts), &starts_shape, kInt32);
  gqa_call given = {};
  given.size = sizeof(given);
  given.causal = 1;
  given.cu_seqlens_q = &q_starts;
  given.cu_seqlens_k = &k_starts;
  given.max_seqlen_q = 70;
  given.max_seqlen_k = 140;
  Call call;
  const Status made = make_call(*device_, &q, &k, &v, &out, &given, &call);
  ASSERT_TRUE(made.ok()) << made.message();
  const Status status = session()->run(call);
  ASSERT_TRUE(status.ok()) << status.message();
  copy.fetch();
  EXPECT_TRUE(t.right());
}

TEST_F(PackedGpu, CheckedListsAreReadBack) {
  test::CacheCase t("b=3,hq=4,hk=2,sq=70,sk=140,d=64,causal,packq,packk", {90, 7, 33}, false, {{5, 0, 70}});
  EXPECT_TRUE(device_->check_lists(PackedCopy(*driver_, &t).call(), nullptr).ok());
  t.q_starts[1] = -1;
  EXPECT_EQ(device_->check_lists(PackedCopy(*driver_, &t).call(), nullptr).message(),
            "cu_seqlens_q[1] is -1, expected 0 to 75: sequence 0 begins there, and q has 75 rows");
}

}  // namespace
}  // namespace gqa
