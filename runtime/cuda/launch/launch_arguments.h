// launch_arguments.h: what an attention kernel is handed, in the order of search/families/launch_plan.h.
// Owns: the arguments' memory, for as long as a launch takes; which of them a plan asks for.
// Never: launches.
// Threads: a value on the stack of the hot path.
#pragma once

#include "jit/device/append/new_tokens.h"
#include "jit/device/attention/common/cache_params.h"
#include "jit/device/attention/common/params.h"
#include "jit/device/attention/common/score_params.h"
#include "jit/device/attention/wgmma_flash/tensor_maps.h"
#include "runtime/call/append_plan.h"
#include "runtime/cuda/launch/launch_numbers.h"
#include "runtime/cuda/launch/tensor_map.h"

namespace gqa {

class LaunchArguments {
 public:
  // Before the first of the others: what every kernel takes.
  AttentionParams params;

  // Makes the others of the call. Tensor maps come through the driver.
  Status add(const Driver& driver, const Call& call, const LaunchPlan& plan) {
    for (const LaunchArgument argument : kLaunchArguments) {
      if (!plan.brings(argument)) continue;
      switch (argument) {
        case LaunchArgument::kMaps:
          if (Status s = tensor_maps(driver, call, plan.maps, &maps_); !s.ok()) return s;
          add(&maps_);
          break;
        case LaunchArgument::kCache:
          cache_ = cache_params_of(call);
          add(&cache_);
          break;
        case LaunchArgument::kTokens:
          tokens_ = new_tokens(call);
          add(&tokens_);
          break;
        case LaunchArgument::kScores:
          scores_ = score_params_of(call);
          add(&scores_);
          break;
      }
    }
    return {};
  }

  void** data() { return data_; }  // as cuLaunchKernel takes them

 private:
  void add(void* argument) { data_[count_++] = argument; }

  TensorMaps maps_;
  CacheParams cache_;
  NewTokens tokens_;
  ScoreParams scores_;
  void* data_[1 + std::size(kLaunchArguments)] = {&params};
  int count_ = 1;
};

}  // namespace gqa
