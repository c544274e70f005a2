// mask.cc: see mask.h.
#include "search/problem/mask.h"

namespace gqa {
namespace {

bool window_is_wrong(const Problem& p) {
  const bool none = p.window_left == -1 && p.window_right == -1;
  return p.window_left < -1 || p.window_right < -1 || p.windowed() == none;
}

}  // namespace

std::string_view name(Mask mask) {
  switch (mask) {
    case Mask::kNone:
      return "none";
    case Mask::kCausal:
      return "causal";
    case Mask::kWindow:
      return "window";
  }
  return "";
}

KeyRange seen_keys(const Problem& p, SequenceSize of, std::int32_t position) {
  const std::int64_t own = std::int64_t{position} + of.keys - of.queries;
  const auto within = [&](std::int64_t key) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(key, 0, of.keys));
  };
  if (p.causal()) return {0, within(own + 1)};
  if (!p.windowed()) return {0, of.keys};
  return {p.window_left < 0 ? 0 : within(own - p.window_left),
          p.window_right < 0 ? of.keys : within(own + p.window_right + 1)};
}

KeyRange seen_keys(const Problem& p, SequenceSize of, std::int32_t first, std::int32_t end) {
  return {seen_keys(p, of, first).first, seen_keys(p, of, end - 1).end};
}

void set_window(std::int32_t left, std::int32_t right, Problem* p) {
  p->window_left = p->window_right = -1;
  p->mask = left < 0 && right < 0 ? Mask::kNone : left < 0 && right == 0 ? Mask::kCausal : Mask::kWindow;
  if (!p->windowed()) return;
  p->window_left = left;
  p->window_right = right;
}

void set_call_window(std::int32_t left, std::int32_t right, Problem* p) {
  if (left >= p->kv_len - 1) left = -1;
  if (right > 0 && right >= p->q_len - 1) right = -1;
  set_window(left, right, p);
}

std::int32_t most_keys_of_a_query(const Problem& p) {
  if (p.window_left < 0) return p.kv_len;
  const std::int64_t after = p.window_right < 0 ? p.q_len - 1 : p.window_right;
  return static_cast<std::int32_t>(std::min<std::int64_t>(p.kv_len, std::int64_t{p.window_left} + 1 + after));
}

std::int32_t most_keys_of_all_queries(const Problem& p) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(p.kv_len, std::int64_t{most_keys_of_a_query(p)} + p.q_len - 1));
}

// Under a causal mask row i sees i + kv - q + 1 keys, none where that is negative; the last row sees all of them.
double seen_pairs(const Problem& p) {
  const double q = p.q_len, kv = p.kv_len;
  if (p.causal()) return kv >= q ? q * (2 * kv - q + 1) / 2 : kv * (kv + 1) / 2;
  return q * most_keys_of_a_query(p);
}

Status check_mask(const Problem& p) {
  if (!window_is_wrong(p)) return {};
  return {Code::kOption, "the window is (" + std::to_string(p.window_left) + ", " + std::to_string(p.window_right) +
                             "), expected numbers of keys, or -1 for all" +
                             (p.windowed() ? " on one side at most" : "")};
}

// A single query sees every key up to its own, which is the last.
void simplify_mask(Problem* p) {
  if (p->q_len == 1) set_window(p->window_left, -1, p);
}

std::string mask_text(const Problem& p) {
  std::string text;
  if (p.causal() || (p.windowed() && p.window_right == 0)) text += ",causal";
  if (p.window_left >= 0) text += ",left=" + std::to_string(p.window_left);
  if (p.window_right > 0) text += ",right=" + std::to_string(p.window_right);
  return text;
}

// A causal mask is a window that shows nothing after the query's own key.
Status read_mask(TextItems* items, Problem* p) {
  bool causal = false;
  std::int32_t left = -1, right = -1;
  if (Status status = items->flag("causal", &causal); !status.ok()) return status;
  if (Status status = items->number("left", 0, &left); !status.ok()) return status;
  if (Status status = items->number("right", 0, &right); !status.ok()) return status;
  set_window(left, causal ? 0 : right, p);
  return {};
}

}  // namespace gqa
