// layer_paths.cc: see layer_paths.h.
#include "cache/layer_paths.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cache/store.h"

namespace gqa::cache {
namespace {

void add(std::vector<std::string>* paths, const std::string& item) {
  const std::string path = Store::expanded(item);
  if (!path.empty() && std::find(paths->begin(), paths->end(), path) == paths->end()) paths->push_back(path);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> paths;
  std::string item;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ':') {
      add(&paths, item);
      item.clear();
      continue;
    }
    if (text.substr(at, 2) == "\\:") ++at;
    item += text[at];
  }
  add(&paths, item);
  return paths;
}

}  // namespace

std::vector<std::string> layer_paths(const std::string& given) {
  const char* variable = std::getenv("GQA_CACHE");
  std::vector<std::string> paths = split(given.empty() && variable != nullptr ? variable : given);
  if (paths.empty()) paths.push_back(Store::default_path());
  return paths;
}

std::string as_layer(const std::string& path) {
  std::string text;
  for (const char letter : path) text += letter == ':' ? std::string("\\:") : std::string(1, letter);
  return text;
}

}  // namespace gqa::cache
