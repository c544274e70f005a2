// text.cc: see text.h.
#include "tools/cache/text.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "search/text.h"

namespace gqa::tools {
namespace {

constexpr std::size_t kShortKey = 12, kBetween = 2;
constexpr std::string_view kCut = "..";
constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 86400;

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string cut_text(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  return most <= kCut.size() ? text.substr(0, most) : text.substr(0, most - kCut.size()) + std::string(kCut);
}

// Three significant digits.
std::string with_unit(double value, const char* unit) {
  const char* format = value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : "%.2f";
  return number(format, value) + " " + unit;
}

}  // namespace

std::string time_text(double microseconds) {
  if (!(microseconds > 0)) return "-";
  if (microseconds < 1000) return with_unit(microseconds, "us");
  return microseconds < 1e6 ? with_unit(microseconds / 1000, "ms") : with_unit(microseconds / 1e6, "s");
}

std::string seconds_text(double seconds) {
  if (seconds < kMinute) return number("%.1f s", std::max(0.0, seconds));
  const auto whole = static_cast<std::int64_t>(seconds);
  return std::to_string(whole / kMinute) + " min " + std::to_string(whole % kMinute) + " s";
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  const auto value = static_cast<double>(bytes);
  if (value < 1e6) return with_unit(value / 1e3, "kB");
  return value < 1e9 ? with_unit(value / 1e6, "MB") : with_unit(value / 1e9, "GB");
}

std::string age_text(std::int64_t unix_seconds, std::int64_t now) {
  const std::int64_t age = now - unix_seconds;
  if (age < kMinute) return "now";
  if (age < kHour) return std::to_string(age / kMinute) + " min";
  return age < kDay ? std::to_string(age / kHour) + " h" : std::to_string(age / kDay) + " d";
}

std::string error_text(double error, double bound) {
  return "error " + number("%.2g", error) + " of " + number("%.2g", bound) + " allowed";
}

std::string short_key(const std::string& key) { return key.substr(0, kShortKey); }

std::string counted(std::int64_t count, const std::string& noun) {
  return grouped(count) + " " + noun + (count == 1 ? "" : "s");
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Table::text(const Terminal& terminal) const { return text_of(terminal, widths(), std::string::npos); }

std::string Table::text(const Terminal& terminal, int columns) const {
  const auto most = static_cast<std::size_t>(std::max(1, columns));
  std::vector<std::size_t> width = widths();
  std::size_t whole = kBetween * (width.size() - 1);
  for (const std::size_t each : width) whole += each;
  for (const auto& [column, least] : shrinking_) {
    if (whole <= most) break;
    const std::size_t spare = width[column] - std::min(width[column], least);
    const std::size_t cut = least == 0 ? spare : std::min(spare, whole - most);
    width[column] -= cut;
    whole -= cut + (least == 0 ? kBetween : 0);
  }
  return text_of(terminal, width, most);
}

std::string Table::text_of(const Terminal& terminal, const std::vector<std::size_t>& width, std::size_t columns) const {
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < width.size(); ++i) {
      if (width[i] == 0) continue;
      const std::string cell = cut_text(row[i], width[i]);
      line += cell;
      line.append(width[i] - cell.size() + kBetween, ' ');
    }
    line.resize(std::min(line.size(), columns));
    line.erase(line.find_last_not_of(' ') + 1);
    text += (&row == &rows_.front() ? terminal.bold(line) : line) + "\n";
  }
  return text;
}

}  // namespace gqa::tools
