// c_api.cc: the C interface as a program meets it: through libgqa.so and gqa.h alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/gqa.h"
#include "tests/runtime/api/made_shape.h"
#include "tests/sanitized.h"

namespace {

gqa_options host_options() {
  gqa_options options = {};
  options.size = sizeof(options);
  options.device = "host";
  options.cache_mode = GQA_CACHE_OFF;
  return options;
}

// Every message of the log becomes a line.
gqa_options logging_to(std::vector<std::string>* lines) {
  gqa_options options = host_options();
  options.log_user = lines;
  options.log = [](void* user, gqa_log_level, const char* message) {
    static_cast<std::vector<std::string>*>(user)->push_back(message);
  };
  return options;
}

struct HostTensor {
  explicit HostTensor(std::initializer_list<std::int64_t> sizes) : shape(sizes) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    data.assign(static_cast<std::size_t>(count), 0x3f80);  // 1.0 in bfloat16
  }
  const DLTensor* get() {
    tensor = {data.data(), {kDLCPU, 0}, static_cast<int>(shape.size()), {kDLBfloat, 16, 1}, shape.data(), nullptr, 0};
    return &tensor;
  }
  std::vector<std::int64_t> shape;
  std::vector<std::uint16_t> data;
  DLTensor tensor{};
};

struct Handle {
  explicit Handle(const gqa_options& options) { status = gqa_create(&options, &handle); }
  ~Handle() { gqa_destroy(handle); }
  gqa_handle handle = nullptr;
  gqa_status status;
};

TEST(CApi, StatusesHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int status = 0; status < 40; ++status) names.insert(gqa_status_string(static_cast<gqa_status>(status)));
  EXPECT_EQ(names.size(), 24u);  // 23 statuses, and one name for what is none
  EXPECT_STREQ(gqa_status_string(GQA_ERROR_RANK), "GQA_ERROR_RANK");
  EXPECT_STREQ(gqa_status_string(GQA_OK), "GQA_OK");
  EXPECT_NE(gqa_status_string(static_cast<gqa_status>(31)), nullptr);
  EXPECT_EQ(gqa_version(), GQA_VERSION);
}

