// header.cc: gqa.h alone, as C++.
#include "gqa.h"

static_assert(sizeof(gqa_status) == sizeof(int), "a status travels as an int");

int main() { return gqa_version() == GQA_VERSION && gqa_last_error()[0] == '\0' ? 0 : 1; }
