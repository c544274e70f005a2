// target.h: what `warm` warms shapes for.
// Owns: Target, the same for a device that is here (tuned by a session) and for an architecture that is not (compiled
// only), and Warmed, what became of one shape.
// Never: prints, or reads the command line.
// Threads: one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/store.h"
#include "runtime/device.h"
#include "runtime/tuner/forecast.h"
#include "runtime/tuner/tuner.h"

namespace gqa::tools {

struct Warmed {
  Problem problem;
  std::string device;                          // its arch
  std::string failure;                         // "" if the shape is ready
  std::vector<std::string> warnings;           // of session and store
  std::string from;                            // "memory", "cache", "tuned"; of an architecture "compiled"
  std::string candidate;                       // the winner; of an architecture the most promising that compiled
  double median_us = 0, error = 0, bound = 0;  // 0: not measured
  double seconds = 0;
  std::map<std::string, int> outcomes;  // of the candidates looked at just now
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string arch() = 0;
  // What warming all of them would do. Throws Failure where a signature cannot be searched.
  virtual Outlook look(const std::vector<Problem>& signatures) = 0;
  virtual Warmed warm(const Problem& signature) = 0;
};

std::unique_ptr<Target> device_target(std::unique_ptr<Device> device, std::unique_ptr<cache::Store> store,
                                      const TunePolicy& policy, const ProgressFn& progress);
std::unique_ptr<Target> arch_target(std::unique_ptr<Device> device, std::shared_ptr<cache::Store> store,
                                    const TunePolicy& policy, const ProgressFn& progress);

}  // namespace gqa::tools
