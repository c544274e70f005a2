// documented_test.cc: the program that the docs show is one.
#include <fstream>
#include <string>

#include "search/graph/prove/equivalence.h"
#include "tests/search/graph/graphs.h"
#include "tests/search/graph/programs.h"

namespace gqa {
namespace {

using programs::kNaive;

// The µGraph that docs/mugraph.md shows, without its remarks.
std::string documented() {
  std::ifstream file(GQA_DOCS "/mugraph.md");
  std::string line, text;
  while (std::getline(file, line) && line != "graph 1") {
  }
  do {
    text += line.substr(0, line.find('#')) + "\n";
  } while (std::getline(file, line) && line != "```");
  return text;
}

TEST(Equivalence, TheDocumentedProgramIsAttention) {
  const Status status = prove_equal(graph_of(kNaive), graph_of(documented()), 1, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace gqa
