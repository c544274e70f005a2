// diagnosis.h: what a first call would find on this machine.
// Owns: Diagnosis: the device, the driver and the compiler, the cache's files, what a decode and a prefill would cost,
// and what is missing, with what mends it.
// Never: begins a file, changes one, tunes, or prints.
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tuner/forecast.h"

namespace gqa::tools {

struct CacheFile {
  std::string path;
  bool first = false;  // the one that is written; the others are read beneath it
  bool exists = false;
  bool writable = false;  // of one that is not there: whether it can be begun
  std::string owner;      // "": it is not there
  std::int64_t bytes = 0, winners = 0;
  std::string complaint;  // why it cannot be used; "": nothing
};

struct FirstCall {
  std::string name;     // "a decode on 4,096 keys"
  std::string problem;  // as gqa-cache writes it
  Outlook outlook;      // of this one call
};

struct Missing {
  std::string what, mend;  // mend: a command, or what to do
};

struct Diagnosis {
  std::string device;  // its identity; "": none can be opened
  bool gpu = false;
  std::string driver, nvrtc;  // in words, also why there is none
  std::vector<CacheFile> caches;
  std::vector<FirstCall> first_calls;
  std::vector<Missing> missing;  // what keeps calls from being served, or from being remembered
};

// `device` as gqa-cache warm takes it, another throws Usage; `db` as cache::Store::Options::path.
Diagnosis diagnose(const std::string& device, const std::string& db);

}  // namespace gqa::tools
