// ptxas_log.cc: see ptxas_log.h.
#include "jit/ptxas_log.h"

#include <algorithm>
#include <charconv>

namespace gqa {
namespace {

// The largest number that stands right before `label` anywhere in the log.
int largest_before(std::string_view log, std::string_view label) {
  int largest = 0;
  for (size_t at = log.find(label); at != std::string_view::npos; at = log.find(label, at + 1)) {
    size_t first = at;
    while (first > 0 && log[first - 1] >= '0' && log[first - 1] <= '9') --first;
    int value = 0;
    std::from_chars(log.data() + first, log.data() + at, value);
    largest = std::max(largest, value);
  }
  return largest;
}

}  // namespace

PtxasReport read_ptxas_report(std::string_view log) {
  return {largest_before(log, " registers"), largest_before(log, " bytes spill stores"),
          largest_before(log, " bytes smem")};
}

std::string first_error(std::string_view log, std::string_view fallback) {
  const size_t error = log.find("error");
  if (error == std::string_view::npos) return std::string(fallback);
  const size_t begin = log.rfind('\n', error);
  const size_t end = log.find('\n', error);
  return std::string(log.substr(
      begin == std::string_view::npos ? 0 : begin + 1,
      (end == std::string_view::npos ? log.size() : end) - (begin == std::string_view::npos ? 0 : begin + 1)));
}

}  // namespace gqa
