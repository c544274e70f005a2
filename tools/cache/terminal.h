// terminal.h: what may be written to a stream.
// Owns: whether a stream is a terminal, how wide its lines may be, and colour, which is empty text anywhere else.
// Never: writes anything.
// Threads: values.
#pragma once

#include <cstdio>
#include <string>

namespace gqa::tools {

class Terminal {
 public:
  explicit Terminal(std::FILE* stream);

  bool live() const { return live_; }  // a line may be redrawn
  int columns() const;                 // of the terminal just now; elsewhere $COLUMNS, else 80

  // The text in a colour, or as it is: no terminal, $NO_COLOR, TERM=dumb.
  std::string bold(const std::string& text) const { return painted("1", text); }
  std::string dim(const std::string& text) const { return painted("2", text); }
  std::string red(const std::string& text) const { return painted("31", text); }
  std::string green(const std::string& text) const { return painted("32", text); }

 private:
  std::string painted(const char* code, const std::string& text) const;

  int file_;
  bool live_, colour_;
};

}  // namespace gqa::tools
