// append_gpu_test.cc: appending on a GPU: every slot, query and list of each kind of call, by the kernel that the
// device compiles.
#include <string>

#include "runtime/cuda/cuda_device.h"
#include "tests/runtime/append_case.h"
#include "tests/runtime/cuda/cuda_fixture.h"

namespace gqa {
namespace {

using test::AppendCase;
using test::AppendKind;

// A case's buffers on the device. Needs the context to be current.
class AppendCopy {
 public:
  AppendCopy(const Driver& driver, AppendCase* t) : driver_(driver), case_(t) {
    Call& call = t->call;
    Append& a = t->append_;
    call.q = moved(t->q);
    call.k = moved(t->k);
    call.v = moved(t->v);
    call.kv_lengths = moved(t->lengths);
    if (t->kind.page > 0) call.page_table = moved(t->table);
    if (t->kind.packed) call.q_starts = a.starts = moved(t->starts);
    if (t->kind.adds) a.k = moved(t->k_new);
    a.v = moved(t->v_new);
    a.cos = moved(t->cos);
    a.sin = moved(t->sin);
    if (t->kind.own_rotary) a.rotary_starts = moved(t->rotary_starts);
    if (t->kind.batch_idx) a.batch_idx = moved(t->rows);
    if (t->kind.leftpad) a.leftpad = moved(t->leftpad);
  }
  ~AppendCopy() {
    for (const CUdeviceptr address : memory_) driver_.cuMemFree(address);
  }
  AppendCopy(const AppendCopy&) = delete;
  AppendCopy& operator=(const AppendCopy&) = delete;

  template <typename Number>
  std::vector<Number> fetched(const void* from, std::size_t count) const {
    std::vector<Number> host(count);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyDtoHAsync(host.data(), reinterpret_cast<CUdeviceptr>(from),
                                                      count * sizeof(Number), nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    return host;
  }

  // What is wrong once the call attends.
  std::string wrong(const Call& attended) const {
    const AppendCase& t = *case_;
    const auto table =
        t.kind.table() ? fetched<int>(attended.page_table, t.kBatch * t.out_columns()) : std::vector<int>();
    const auto starts = t.kind.starts() ? fetched<int>(attended.k_starts, t.kBatch) : std::vector<int>(t.kBatch);
    return t.wrong(fetched<std::uint16_t>(attended.k, t.k.size()), fetched<std::uint16_t>(attended.v, t.v.size()),
                   fetched<std::uint16_t>(attended.q, t.rotated_size()).data(),
                   fetched<int>(attended.kv_lengths, t.kBatch).data(), starts.data(), table.data());
  }

 private:
  template <typename Number>
  Number* moved(const std::vector<Number>& host) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemAlloc(&address, host.size() * sizeof(Number)));
    memory_.push_back(address);
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuMemcpyHtoDAsync(address, host.data(), host.size() * sizeof(Number), nullptr));
    EXPECT_EQ(CUDA_SUCCESS, driver_.cuStreamSynchronize(nullptr));
    return reinterpret_cast<Number*>(address);
  }

  const Driver& driver_;
  AppendCase* case_;
  std::vector<CUdeviceptr> memory_;
};

// Stands where attention does, and looks.
struct AppendLooker : LoadedProgram {
  explicit AppendLooker(const AppendCopy& given) : copy(given) {}
  Status run(const ProgramCall& call) const override {
    wrong = copy.wrong(*call.attention);
    return {};
  }
  const AppendCopy& copy;
  mutable std::string wrong = "nothing attended";
};

class AppendGpu : public test::CudaGpu {};

TEST_F(AppendGpu, PutsEveryRowWhereItBelongs) {
  Binary binary;
  ASSERT_TRUE(device_->compile(device_->append_kernel(), &binary).ok());
  std::unique_ptr<Appender> appender;
  const Status loaded = device_->load_appender(binary, &appender);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  int at = 0;
  for (const AppendKind& kind : test::append_kinds()) {
    AppendCase t(kind);
    const AppendCopy copy(*driver_, &t);
    const AppendLooker program(copy);
    ASSERT_TRUE(appender->run(t.call, program).ok()) << at;
    EXPECT_EQ(program.wrong, "") << "kind " << at++;
  }
}

}  // namespace
}  // namespace gqa