TEST(CApi, NullsAreRefusedAndDestroyTakesNull) {
  gqa_destroy(nullptr);
  EXPECT_EQ(gqa_create(nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_run(nullptr, nullptr, nullptr, nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_NE(std::string(gqa_last_error()).find("handle is NULL"), std::string::npos);
  EXPECT_EQ(gqa_warm(nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  const Handle host(host_options());
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  EXPECT_EQ(gqa_warm(host.handle, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_run(host.handle, nullptr, nullptr, nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_NE(std::string(gqa_last_error()).find("q is NULL"), std::string::npos);
}

TEST(CApi, AFailedCreateLeavesANullHandleAndSaysWhy) {
  gqa_options options = host_options();
  options.device = "abacus";
  gqa_handle handle = reinterpret_cast<gqa_handle>(&options);
  EXPECT_NE(gqa_create(&options, &handle), GQA_OK);
  EXPECT_EQ(handle, nullptr);
  EXPECT_NE(std::string(gqa_last_error()).find("abacus"), std::string::npos) << gqa_last_error();
  options.size = 3;
  EXPECT_EQ(gqa_create(&options, &handle), GQA_ERROR_STRUCT_SIZE);
}

TEST(CApi, TheLastErrorIsThisThreadsAndASuccessClearsIt) {
  EXPECT_EQ(gqa_warm(nullptr, nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_STRNE(gqa_last_error(), "");
  std::string elsewhere = "unset";
  std::thread([&] { elsewhere = gqa_last_error(); }).join();
  EXPECT_EQ(elsewhere, "");
  const Handle host(host_options());
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  EXPECT_STREQ(gqa_last_error(), "");
}

TEST(CApi, WarmsThenRunsAndLogsOneLineATime) {
  std::vector<std::string> lines;
  const Handle host(logging_to(&lines));
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  const gqa_shape shape = gqa::test::made_shape({1, 3, 9, 4, 2, 32});
  ASSERT_EQ(gqa_warm(host.handle, &shape), GQA_OK) << gqa_last_error();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back().find('\n'), std::string::npos);
  EXPECT_NE(lines.back().find("hq=4,hk=2"), std::string::npos);
  const std::size_t told = lines.size();
  HostTensor q({1, 3, 4, 32}), k({1, 9, 2, 32}), v({1, 9, 2, 32}), out({1, 3, 4, 32});
  out.data.assign(out.data.size(), 0);
  ASSERT_EQ(gqa_run(host.handle, q.get(), k.get(), v.get(), out.get()), GQA_OK) << gqa_last_error();
  EXPECT_EQ(lines.size(), told);                                            // a hit has nothing to say
  for (const std::uint16_t element : out.data) ASSERT_EQ(element, 0x3f80);  // the mean of ones
}

TEST(CApi, WarmsCallsWithLogSumExpApart) {
  std::vector<std::string> lines;
  const Handle host(logging_to(&lines));
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  gqa_shape shape = gqa::test::made_shape({1, 3, 9, 4, 2, 32});
  shape.lse = 1;
  ASSERT_EQ(gqa_warm(host.handle, &shape), GQA_OK) << gqa_last_error();
  const std::size_t told = lines.size();
  HostTensor q({1, 3, 4, 32}), k({1, 9, 2, 32}), v({1, 9, 2, 32}), out({1, 3, 4, 32});
  float sums[4 * 3] = {};
  std::int64_t shape_of_lse[] = {1, 4, 3};
  const DLTensor lse = {sums, {kDLCPU, 0}, 3, {kDLFloat, 32, 1}, shape_of_lse, nullptr, 0};
  gqa_call call{};
  call.size = sizeof call;
  call.lse = &lse;
  ASSERT_EQ(gqa_run_ex(host.handle, q.get(), k.get(), v.get(), out.get(), &call), GQA_OK) << gqa_last_error();
  EXPECT_EQ(lines.size(), told);  // a hit
  // Nine scores of sqrt(32), of ones.
  for (const float sum : sums) EXPECT_NEAR(sum, std::sqrt(32.0) + std::log(9.0), 1e-3);
  ASSERT_EQ(gqa_run(host.handle, q.get(), k.get(), v.get(), out.get()), GQA_OK) << gqa_last_error();
  EXPECT_GT(lines.size(), told);  // another problem
}

TEST(CApi, CachedOnlyWithoutACacheFailsClearly) {
  gqa_options options = host_options();
  options.tuning = GQA_TUNE_CACHED_ONLY;
  const Handle host(options);
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  HostTensor q({1, 3, 4, 32}), k({1, 9, 2, 32}), v({1, 9, 2, 32}), out({1, 3, 4, 32});
  EXPECT_EQ(gqa_run(host.handle, q.get(), k.get(), v.get(), out.get()), GQA_ERROR_NOT_CACHED);
  EXPECT_NE(std::string(gqa_last_error()).find("sq=3"), std::string::npos) << gqa_last_error();
}

TEST(CApi, ManyThreadsShareAHandle) {
  const Handle host(host_options());
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&host, i] {
      HostTensor q({1, 3, 4, 32}), k({1, 9, 2, 32}), v({1, 9, 2, 32}), out({1, 3, 4, 32});
      if (i % 2 == 1) q.shape[3] = 31;
      const gqa_status status = gqa_run(host.handle, q.get(), k.get(), v.get(), out.get());
      EXPECT_EQ(status, i % 2 == 1 ? GQA_ERROR_SHAPE : GQA_OK) << gqa_last_error();
      EXPECT_EQ(std::strlen(gqa_last_error()) == 0, i % 2 == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CApi, CancelsWhatIsInProgressAndNothingLater) {
  gqa_options options = host_options();
  options.tuning_budget = 60;
  const Handle host(options);
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  ASSERT_EQ(gqa_cancel(host.handle), GQA_OK);  // nothing is in progress
  const gqa_shape large = gqa::test::made_shape({1, 4096, 16384, 32, 32, 128});
  gqa_status status = GQA_OK;
  std::string message;
  std::thread caller([&] {
    status = gqa_warm(host.handle, &large);  // a run alone takes seconds
    message = gqa_last_error();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto told = std::chrono::steady_clock::now();
  EXPECT_EQ(gqa_cancel(host.handle), GQA_OK);
  caller.join();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - told;
#if !defined(__SANITIZE_THREAD__)  // which makes each step of the reference many times as long
  EXPECT_LT(passed.count(), gqa::test::kSanitized ? 5 : 0.5);
#endif
  EXPECT_EQ(status, GQA_ERROR_CANCELLED) << message;
  EXPECT_NE(message.find("gqa_cancel"), std::string::npos) << message;
  HostTensor q({1, 3, 4, 32}), k({1, 9, 2, 32}), v({1, 9, 2, 32}), out({1, 3, 4, 32});
  EXPECT_EQ(gqa_run(host.handle, q.get(), k.get(), v.get(), out.get()), GQA_OK) << gqa_last_error();
  EXPECT_EQ(gqa_cancel(nullptr), GQA_ERROR_NULL_ARGUMENT);
}

TEST(CApi, PreparesWithoutRunningAndRunsWithoutTuning) {
  const Handle host(host_options());
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  HostTensor q({1, 3, 4, 32}), k({1, 9, 2, 32}), v({1, 9, 2, 32}), out({1, 3, 4, 32});
  out.data[0] = 0;  // all else is as it will be
  const std::vector<std::uint16_t> before = out.data;
  EXPECT_EQ(gqa_run_ready(host.handle, q.get(), k.get(), v.get(), out.get(), nullptr), GQA_ERROR_NOT_CACHED);
  std::int64_t bytes = -1;
  const auto size = [&](std::int64_t* into) {
    return gqa_workspace_size(host.handle, q.get(), k.get(), v.get(), out.get(), nullptr, into);
  };
  EXPECT_EQ(size(&bytes), GQA_ERROR_NOT_CACHED);
  EXPECT_NE(std::string(gqa_last_error()).find("gqa_prepare"), std::string::npos);
  EXPECT_EQ(bytes, -1);
  EXPECT_EQ(gqa_prepare(host.handle, q.get(), k.get(), v.get(), out.get(), nullptr), GQA_OK) << gqa_last_error();
  EXPECT_EQ(out.data, before);
  EXPECT_EQ(size(&bytes), GQA_OK) << gqa_last_error();
  EXPECT_EQ(bytes, 0);  // a host's
  EXPECT_EQ(size(nullptr), GQA_ERROR_NULL_ARGUMENT);
  EXPECT_EQ(gqa_run_ready(host.handle, q.get(), k.get(), v.get(), out.get(), nullptr), GQA_OK) << gqa_last_error();
  EXPECT_NE(out.data, before);
}

TEST(CApi, ACallWithoutAQueryHasNothingToDo) {
  gqa_options options = host_options();
  options.tuning = GQA_TUNE_CACHED_ONLY;
  const Handle host(options);
  ASSERT_EQ(host.status, GQA_OK) << gqa_last_error();
  HostTensor q({2, 0, 4, 32}), k({2, 9, 2, 32}), v({2, 9, 2, 32}), out({2, 0, 4, 32});
  std::int64_t bytes = -1;
  EXPECT_EQ(gqa_run(host.handle, q.get(), k.get(), v.get(), out.get()), GQA_OK) << gqa_last_error();
  EXPECT_EQ(gqa_run_ready(host.handle, q.get(), k.get(), v.get(), out.get(), nullptr), GQA_OK) << gqa_last_error();
  EXPECT_EQ(gqa_prepare(host.handle, q.get(), k.get(), v.get(), out.get(), nullptr), GQA_OK) << gqa_last_error();
  EXPECT_EQ(gqa_workspace_size(host.handle, q.get(), k.get(), v.get(), out.get(), nullptr, &bytes), GQA_OK);
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(gqa_run(nullptr, q.get(), k.get(), v.get(), out.get()), GQA_ERROR_NULL_ARGUMENT);
  // New keys are written whatever asks for them: such a call is not taken for one with nothing to do.
  gqa_call call = {};
  call.size = sizeof(call);
  HostTensor fresh({2, 1, 2, 32});
  call.k_new = fresh.get();
  call.v_new = call.k_new;
  EXPECT_NE(gqa_run_ex(host.handle, q.get(), k.get(), v.get(), out.get(), &call), GQA_OK);
}

}  // namespace
