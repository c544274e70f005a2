// terminal.cc: see terminal.h.
#include "tools/cache/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace gqa::tools {
namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term != nullptr && std::string_view(term) == "dumb";
}

}  // namespace

Terminal::Terminal(std::FILE* stream)
    : file_(fileno(stream)), live_(isatty(file_) == 1 && !is_dumb()), colour_(live_ && !is_set("NO_COLOR")) {}

int Terminal::columns() const {
  winsize size{};
  return ioctl(file_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Terminal::painted(const char* code, const std::string& text) const {
  return colour_ ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

}  // namespace gqa::tools
