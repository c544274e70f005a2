// testing.h: what the tests of gqa.hpp share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "gqa.hpp"

namespace gqa::test {

constexpr std::int64_t kQHeads = 2, kDim = 32;  // of the calls that are compared with a plain computation

// A handle's options: the host device, tuned for a moment, remembered by the handle alone.
inline gqa_options host() {
  gqa_options options = {};
  options.device = "host";
  options.cache_mode = GQA_CACHE_OFF;
  options.tuning_budget = 0.3;
  return options;
}

// The status that a step throws. `words`: what its message has to say; it is never empty.
inline gqa_status status_of(const std::function<void()>& step, const std::string& words = "") {
  try {
    step();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    return error.status();
  }
  return GQA_OK;
}

}  // namespace gqa::test
