// problem.cc: see problem.h.
#include "search/problem/problem.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "search/text.h"

namespace gqa {
namespace {

constexpr std::array<std::int32_t, 8> kHeadDims = {32, 64, 80, 96, 112, 128, 192, 256};
constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kSmallestKvBucket = 16;
// No tensor of a bucketed problem is larger: past any memory there is, and far enough from 2^63 that no later product
// of sizes (workspace of splits, strides) can overflow.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;

bool supported_head_dim(std::int32_t dim) {
  return std::find(kHeadDims.begin(), kHeadDims.end(), dim) != kHeadDims.end();
}

Status check_positive(const Problem& p) {
  const struct {
    const char* what;
    std::int32_t size;
  } sizes[] = {{"batch (b)", p.batch},           {"q_heads (hq)", p.q_heads}, {"kv_heads (hk)", p.kv_heads},
               {"q_len (sq)", p.q_len},          {"kv_len (sk)", p.kv_len},   {"head_dim (d)", p.head_dim},
               {"head_dim_v (dv)", p.head_dim_v}};
  for (const auto& [what, size] : sizes) {
    if (size < 1) {
      return Status(Code::kSize, std::string(what) + " is " + std::to_string(size) + ", expected at least 1");
    }
  }
  return {};
}

Status check_head_dim(const char* what, std::int32_t dim) {
  if (supported_head_dim(dim)) return {};
  return Status(Code::kHeadDim, std::string(what) + " is " + std::to_string(dim) +
                                    ", expected one of 32, 64, 80, 96, 112, 128, 192, 256");
}

struct Tensor {
  const char* name;
  std::int64_t batch, length, heads, dim;
};

// True if the tensor's bytes pass kMostBytes.
bool too_large(const Tensor& t) {
  std::int64_t bytes = 2;
  for (const std::int64_t size : {t.batch, t.length, t.heads, t.dim}) {
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kMostBytes) return true;
  }
  return false;
}

// Sizes are checked as bucketed: a problem passes if and only if its signature does.
Status check_counts(const Problem& p) {
  const Problem s = signature(p);
  if (std::int64_t{s.q_len} * s.group() > kMax32) {
    return Status(Code::kSize, "q_len " + std::to_string(p.q_len) + " times " + std::to_string(p.group()) +
                                   " query heads a key/value head does not fit 32 bits; split the call by queries");
  }
  if (std::int64_t{s.batch} * s.q_heads > kMax32) {
    return Status(Code::kSize, "batch " + std::to_string(p.batch) + " times q_heads " + std::to_string(p.q_heads) +
                                   " does not fit 32 bits; split the call by batch");
  }
  for (const Tensor& t :
       {Tensor{"q", s.batch, s.q_len, s.q_heads, s.head_dim}, Tensor{"k", s.batch, s.kv_len, s.kv_heads, s.head_dim},
        Tensor{"v", s.batch, s.kv_len, s.kv_heads, s.head_dim_v},
        Tensor{"out", s.batch, s.q_len, s.q_heads, s.head_dim_v}}) {
    if (!too_large(t)) continue;
    return Status(Code::kSize, std::string(t.name) + " of batch " + std::to_string(p.batch) + ", length " +
                                   std::to_string(t.length == s.q_len ? p.q_len : p.kv_len) + ", heads " +
                                   std::to_string(t.heads) + ", head_dim " + std::to_string(t.dim) +
                                   " is larger than " + grouped(kMostBytes) + " bytes");
  }
  return {};
}

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

Status parse_causal(std::string_view text, Mask* mask) {
  bool causal = false;
  Status status = parse_flag("causal", text, &causal);
  *mask = causal ? Mask::kCausal : Mask::kNone;
  return status;
}

Status parse_notma(std::string_view text, bool* tma) {
  bool without = false;
  Status status = parse_flag("notma", text, &without);
  *tma = !without;
  return status;
}

bool stands_alone(std::string_view key) { return key == "causal" || key == "notma" || key == "ktrans" || key == "lse"; }

Status parse_align(std::string_view text, std::uint16_t* align) {
  if (text != "2" && text != "16") return text_error("align=" + quote(text) + ": expected 16 or 2");
  *align = text == "2" ? 2 : 16;
  return {};
}

struct SizeKey {
  std::string_view key;
  std::int32_t Problem::*field;
};
constexpr SizeKey kSizeKeys[] = {{"b", &Problem::batch},      {"hq", &Problem::q_heads}, {"hk", &Problem::kv_heads},
                                 {"sq", &Problem::q_len},     {"sk", &Problem::kv_len},  {"d", &Problem::head_dim},
                                 {"dv", &Problem::head_dim_v}};

Status parse_item(std::string_view key, std::string_view value, Problem* problem) {
  if (key == "dtype") return parse_dtype(value, &problem->dtype);
  if (key == "causal") return parse_causal(value, &problem->mask);
  if (key == "align") return parse_align(value, &problem->align);
  if (key == "notma") return parse_notma(value, &problem->tma);
  if (key == "ktrans") return parse_flag("ktrans", value, &problem->keys_transposed);
  if (key == "lse") return parse_flag("lse", value, &problem->lse);
  for (const SizeKey& size : kSizeKeys) {
    if (size.key != key) continue;
    std::int64_t number = 0;
    Status status = parse_number(key, value, 1, kMax32, &number);
    problem->*size.field = static_cast<std::int32_t>(number);
    return status;
  }
  return text_error("unknown key " + quote(key) +
                    ": expected b, hq, hk, sq, sk, d, dv, dtype, causal, align, notma, ktrans or lse");
}

// "key=value", or a bare "causal", "notma", "ktrans" or "lse".
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
                    " has no value: expected KEY=VALUE (only 'causal', 'notma', 'ktrans' and 'lse' stand alone)");
}

