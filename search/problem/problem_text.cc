// problem_text.cc: a problem as one line of text, both ways; see problem.h.
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "search/problem/problem.h"
#include "search/problem/walk.h"
#include "search/text.h"

namespace gqa {
namespace {

// What a text says, before what its items say together is judged.
struct ReadProblem {
  Problem problem;
  bool causal = false, transposed = false, lengths_differ = false, without_tma = false;
  std::int32_t left = -1, right = -1;
};

Status parse_dtype(std::string_view text, DType* dtype) {
  if (text == "bf16" || text == "bfloat16") {
    *dtype = DType::kBF16;
  } else if (text == "f16" || text == "fp16" || text == "float16") {
    *dtype = DType::kF16;
  } else {
    return text_error("dtype=" + quote(text) + ": expected bf16 or f16");
  }
  return {};
}

// A key that may stand alone: "causal", causal=1 or causal=0.
Status parse_flag(const std::string& key, std::string_view text, bool* flag) {
  if (text != "0" && text != "1")
    return text_error(key + "=" + quote(text) + ": expected '" + key + "', " + key + "=0 or " + key + "=1");
  *flag = text == "1";
  return {};
}

Status parse_align(std::string_view text, std::uint16_t* align) {
  if (text != "2" && text != "16") return text_error("align=" + quote(text) + ": expected 16 or 2");
  *align = text == "2" ? 2 : 16;
  return {};
}

struct FlagKey {
  std::string_view key;
  bool* flag;
};
struct SizeKey {
  std::string_view key;
  std::int64_t least;
  std::int32_t* size;
};

bool stands_alone(std::string_view key) {
  constexpr std::string_view kFlags[] = {"causal", "notma", "ktrans", "lens", "lse"};
  return std::find(std::begin(kFlags), std::end(kFlags), key) != std::end(kFlags);
}

Status parse_item(std::string_view key, std::string_view value, ReadProblem* read) {
  Problem& p = read->problem;
  if (key == "dtype") return parse_dtype(value, &p.dtype);
  if (key == "align") return parse_align(value, &p.align);
  for (const FlagKey& flag :
       {FlagKey{"causal", &read->causal}, FlagKey{"notma", &read->without_tma}, FlagKey{"ktrans", &read->transposed},
        FlagKey{"lens", &read->lengths_differ}, FlagKey{"lse", &p.lse}}) {
    if (flag.key == key) return parse_flag(std::string(key), value, flag.flag);
  }
  for (const SizeKey& size : {SizeKey{"b", 1, &p.batch}, SizeKey{"hq", 1, &p.q_heads}, SizeKey{"hk", 1, &p.kv_heads},
                              SizeKey{"sq", 1, &p.q_len}, SizeKey{"sk", 1, &p.kv_len}, SizeKey{"d", 1, &p.head_dim},
                              SizeKey{"dv", 1, &p.head_dim_v}, SizeKey{"page", 1, &p.page},
                              SizeKey{"left", 0, &read->left}, SizeKey{"right", 0, &read->right}}) {
    if (size.key != key) continue;
    std::int64_t number = 0;
    Status status = parse_number(key, value, size.least, std::numeric_limits<std::int32_t>::max(), &number);
    *size.size = static_cast<std::int32_t>(number);
    return status;
  }
  return text_error("unknown key " + quote(key) +
                    ": expected b, hq, hk, sq, sk, d, dv, dtype, causal, left, right, page, lens, align, notma, ktrans "
                    "or lse");
}

// "key=value", or a flag alone.
Status split_item(std::string_view item, std::string_view* key, std::string_view* value) {
  const auto equals = item.find('=');
  *key = trim(item.substr(0, equals));
  if (equals != std::string_view::npos) {
    *value = trim(item.substr(equals + 1));
    return {};
  }
  *value = "1";
  if (stands_alone(*key)) return {};
  if (key->empty())
    return text_error("an empty item between commas: expected KEY=VALUE, as in b=1,hq=32,hk=8,sq=4096,d=128");
  return text_error(quote(*key) +
                    " has no value: expected KEY=VALUE (only 'causal', 'notma', 'ktrans', 'lens' and 'lse' stand "
                    "alone)");
}

Status check_required(const Problem& p) {
  const struct {
    const char* key;
    std::int32_t size;
  } required[] = {{"hq", p.q_heads}, {"sq", p.q_len}, {"d", p.head_dim}};
  for (const auto& [key, size] : required) {
    if (size == 0)
      return text_error(std::string(key) +
                        " is missing: expected at least hq, sq and d, as in hq=32,hk=8,sq=4096,d=128");
  }
  return {};
}

// A causal mask is a window that shows nothing after the query's own key.
Status put_together(const ReadProblem& read, Problem* p) {
  *p = read.problem;
  if (Status status = check_required(*p); !status.ok()) return status;
  if (read.transposed && p->page != 0)
    return text_error("ktrans and page=" + std::to_string(p->page) + ": expected one of them");
  if (p->batch == 0) p->batch = 1;
  if (p->kv_heads == 0) p->kv_heads = p->q_heads;
  if (p->kv_len == 0) p->kv_len = p->q_len;
  if (p->head_dim_v == 0) p->head_dim_v = p->head_dim;
  p->tma = p->align == 16 && !read.without_tma;
  p->keys = read.transposed ? KeyLayout::kTransposed : p->page != 0 ? KeyLayout::kPaged : KeyLayout::kDense;
  p->kv_lengths = read.lengths_differ ? Lengths::kEach : Lengths::kOne;
  set_window(read.left, read.causal ? 0 : read.right, p);
  return {};
}

}  // namespace

std::string to_text(const Problem& p) {
  const auto item = [](const char* key, std::int32_t size) { return std::string(key) + std::to_string(size); };
  std::string text = item("b=", p.batch) + item(",hq=", p.q_heads) + item(",hk=", p.kv_heads) + item(",sq=", p.q_len) +
                     item(",sk=", p.kv_len) + item(",d=", p.head_dim);
  if (p.head_dim_v != p.head_dim) text += item(",dv=", p.head_dim_v);
  text += ",dtype=" + std::string(name(p.dtype));
  if (p.causal() || (p.windowed() && p.window_right == 0)) text += ",causal";
  if (p.window_left >= 0) text += item(",left=", p.window_left);
  if (p.window_right > 0) text += item(",right=", p.window_right);
  if (p.align != 16) text += item(",align=", p.align);
  if (p.align == 16 && !p.tma) text += ",notma";
  if (p.keys_transposed()) text += ",ktrans";
  if (p.paged()) text += item(",page=", p.page);
  if (p.lengths_differ()) text += ",lens";
  if (p.lse) text += ",lse";
  return text;
}

Status parse(std::string_view text, Problem* problem) {
  if (trim(text).empty())
    return text_error("an empty shape: expected something like b=1,hq=32,hk=8,sq=4096,d=128,causal");
  ReadProblem read;
  std::vector<std::string_view> seen;
  for (const std::string_view item : split_text(text, ',')) {
    std::string_view key, value;
    if (Status status = split_item(item, &key, &value); !status.ok()) return status;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return text_error("key " + quote(key) + " is given twice: expected once");
    }
    seen.push_back(key);
    if (Status status = parse_item(key, value, &read); !status.ok()) return status;
  }
  Problem made;
  if (Status status = put_together(read, &made); !status.ok()) return status;
  if (Status status = check(made); !status.ok()) return status;
  *problem = made;
  return {};
}

}  // namespace gqa
