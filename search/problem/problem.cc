// problem.cc: see problem.h; problem_text.cc has the text form.
#include "search/problem/problem.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "search/problem/walk.h"
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

Status check_page(const Problem& p) {
  if (p.paged() ? p.page >= 1 : p.page == 0) return {};
  return Status(Code::kSize, "page is " + std::to_string(p.page) + ", expected " +
                                 (p.paged() ? "at least 1 key a page" : "0, since keys have no pages"));
}

Status check_window(const Problem& p) {
  const bool none = p.window_left == -1 && p.window_right == -1;
  if (p.window_left < -1 || p.window_right < -1 || p.windowed() == none) {
    return Status(Code::kOption, "the window is (" + std::to_string(p.window_left) + ", " +
                                     std::to_string(p.window_right) + "), expected numbers of keys, or -1 for all" +
                                     (p.windowed() ? " on one side at most" : ""));
  }
  return {};
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

}  // namespace

std::uint64_t hash(const Problem& p) {
  const auto number = [](auto kind) { return static_cast<std::int32_t>(kind); };
  const std::array<std::int32_t, 14> packed = {
      number(p.dtype), number(p.mask),
      p.align,         p.tma | p.lse << 1 | number(p.keys) << 2 | number(p.kv_lengths) << 4,
      p.page,          p.window_left,
      p.window_right,  p.head_dim,
      p.head_dim_v,    p.batch,
      p.q_heads,       p.kv_heads,
      p.q_len,         p.kv_len};
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
  if (s.q_len == 1) set_window(s.window_left, -1, &s);  // the last query sees every key up to its own
  s.tma = s.tma && s.align == 16;
  s.batch = bucket(s.batch);
  s.q_len = bucket(s.q_len);
  s.kv_len = std::max(bucket(s.kv_len), kSmallestKvBucket);
  return s;
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
  if (Status status = check_page(p); !status.ok()) return status;
  if (Status status = check_window(p); !status.ok()) return status;
  return check_counts(p);
}

std::string_view name(DType dtype) { return dtype == DType::kF16 ? "f16" : "bf16"; }

double flops(const Problem& p) {
  const double q = p.q_len, kv = p.kv_len;
  double scores = q * kv;
  // Row i sees i + kv - q + 1 keys, none where that is negative; the last row sees all of them.
  if (p.causal()) scores = kv >= q ? q * (2 * kv - q + 1) / 2 : kv * (kv + 1) / 2;
  if (p.windowed()) scores = q * most_keys_of_a_query(p);
  return 2.0 * p.batch * p.q_heads * scores * (double{1} * p.head_dim + p.head_dim_v);
}

double bytes(const Problem& p) {
  const double rows = static_cast<double>(p.batch) * p.q_len * p.q_heads;
  const double keys = static_cast<double>(p.batch) * most_keys_of_all_queries(p) * p.kv_heads;
  return 2.0 * (rows + keys) * (static_cast<double>(p.head_dim) + p.head_dim_v);
}

}  // namespace gqa
