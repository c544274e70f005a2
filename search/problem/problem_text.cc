// problem_text.cc: a problem as one line of text, both ways; see problem.h.
#include <string>
#include <string_view>

#include "search/problem/key_layout.h"
#include "search/problem/mask.h"
#include "search/problem/problem.h"
#include "search/problem/text_items.h"
#include "search/text.h"

namespace gqa {
namespace {

Status read_sizes(TextItems* items, Problem* p) {
  const struct {
    const char* key;
    std::int32_t* size;
  } sizes[] = {{"b", &p->batch},   {"hq", &p->q_heads}, {"hk", &p->kv_heads},  {"sq", &p->q_len},
               {"sk", &p->kv_len}, {"d", &p->head_dim}, {"dv", &p->head_dim_v}};
  for (const auto& [key, size] : sizes)
    if (Status status = items->number(key, 1, size); !status.ok()) return status;
  return {};
}

Status read_types(TextItems* items, Problem* p) {
  ElementType dtype = ElementType::kBF16;
  Status status = read_dtype(items, &dtype);
  p->set_types(dtype);
  if (status.ok()) status = read_dtype("kvdtype", items, &p->kv_type);
  return status.ok() ? read_dtype("outdtype", items, &p->out_type) : status;
}

Status read_lengths(TextItems* items, Problem* p) {
  bool each = false, q_packed = false, k_packed = false;
  if (Status status = items->flag("lens", &each); !status.ok()) return status;
  if (Status status = items->flag("packk", &k_packed); !status.ok()) return status;
  if (Status status = items->flag("packq", &q_packed); !status.ok()) return status;
  if (each && k_packed) return text_error("lens and packk: expected one of them, since packed keys have lengths");
  p->set_q_packed(q_packed);
  p->kv_lengths = k_packed ? Lengths::kPacked : each ? Lengths::kEach : Lengths::kOne;
  return {};
}

Status read_promises(TextItems* items, Problem* p) {
  if (const std::string_view* align = items->value("align")) {
    if (*align != "2" && *align != "16") return text_error("align=" + quote(*align) + ": expected 16 or 2");
    p->align = *align == "2" ? 2 : 16;
  }
  bool without_tma = false;
  if (Status status = items->flag("notma", &without_tma); !status.ok()) return status;
  p->tma = p->align == 16 && !without_tma;
  return items->flag("lse", &p->lse);
}

Status read_sink(TextItems* items, Problem* p) { return items->flag("sink", &p->sink); }

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

void fill_in(Problem* p) {
  if (p->batch == 0) p->batch = 1;
  if (p->kv_heads == 0) p->kv_heads = p->q_heads;
  if (p->kv_len == 0) p->kv_len = p->q_len;
  if (p->head_dim_v == 0) p->head_dim_v = p->head_dim;
}

}  // namespace

Status read_dtype(TextItems* items, ElementType* dtype) { return read_dtype("dtype", items, dtype); }

Status read_dtype(std::string_view key, TextItems* items, ElementType* dtype) {
  const std::string_view* text = items->value(key);
  if (text == nullptr) return {};
  if (*text == "f16" || *text == "fp16" || *text == "float16")
    *dtype = ElementType::kF16;
  else if (*text == "bf16" || *text == "bfloat16")
    *dtype = ElementType::kBF16;
  else if (*text == "f32" || *text == "fp32" || *text == "float32")
    *dtype = ElementType::kF32;
  else
    return text_error(std::string(key) + "=" + quote(*text) + ": expected bf16, f16 or f32");
  return {};
}

std::string types_text(const KernelTraits& t) {
  std::string text(name(t.q_type));
  if (t.kv_type != t.q_type) text += ",kvdtype=" + std::string(name(t.kv_type));
  if (t.out_type != t.q_type) text += ",outdtype=" + std::string(name(t.out_type));
  return text;
}

std::string sink_text(const KernelTraits& t) { return t.sink ? ",sink" : ""; }

std::string lengths_text(const KernelTraits& t) {
  const std::string keys = t.k_packed() ? ",packk" : t.lengths_differ() ? ",lens" : "";
  return t.q_packed() ? keys + ",packq" : keys;
}

std::string to_text(const Problem& p) {
  const auto item = [](const char* key, std::int32_t size) { return std::string(key) + std::to_string(size); };
  std::string text = item("b=", p.batch) + item(",hq=", p.q_heads) + item(",hk=", p.kv_heads) + item(",sq=", p.q_len) +
                     item(",sk=", p.kv_len) + item(",d=", p.head_dim);
  if (p.head_dim_v != p.head_dim) text += item(",dv=", p.head_dim_v);
  text += ",dtype=" + types_text(p) + mask_text(p);
  if (p.align != 16) text += item(",align=", p.align);
  if (p.align == 16 && !p.tma) text += ",notma";
  text += keys_text(p) + lengths_text(p) + chain_text(p.chain) + sink_text(p);
  if (p.lse) text += ",lse";
  return text;
}

Status parse(std::string_view text, Problem* problem) {
  if (trim(text).empty())
    return text_error("an empty shape: expected something like b=1,hq=32,hk=8,sq=4096,d=128,causal");
  TextItems items;
  Problem made;
  if (Status status = TextItems::split(text, &items); !status.ok()) return status;
  for (const auto read :
       {read_sizes, read_types, read_mask, read_keys, read_lengths, read_chain, read_sink, read_promises})
    if (Status status = read(&items, &made); !status.ok()) return status;
  if (Status status = items.check_all_read(); !status.ok()) return status;
  if (Status status = check_required(made); !status.ok()) return status;
  fill_in(&made);
  if (Status status = check(made); !status.ok()) return status;
  *problem = made;
  return {};
}

}  // namespace gqa
