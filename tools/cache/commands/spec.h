// spec.h: the grammar of SPEC, written down once.
// Owns: the text that `gqa-cache help spec` prints. docs/spec.md holds the same text, and a test fails when they
// differ.
// Never: reads a SPEC: search/problem/problem.h does, and models.h reads --model. Tests hold this text to both.
// Threads: pure functions.
#pragma once

#include <string>

namespace gqa::tools {

std::string spec_text();

}  // namespace gqa::tools
