// host_handle.h: a handle on the host for tests of the C interface: no cache file, a small budget.
// Owns: the fixture and its handle.
// Never: logs. Threads: one.
#pragma once

#include <gtest/gtest.h>

#include "runtime/api/gqa.h"

namespace gqa::test {

class HostCApi : public ::testing::Test {
 protected:
  HostCApi() {
    gqa_options options = {};
    options.size = sizeof(options);
    options.device = "host";
    options.cache_mode = GQA_CACHE_OFF;
    options.tuning_budget = 0.2;
    EXPECT_EQ(gqa_create(&options, &handle_), GQA_OK) << gqa_last_error();
  }
  ~HostCApi() override { gqa_destroy(handle_); }

  gqa_handle handle_ = nullptr;
};

}  // namespace gqa::test
