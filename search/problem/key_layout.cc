// key_layout.cc: see key_layout.h.
#include "search/problem/key_layout.h"

#include "search/text.h"

namespace gqa {

std::string_view name(KeyLayout layout) {
  switch (layout) {
    case KeyLayout::kDense:
      return "dense";
    case KeyLayout::kTransposed:
      return "transposed";
    case KeyLayout::kPaged:
      return "paged";
  }
  return "";
}

Status check_keys(const Problem& p) {
  if (p.paged() && p.kv_lengths == Lengths::kPacked)
    return {Code::kOption, "keys are packed and lie in pages, expected one of them: pages have a table of their own"};
  if (p.keys_transposed() && needs_cache_params(p))
    return {Code::kOption,
            "keys are given as (head_dim, keys) beside a window or lengths, expected neither: such keys come from "
            "graphs"};
  if (p.paged() ? p.page >= 1 : p.page == 0) return {};
  return {Code::kSize, "page is " + std::to_string(p.page) + ", expected " +
                           (p.paged() ? "at least 1 key a page" : "0, since keys have no pages")};
}

std::vector<KeyNumber> key_numbers(const KernelTraits& p) {
  if (p.paged()) return {{"Page", p.page}};
  return {};
}

std::string keys_text(const KernelTraits& p) {
  return p.keys_transposed() ? ",ktrans" : p.paged() ? ",page=" + std::to_string(p.page) : "";
}

Status read_keys(TextItems* items, Problem* p) {
  bool transposed = false;
  if (Status status = items->flag("ktrans", &transposed); !status.ok()) return status;
  if (Status status = items->number("page", 1, &p->page); !status.ok()) return status;
  if (transposed && p->page != 0)
    return text_error("ktrans and page=" + std::to_string(p->page) + ": expected one of them");
  p->keys = transposed ? KeyLayout::kTransposed : p->page != 0 ? KeyLayout::kPaged : KeyLayout::kDense;
  return {};
}

}  // namespace gqa
