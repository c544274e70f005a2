// text_items.cc: see text_items.h.
#include "search/problem/text_items.h"

#include <algorithm>
#include <limits>

#include "search/text.h"

namespace gqa {
namespace {

// "a, b or c"
std::string listed(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " " + std::string(last) + " " : ", ") + words[i];
  return text;
}

}  // namespace

Status TextItems::split(std::string_view text, TextItems* items) {
  for (const std::string_view part : split_text(text, ',')) {
    const auto equals = part.find('=');
    const bool alone = equals == std::string_view::npos;
    const Item item = {trim(part.substr(0, equals)), alone ? "1" : trim(part.substr(equals + 1)), alone};
    if (item.key.empty())
      return text_error("an empty item between commas: expected KEY=VALUE, as in b=1,hq=32,hk=8,sq=4096,d=128");
    for (const Item& other : items->items_)
      if (other.key == item.key) return text_error("key " + quote(item.key) + " is given twice: expected once");
    items->items_.push_back(item);
  }
  return {};
}

TextItems::Item* TextItems::find(std::string_view key, bool is_flag) {
  keys_.emplace_back(key);
  if (is_flag) flags_.push_back("'" + std::string(key) + "'");
  const auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.key == key; });
  if (found == items_.end()) return nullptr;
  found->read = is_flag || !found->alone;
  return found->read ? &*found : nullptr;
}

Status TextItems::flag(std::string_view key, bool* flag) {
  const Item* item = find(key, true);
  if (item == nullptr) return {};
  const std::string name(key);
  if (item->value != "0" && item->value != "1")
    return text_error(name + "=" + quote(item->value) + ": expected '" + name + "', " + name + "=0 or " + name + "=1");
  *flag = item->value == "1";
  return {};
}

Status TextItems::number(std::string_view key, std::int32_t least, std::int32_t* number) {
  const Item* item = find(key, false);
  if (item == nullptr) return {};
  std::int64_t read = 0;
  Status status = parse_number(key, item->value, least, std::numeric_limits<std::int32_t>::max(), &read);
  if (status.ok()) *number = static_cast<std::int32_t>(read);
  return status;
}

const std::string_view* TextItems::value(std::string_view key) {
  const Item* item = find(key, false);
  return item == nullptr ? nullptr : &item->value;
}

Status TextItems::check_all_read() const {
  for (const Item& item : items_) {
    if (item.read) continue;
    if (std::find(keys_.begin(), keys_.end(), item.key) == keys_.end() && !item.alone)
      return text_error("unknown key " + quote(item.key) + ": expected " + listed(keys_, "or"));
    return text_error(quote(item.key) + " has no value: expected KEY=VALUE (only " + listed(flags_, "and") +
                      " stand alone)");
  }
  return {};
}

}  // namespace gqa
