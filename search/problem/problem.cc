// problem.cc: see problem.h; problem_text.cc has the text form.
#include "search/problem/problem.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <limits>

#include "search/problem/key_layout.h"
#include "search/problem/mask.h"
#include "search/problem/signature.h"
#include "search/text.h"

namespace gqa {
namespace {

constexpr std::array<std::int32_t, 9> kHeadDims = {16, 32, 64, 80, 96, 112, 128, 192, 256};
constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max();
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
                                    ", expected one of 16, 32, 64, 80, 96, 112, 128, 192, 256");
}

Status check_types(const Problem& p) {
  if (p.kv_type == p.q_type && p.out_type == p.q_type) return {};
  return Status(Code::kDtype, "q is " + std::string(name(p.q_type)) + ", keys and values are " +
                                  std::string(name(p.kv_type)) + " and out is " + std::string(name(p.out_type)) +
                                  ", expected one type for all");
}

struct Tensor {
  const char* name;
  std::int64_t batch, length, heads, dim;
};

// True if the tensor's bytes pass kMostBytes.
bool too_large(const Tensor& t, ElementType type) {
  std::int64_t bytes = element_bytes(type);
  for (const std::int64_t size : {t.batch, t.length, t.heads, t.dim}) {
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kMostBytes) return true;
  }
  return false;
}

// Sizes are checked as bucketed: a problem passes if and only if its signature does.
Status check_counts(const Problem& p) {
  const Problem s = Signature(p).problem();
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
    if (!too_large(t, s.q_type)) continue;
    return Status(Code::kSize, std::string(t.name) + " of batch " + std::to_string(p.batch) + ", length " +
                                   std::to_string(t.length == s.q_len ? p.q_len : p.kv_len) + ", heads " +
                                   std::to_string(t.heads) + ", head_dim " + std::to_string(t.dim) +
                                   " is larger than " + grouped(kMostBytes) + " bytes");
  }
  return {};
}

// A row's place in an array of rows or scores is that of its sequence, which packed ones share.
Status check_arrays(const Problem& p) {
  const bool of_rows = p.chain.reads(ChainOperand::kRow) || p.chain.reads_tensor();
  if (!of_rows || !(p.q_packed() || p.k_packed())) return {};
  return {Code::kOption,
          "packed sequences with a row's or a tensor's operand on scores, expected a slot's or a head's"};
}

// An operand and its slot in a byte; 255: none.
std::uint32_t operand_number(const ChainStep& step) {
  if (step.operand == ChainOperand::kNone) return 0xff;
  return (static_cast<std::uint32_t>(step.operand) - 1) << 4 | step.slot;
}

constexpr std::int32_t kNoSteps = 0x00ff00ff;  // what steps_number() makes of two that are none

// Two steps of a chain as one number.
std::int32_t steps_number(const ScoreChain& chain, std::size_t at) {
  if (!chain.any()) return kNoSteps;
  std::uint32_t number = 0;
  for (std::size_t i = at; i < at + 2; ++i)
    number = number << 16 | static_cast<std::uint32_t>(chain.steps[i].op) << 8 | operand_number(chain.steps[i]);
  return static_cast<std::int32_t>(number);
}

}  // namespace

std::uint64_t hash(const Problem& p) {
  const auto number = [](auto kind) { return static_cast<std::int32_t>(kind); };
  const std::array<std::int32_t, 15> packed = {
      number(p.q_type) | number(p.kv_type) << 8 | number(p.out_type) << 16 | p.align << 24,
      number(p.mask) | number(p.keys) << 8 | number(p.q_lengths) << 16 | number(p.kv_lengths) << 24,
      p.tma | p.lse << 1 | p.sink << 2 | p.chain.count << 8,
      steps_number(p.chain, 0),
      steps_number(p.chain, 2),
      p.page,
      p.window_left,
      p.window_right,
      p.head_dim,
      p.head_dim_v,
      p.batch,
      p.q_heads,
      p.kv_heads,
      p.q_len,
      p.kv_len};
  return XXH3_64bits(packed.data(), sizeof(packed));
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
  if (Status status = check_types(p); !status.ok()) return status;
  if (Status status = check_keys(p); !status.ok()) return status;
  if (Status status = check_mask(p); !status.ok()) return status;
  if (Status status = check_chain(p.chain); !status.ok()) return status;
  if (Status status = check_arrays(p); !status.ok()) return status;
  return check_counts(p);
}

std::string_view name(Lengths lengths) {
  switch (lengths) {
    case Lengths::kOne:
      return "one length";
    case Lengths::kEach:
      return "lengths of their own";
    case Lengths::kPacked:
      return "packed sequences";
  }
  return "";
}

double flops(const Problem& p) {
  return 2.0 * p.batch * p.q_heads * seen_pairs(p) * (double{1} * p.head_dim + p.head_dim_v);
}

double bytes(const Problem& p) {
  const double rows = static_cast<double>(p.batch) * p.q_len * p.q_heads;
  const double keys = static_cast<double>(p.batch) * most_keys_of_all_queries(p) * p.kv_heads;
  return element_bytes(p.q_type) * (rows + keys) * (static_cast<double>(p.head_dim) + p.head_dim_v);
}

}  // namespace gqa
