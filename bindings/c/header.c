/* header.c: the headers alone, as C11, and the size and order of what they promise. header.cc says the same as C++. */
#include "gqa.h"
#include "gqa_graph.h"

_Static_assert(offsetof(gqa_call, size) == 0, "gqa_call starts with its own size");
_Static_assert(offsetof(gqa_options, size) == 0, "gqa_options starts with its own size");
_Static_assert(offsetof(gqa_shape, size) == 0, "gqa_shape starts with its own size");
_Static_assert(offsetof(gqa_serving, size) == 0, "gqa_serving starts with its own size");
_Static_assert(offsetof(gqa_search_options, size) == 0, "gqa_search_options starts with its own size");
_Static_assert(sizeof(gqa_value) == 8, "a value travels in one register");
_Static_assert(GQA_OK == 0, "success is zero");

int main(void) { return gqa_version() == GQA_VERSION ? 0 : 1; }
