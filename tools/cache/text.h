// text.h: numbers and tables as people read them.
// Owns: units, ages, short keys, and columns that line up and fit.
// Never: prints.
// Threads: pure functions; a Table is a value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/cache/terminal.h"

namespace gqa::tools {

std::string time_text(double microseconds);  // "12.3 us", "4.56 ms"; "-" if not above 0: not measured
std::string seconds_text(double seconds);    // "3.2 s", "2 min 5 s"
std::string bytes_text(std::int64_t bytes);  // "812 B", "1.5 MB" (powers of 1000)
std::string age_text(std::int64_t unix_seconds, std::int64_t now);  // "5 min"; "now" within a minute
std::string error_text(double error, double bound);                 // "error 0.98 of 1.3 allowed"
std::string short_key(const std::string& key);                      // its first 12 digits
std::string counted(std::int64_t count, const std::string& noun);   // "1 kernel", "1,234 kernels"

// Left-aligned columns two spaces apart, the head in bold, no blanks at line ends.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Where the lines are too long, cells of this column are cut, to no less than `least` characters, ".." at the end;
  // `least` 0: the column is left out. Where there are several such columns, the first called suffers first.
  void may_shrink(std::size_t column, std::size_t least) { shrinking_.emplace_back(column, least); }
  std::string text(const Terminal& terminal) const;
  // No line is longer than that: what shrinking cannot save is cut off at the end.
  std::string text(const Terminal& terminal, int columns) const;

 private:
  std::vector<std::size_t> widths() const;
  std::string text_of(const Terminal& terminal, const std::vector<std::size_t>& widths, std::size_t columns) const;

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::pair<std::size_t, std::size_t>> shrinking_;
};

}  // namespace gqa::tools
