// version.cc: see version.h.
#include "search/version.h"

#include <algorithm>
#include <vector>

#include "search/text.h"

namespace gqa {

int family_version(std::string_view family) {
  for (const FamilyVersion& known : kFamilyVersions) {
    if (known.name == family) return known.version;
  }
  return 0;
}

std::string families_text(std::span<const std::string_view> names) {
  std::vector<std::string_view> each(names.begin(), names.end());
  std::sort(each.begin(), each.end());
  each.erase(std::unique(each.begin(), each.end()), each.end());
  std::string text;
  for (const std::string_view name : each) {
    text += text.empty() ? "" : " ";
    text.append(name).append("=").append(std::to_string(family_version(name)));
  }
  return text;
}

std::string outdated_families(std::string_view text) {
  for (const std::string_view item : split_text(text, ' ')) {
    const std::string_view name = item.substr(0, item.find('='));
    const int version = family_version(name);
    if (version == 0) return "its kernels are of the family " + quote(name) + ", which is not known here";
    const std::string present = std::to_string(version);
    if (item != std::string(name) + "=" + present)
      return "its kernels are of " + quote(item) + ", expected version " + present;
  }
  return "";
}

}  // namespace gqa
