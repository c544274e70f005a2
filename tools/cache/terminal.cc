// terminal.cc: see terminal.h.
#include "tools/cache/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "search/text.h"

namespace gqa::tools {
namespace {

constexpr int kColumns = 80, kMostColumns = 100000;

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

// What a shell says of its window; 80 if it says nothing that can be a width.
int columns_told() {
  const char* told = std::getenv("COLUMNS");
  std::int64_t columns = 0;
  const bool given = told != nullptr && parse_number("COLUMNS", told, 1, kMostColumns, &columns).ok();
  return given ? static_cast<int>(columns) : kColumns;
}

}  // namespace

Terminal::Terminal(std::FILE* stream)
    : file_(fileno(stream)), live_(isatty(file_) == 1 && !is_dumb()), colour_(live_ && !is_set("NO_COLOR")) {}

int Terminal::columns() const {
  winsize size{};
  return ioctl(file_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : columns_told();
}

std::string Terminal::painted(const char* code, const std::string& text) const {
  return colour_ ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

}  // namespace gqa::tools
