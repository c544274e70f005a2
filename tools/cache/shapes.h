// shapes.h: which shapes a command line asks for.
// Owns: --shape, --shapes, --model and --serve, read into problems; what two shapes of one length bucket have in
// common. Never: opens a device or a cache. Threads: values.
#pragma once

#include <string>
#include <vector>

#include "search/problem/problem.h"

namespace CLI {
class App;
}

namespace gqa::tools {

struct ShapeOptions {
  std::vector<std::string> specs, files, models;
  std::vector<std::string> serves;  // ranges of calls, instead of the models' usual shapes
};

void add_shape_options(CLI::App* command, ShapeOptions* options);

// The signatures of everything asked for, each once, in the order given: --shape, then --shapes, then --model,
// whose calls are those of each --serve where there is one. Throws Usage, naming what cannot be read.
std::vector<Problem> read_shapes(const ShapeOptions& options);

// A JSON array of SPEC strings and of objects with the same keys: ["hq=32,sq=512,d=128", {"hq": 32, "sq": 1, "d":
// 128}]. `origin` names the text in errors. Throws Usage.
std::vector<Problem> shapes_from_json(const std::string& text, const std::string& origin);

}  // namespace gqa::tools
