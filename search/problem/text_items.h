// text_items.h: the items of a problem's text, "key=value" or a flag alone, as its parts ask for them.
// Owns: splitting the text, each key once, the words for what is wrong with an item.
// Never: knows what a key means: the problem's parts ask for theirs, and what nobody asked for is unknown.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/status.h"

namespace gqa {

class TextItems {
 public:
  // The text must outlive it.
  static Status split(std::string_view text, TextItems* items);

  // Each leaves what is given as it was where the text has no such key.
  Status flag(std::string_view key, bool* flag);  // alone, =1 or =0
  Status number(std::string_view key, std::int32_t least, std::int32_t* number);
  // The value of a key; null where the text has none.
  const std::string_view* value(std::string_view key);

  // Once all parts have asked: that nothing is left over, and that what stands alone is a flag.
  Status check_all_read() const;

 private:
  struct Item {
    std::string_view key, value;
    bool alone = false, read = false;
  };
  Item* find(std::string_view key, bool is_flag);

  std::vector<Item> items_;
  std::vector<std::string> keys_, flags_;  // asked for, in this order
};

}  // namespace gqa
