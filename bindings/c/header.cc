// header.cc: the headers alone, as C++.
#include "gqa.h"
#include "gqa_graph.h"

static_assert(sizeof(gqa_status) == sizeof(int), "a status travels as an int");
static_assert(sizeof(gqa_value) == 8, "a value travels in one register");

int main() { return gqa_version() == GQA_VERSION && gqa_last_error()[0] == '\0' ? 0 : 1; }
