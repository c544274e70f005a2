// main.cc: the command gqa-cache; see command.h.
#include "tools/cache/command.h"

int main(int count, char** arguments) { return gqa::tools::run(count, arguments); }
