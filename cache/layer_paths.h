// layer_paths.h: the files that one text names: "user.db:image.db:site.db".
// Owns: what separates them, how a ":" within a path is written, and which files are meant where none is named.
// Never: touches a file.
// Threads: pure, apart from reading the environment.
#pragma once

#include <string>
#include <vector>

namespace gqa::cache {

// At least one path, each expanded and once, the one to be written first. "": what $GQA_CACHE names, else the default
// path. "\:" stands for a ":" of a path; a backslash before anything else is one of the path. Nothing between two ":"
// names nothing.
std::vector<std::string> layer_paths(const std::string& given);

// The path as such a text names it.
std::string as_layer(const std::string& path);

}  // namespace gqa::cache
