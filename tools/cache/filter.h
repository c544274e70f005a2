// filter.h: which rows of the cache a listing shows.
// Owns: --shape, --device, --newer-than and --older-than of a listing, and what passes them.
// Never: opens the cache, or reads a row's blobs.
// Threads: values.
#pragma once

#include <cstdint>
#include <string>

#include "cache/store.h"

namespace CLI {
class App;
}

namespace gqa::tools {

struct FilterOptions {
  std::string shape, device, newer, older;  // "": everything passes
  bool any() const { return !(shape.empty() && device.empty() && newer.empty() && older.empty()); }
};

void add_filter_options(CLI::App* command, FilterOptions* options);

class Filter {
 public:
  // `now`: unix seconds. Throws Usage, naming what cannot be read.
  Filter(const FilterOptions& options, std::int64_t now);

  bool passes(const cache::WinnerRow& row) const;
  bool passes(const cache::KernelRow& row) const;

 private:
  bool passes(const std::string& shape, const std::string& device, std::int64_t created) const;

  std::string shape_, device_;
  std::int64_t from_, to_;  // unix seconds
};

// Whether a call of that shape with these items of SPEC changed would still be that shape: sizes are those of its
// bucket. "hq=32,sk=4000" is in "b=1,hq=32,hk=8,sq=1,sk=4096,d=128,dtype=bf16".
bool shape_has(const std::string& shape, const std::string& items);

// "7d", "12h", "30m", or a number of days, in seconds. Throws Usage, `option` being where it was given.
std::int64_t age_seconds(const std::string& option, const std::string& text);

}  // namespace gqa::tools
