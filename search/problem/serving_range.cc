// serving_range.cc: see serving_range.h.
#include "search/problem/serving_range.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>

#include "search/problem/mask.h"
#include "search/problem/text_items.h"
#include "search/rounding.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

// ---- the text

// "512" or "32k".
bool read_size(std::string_view text, std::int32_t* size) {
  const bool kilo = !text.empty() && text.back() == 'k';
  if (kilo) text.remove_suffix(1);
  const std::int64_t unit = kilo ? 1024 : 1;
  std::int64_t number = 0;
  if (!parse_number("", text, 1, kMost / unit, &number).ok()) return false;
  *size = static_cast<std::int32_t>(number * unit);
  return true;
}

Status read_range(TextItems* items, const char* key, SizeRange* range) {
  const std::string_view* text = items->value(key);
  if (text == nullptr) return {};
  const std::string given = std::string(key) + "=" + (text->empty() ? "(nothing)" : quote(*text));
  const auto dots = text->find("..");
  const std::string_view last = dots == std::string_view::npos ? *text : text->substr(dots + 2);
  SizeRange read;
  if (!read_size(trim(text->substr(0, dots)), &read.first) || !read_size(trim(last), &read.last))
    return text_error(given + ": expected N or N..N of whole numbers from 1 to 2147483647, as in " + key +
                      "=1..256, or 32k for 32768");
  if (read.first > read.last)
    return text_error(given + " runs backwards: expected the smaller number first, " + key + "=" +
                      std::string(trim(last)) + ".." + std::string(trim(text->substr(0, dots))));
  *range = read;
  return {};
}

Status read_ranges(TextItems* items, ServingRange* range) {
  const struct {
    const char* key;
    SizeRange* range;
  } all[] = {{"batch", &range->batch},
             {"kv", &range->kv},
             {"q", &range->q},
             {"chunk", &range->chunk},
             {"prefill", &range->prefill}};
  for (const auto& [key, read] : all)
    if (Status status = read_range(items, key, read); !status.ok()) return status;
  return items->number("page", 1, &range->page);
}

Status check_together(const ServingRange& range) {
  const char* const form = ": expected batch and kv at least, as in batch=1..256,kv=1..32k,page=16";
  const bool on_cache = range.q.any() || range.chunk.any();
  if (!range.batch.any()) return text_error(std::string("batch is missing") + form);
  if (on_cache && !range.kv.any()) return text_error(std::string("kv is missing") + form);
  if (!on_cache && (range.kv.any() || range.page != 0))
    return text_error("prefill reads no cache: expected q or chunk beside kv and page, as in q=1");
  if (range.page != 0 && round_up(range.kv.last, range.page) > kMost)
    return text_error("kv up to " + std::to_string(range.kv.last) + " in pages of " + std::to_string(range.page) +
                      ": expected at most 2147483647 keys in whole pages");
  return {};
}

// ---- the signatures

// The sizes of a range that are multiples of `unit`, of each bucket the first and the last. What lies between has the
// signature of one of them: all that a size decides beside its bucket is whether it is past a window.
std::vector<std::int32_t> ends_of_buckets(const SizeRange& range, std::int32_t unit) {
  std::vector<std::int32_t> sizes;
  const std::int64_t last = ceil_div(range.last, unit);
  for (std::int64_t at = ceil_div(range.first, unit); at <= last;) {
    const std::int64_t end = std::min(last, std::int64_t{bucket(static_cast<std::int32_t>(at * unit))} / unit);
    sizes.push_back(static_cast<std::int32_t>(at * unit));
    if (end > at) sizes.push_back(static_cast<std::int32_t>(end * unit));
    at = end + 1;
  }
  return sizes;
}

struct BySignature {
  std::size_t operator()(const Signature& signature) const { return static_cast<std::size_t>(hash(signature)); }
};

class Collector {
 public:
  explicit Collector(const Problem& layer) : left_(layer.window_left) {}

  // A call as its sizes make it; one that is too large is refused by all doors and needs no winner.
  void add(Problem call, std::int32_t batch, std::int32_t q_len, std::int32_t kv_len) {
    call.batch = batch;
    call.q_len = q_len;
    call.kv_len = kv_len;
    set_call_window(left_, 0, &call);
    if (!check(call).ok()) return;
    const Signature signature(call);
    if (known_.insert(signature).second) found_.push_back(signature);
  }
  void add_on_cache(const Problem& call, const ServingRange& range, const SizeRange& queries) {
    for (const std::int32_t q_len : ends_of_buckets(queries, 1))
      for (const std::int32_t batch : ends_of_buckets(range.batch, 1))
        for (const std::int32_t kv_len : ends_of_buckets(range.kv, std::max(1, range.page)))
          add(call, batch, q_len, kv_len);
  }
  std::vector<Signature> take() { return std::move(found_); }

 private:
  const std::int32_t left_;
  std::vector<Signature> found_;
  std::unordered_set<Signature, BySignature> known_;
};

}  // namespace

Status parse(std::string_view text, ServingRange* range) {
  if (trim(text).empty()) return text_error("an empty range: expected something like batch=1..256,kv=1..32k,page=16");
  TextItems items;
  ServingRange made;
  if (Status status = TextItems::split(text, &items); !status.ok()) return status;
  if (Status status = read_ranges(&items, &made); !status.ok()) return status;
  if (Status status = read_dtype(&items, &made.dtype); !status.ok()) return status;
  if (Status status = items.flag("lse", &made.lse); !status.ok()) return status;
  if (Status status = items.check_all_read(); !status.ok()) return status;
  if (!made.q.any() && !made.chunk.any() && !made.prefill.any()) made.q = {1, 1};
  if (Status status = check_together(made); !status.ok()) return status;
  *range = made;
  return {};
}

std::vector<Signature> signatures(const ServingRange& range, const Problem& layer) {
  Collector found(layer);
  Problem call = layer;
  call.set_types(range.dtype);
  call.lse = range.lse;
  call.keys = range.page > 0 ? KeyLayout::kPaged : KeyLayout::kDense;
  call.page = range.page;
  call.kv_lengths = Lengths::kEach;
  if (range.q.any()) found.add_on_cache(call, range, range.q);
  call.set_q_packed(true);
  if (range.chunk.any()) found.add_on_cache(call, range, range.chunk);
  call.keys = KeyLayout::kDense;
  call.page = 0;
  call.kv_lengths = Lengths::kPacked;
  if (!range.prefill.any()) return found.take();
  for (const std::int32_t length : ends_of_buckets(range.prefill, 1))
    for (const std::int32_t batch : ends_of_buckets(range.batch, 1)) found.add(call, batch, length, length);
  return found.take();
}

}  // namespace gqa
