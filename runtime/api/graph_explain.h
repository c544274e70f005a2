// graph_explain.h: a search told to people.
// Owns: the lines of gqa_program_explain: the graph, what was searched and proved, what was measured, who won; all of
// it from the evidence kept with the winner, so that a program from the cache says the same as on the day it was found.
// Never: measures or decides.
// Threads: pure functions.
#pragma once

#include <string>

#include "runtime/session/graph_answer.h"

namespace gqa {

// graph: as the user built it.
std::string explain(const KernelGraph& graph, const GraphAnswer& answer);

}  // namespace gqa
