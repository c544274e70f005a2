// errors.h: how a command says that it cannot go on.
// Owns: Usage (the command line is wrong: exit code 2) and Failure (something failed: exit code 1).
// Never: leaves the program: main.cc catches both and prints them on standard error.
// Threads: values.
#pragma once

#include <stdexcept>

namespace gqa::tools {

class Usage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gqa::tools