Status fill_defaults(Problem* problem) {
  const SizeKey required[] = {{"hq", &Problem::q_heads}, {"sq", &Problem::q_len}, {"d", &Problem::head_dim}};
  for (const SizeKey& size : required) {
    if (problem->*size.field == 0) {
      return text_error(std::string(size.key) +
                        " is missing: expected at least hq, sq and d, as in hq=32,hk=8,sq=4096,d=128");
    }
  }
  if (problem->batch == 0) problem->batch = 1;
  if (problem->kv_heads == 0) problem->kv_heads = problem->q_heads;
  if (problem->kv_len == 0) problem->kv_len = problem->q_len;
  if (problem->head_dim_v == 0) problem->head_dim_v = problem->head_dim;
  if (problem->align != 16) problem->tma = false;
  return {};
}

}  // namespace

std::uint64_t hash(const Problem& p) {
  const std::array<std::int32_t, 11> packed = {static_cast<std::int32_t>(p.dtype),
                                               static_cast<std::int32_t>(p.mask),
                                               p.align,
                                               p.tma | p.keys_transposed << 1 | p.lse << 2,
                                               p.head_dim,
                                               p.head_dim_v,
                                               p.batch,
                                               p.q_heads,
                                               p.kv_heads,
                                               p.q_len,
                                               p.kv_len};
  return XXH3_64bits(packed.data(), sizeof(packed));
}

std::int32_t bucket(std::int32_t length) {
  if (length <= 1) return length;
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint32_t>(length)));
  const std::int64_t between = power / 4 * 3;  // 1.5 times the power below
  const std::int64_t rounded = between >= length ? between : power;
  return static_cast<std::int32_t>(std::min<std::int64_t>(rounded, kMax32));
}

Problem signature(const Problem& problem) {
  Problem s = problem;
  if (s.q_len == 1) s.mask = Mask::kNone;  // the last query sees every key: one winner for both
  s.tma = s.tma && s.align == 16;
  s.batch = bucket(s.batch);
  s.q_len = bucket(s.q_len);
  s.kv_len = std::max(bucket(s.kv_len), kSmallestKvBucket);
  return s;
}

std::string to_text(const Problem& p) {
  std::string text = "b=" + std::to_string(p.batch) + ",hq=" + std::to_string(p.q_heads) +
                     ",hk=" + std::to_string(p.kv_heads) + ",sq=" + std::to_string(p.q_len) +
                     ",sk=" + std::to_string(p.kv_len) + ",d=" + std::to_string(p.head_dim);
  if (p.head_dim_v != p.head_dim) text += ",dv=" + std::to_string(p.head_dim_v);
  text += ",dtype=" + std::string(name(p.dtype));
  if (p.causal()) text += ",causal";
  if (p.align != 16) text += ",align=" + std::to_string(p.align);
  if (p.align == 16 && !p.tma) text += ",notma";
  if (p.keys_transposed) text += ",ktrans";
  if (p.lse) text += ",lse";
  return text;
}

Status parse(std::string_view text, Problem* problem) {
  if (trim(text).empty())
    return text_error("an empty shape: expected something like b=1,hq=32,hk=8,sq=4096,d=128,causal");
  Problem read;
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
  if (Status status = fill_defaults(&read); !status.ok()) return status;
  if (Status status = check(read); !status.ok()) return status;
  *problem = read;
  return {};
}

Status check(const Problem& p) {
  if (Status status = check_positive(p); !status.ok()) return status;
  if (Status status = check_head_dim("head_dim", p.head_dim); !status.ok()) return status;
  if (Status status = check_head_dim("head_dim_v", p.head_dim_v); !status.ok()) return status;
  if (p.q_heads % p.kv_heads != 0) {
    return Status(Code::kHeads, "q_heads is " + std::to_string(p.q_heads) + " and kv_heads is " +
                                    std::to_string(p.kv_heads) + ", expected q_heads to be a multiple of kv_heads");
  }
  if (p.align != 16 && p.align != 2) {
    return Status(Code::kAlignment, "align is " + std::to_string(p.align) + ", expected 16 or 2");
  }
  return check_counts(p);
}

std::string_view name(DType dtype) { return dtype == DType::kF16 ? "f16" : "bf16"; }

double flops(const Problem& p) {
  const double q = p.q_len, kv = p.kv_len;
  double scores = q * kv;
  // Row i sees i + kv - q + 1 keys, none where that is negative; the last row sees all of them.
  if (p.causal()) scores = kv >= q ? q * (2 * kv - q + 1) / 2 : kv * (kv + 1) / 2;
  return 2.0 * p.batch * p.q_heads * scores * (double{1} * p.head_dim + p.head_dim_v);
}

double bytes(const Problem& p) {
  const double rows = static_cast<double>(p.batch) * p.q_len * p.q_heads;
  const double keys = static_cast<double>(p.batch) * p.kv_len * p.kv_heads;
  return 2.0 * (rows + keys) * (static_cast<double>(p.head_dim) + p.head_dim_v);
}

}  // namespace gqa
