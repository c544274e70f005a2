// closure.cc: see closure.h.
#include "jit/closure.h"

#include <xxhash.h>

#include <algorithm>

#include "search/graph/ir/canonical.h"

namespace gqa {
namespace {

constexpr std::string_view kBlank = " \t";

// The name between quotes or angle brackets; "" if the line includes nothing.
std::string_view included_name(std::string_view line) {
  const auto skip = [&line](std::size_t count) {
    line.remove_prefix(std::min(count, line.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  };
  skip(0);
  if (!line.starts_with('#')) return "";
  skip(1);
  if (!line.starts_with("include")) return "";
  skip(std::string_view("include").size());
  if (!line.starts_with('"') && !line.starts_with('<')) return "";
  const std::size_t end = line.find(line.front() == '"' ? '"' : '>', 1);
  return end == std::string_view::npos ? "" : line.substr(1, end - 1);
}

class Walk {
 public:
  explicit Walk(const std::vector<EmbeddedHeader>& headers) : headers_(headers) {}

  void visit(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (const std::string_view name = included_name(text.substr(0, end)); !name.empty()) include(name);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  std::vector<const EmbeddedHeader*> take() { return std::move(met_); }

 private:
  void include(std::string_view name) {
    const auto at = std::find_if(headers_.begin(), headers_.end(), [&](const auto& h) { return h.name == name; });
    if (at == headers_.end() || std::find(met_.begin(), met_.end(), &*at) != met_.end()) return;
    met_.push_back(&*at);
    visit(at->text);
  }

  const std::vector<EmbeddedHeader>& headers_;
  std::vector<const EmbeddedHeader*> met_;
};

// The length first: no two lists of texts run together to the same bytes.
void append(std::string* all, std::string_view text) {
  *all += std::to_string(text.size()) + ":";
  all->append(text);
}

}  // namespace

std::vector<const EmbeddedHeader*> included_headers(std::string_view source,
                                                    const std::vector<EmbeddedHeader>& headers) {
  Walk walk(headers);
  walk.visit(source);
  return walk.take();
}

std::string closure_hash(std::string_view source, const std::vector<EmbeddedHeader>& headers) {
  std::string all;
  append(&all, source);
  for (const EmbeddedHeader* header : included_headers(source, headers)) {
    append(&all, header->name);
    append(&all, header->text);
  }
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return to_text(Digest{hash.high64, hash.low64});
}

}  // namespace gqa
