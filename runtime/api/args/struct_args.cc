// struct_args.cc: see args.h. The C structs that describe no tensor: a handle's options, a shape and a range to warm.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

#include "runtime/api/args/args.h"
#include "runtime/api/args/cache_args.h"
#include "runtime/api/args/score_args.h"
#include "runtime/api/c_struct.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/call/roles.h"
#include "runtime/thread_limits.h"
#include "search/problem/mask.h"

namespace gqa {
namespace {

// What a header's struct measured that ended before a field: whole words, so that padding may lie where the field is
// now.
constexpr std::size_t ended_before(std::size_t field) { return (field + 7) / 8 * 8; }

// Shapes of headers that had no `lse`, `page`, `cu_seqlens_q`, `softcap`, `score_scale` or `align` yet end before it:
// zero.
Status read_shape(const gqa_shape& given, gqa_shape* shape) {
  constexpr std::size_t kFirstMissing[] = {offsetof(gqa_shape, lse),          offsetof(gqa_shape, page),
                                           offsetof(gqa_shape, cu_seqlens_q), offsetof(gqa_shape, softcap),
                                           offsetof(gqa_shape, score_scale),  offsetof(gqa_shape, align)};
  std::size_t bytes = std::min(given.size, sizeof(gqa_shape));
  const auto* older = std::find_if(std::begin(kFirstMissing), std::end(kFirstMissing),
                                   [&](std::size_t field) { return given.size == ended_before(field); });
  if (older != std::end(kFirstMissing)) {
    bytes = *older;
  } else if (Status status = check_struct(given, "gqa_shape"); !status.ok()) {
    return status;
  }
  std::memcpy(shape, &given, bytes);
  return {};
}

Status check_flag(const char* name, int value) {
  if (value == 0 || value == 1) return {};
  return {Code::kOption, std::string(name) + " is " + std::to_string(value) + ", expected 0 or 1"};
}

// Which tensors calls bring, where the table has a field for that (`where`).
template <typename Given>
Status read_asked(const Given& given, const char* of, std::size_t Asked::*where, Problem* problem) {
  for (const Role role : kAskedRoles) {
    const RoleRow& row = row_of(role);
    if (row.asked.*where == 0) continue;
    int value = 0;
    std::memcpy(&value, reinterpret_cast<const char*>(&given) + row.asked.*where, sizeof value);
    if (Status status = check_flag((std::string(of) + "." + row.name).c_str(), value); !status.ok()) return status;
    problem->*row.asked.flag = value == 1;
  }
  return {};
}

// How rows of q, k, v and out lie.
Status read_layout(const gqa_shape& shape, Problem* problem) {
  if (shape.align != 0 && shape.align != 2 && shape.align != 16)
    return {Code::kOption, "gqa_shape.align is " + std::to_string(shape.align) + ", expected 16, 2, or 0 for 16"};
  problem->align = shape.align == 2 ? 2 : kVectorBytes;
  problem->tma = shape.notma == 0 && shape.align != 2;
  return check_flag("gqa_shape.notma", shape.notma);
}

// What is not a size or a dtype.
Status read_choices(const gqa_shape& shape, Problem* problem) {
  Status status = check_flag("gqa_shape.causal", shape.causal);
  if (status.ok()) status = check_flag("gqa_shape.cache_seqlens", shape.cache_seqlens);
  if (status.ok()) status = check_flag("gqa_shape.cu_seqlens_q", shape.cu_seqlens_q);
  if (status.ok()) status = check_flag("gqa_shape.cu_seqlens_k", shape.cu_seqlens_k);
  if (status.ok()) status = check_flag("gqa_shape.softcap", shape.softcap);
  if (status.ok()) status = read_layout(shape, problem);
  if (status.ok()) status = read_asked(shape, "gqa_shape", &Asked::shape, problem);
  if (status.ok()) status = check_window("gqa_shape.window_size", shape.window_size);
  if (status.ok()) status = check_scores(shape);
  if (!status.ok() || (shape.page >= 0 && shape.page <= std::numeric_limits<std::int32_t>::max())) return status;
  return {Code::kSize, "gqa_shape.page is " + std::to_string(shape.page) + ", expected 1 to 2147483647, or 0 for none"};
}

// A field that is a size.
struct NamedSize {
  const char* name;
  std::int64_t given;
  std::int32_t* made;
};

template <std::size_t kCount>
Status read_sizes(const char* of, const NamedSize (&sizes)[kCount]) {
  for (const NamedSize& size : sizes) {
    if (size.given < 1 || size.given > std::numeric_limits<std::int32_t>::max()) {
      return {Code::kSize,
              std::string(of) + "." + size.name + " is " + std::to_string(size.given) + ", expected 1 to 2147483647"};
    }
    *size.made = static_cast<std::int32_t>(size.given);
  }
  return {};
}

bool in_range(int value, int last) { return value >= 0 && value <= last; }

Status check_choices(const gqa_options& options) {
  if (!in_range(number(options.cache_mode), GQA_CACHE_OFF)) {
    return {Code::kOption, "gqa_options.cache_mode is " + std::to_string(number(options.cache_mode)) +
                               ", expected GQA_CACHE_READ_WRITE, GQA_CACHE_READ_ONLY or GQA_CACHE_OFF"};
  }
  if (!in_range(number(options.tuning), GQA_TUNE_CACHED_ONLY)) {
    return {Code::kOption, "gqa_options.tuning is " + std::to_string(number(options.tuning)) +
                               ", expected GQA_TUNE_NOW, GQA_TUNE_GUESS or GQA_TUNE_CACHED_ONLY"};
  }
  if (Status status = check_budget("gqa_options.tuning_budget", options.tuning_budget); !status.ok()) return status;
  if (options.threads < 0 || options.threads > kMostThreads) {
    return {Code::kOption, "gqa_options.threads is " + std::to_string(options.threads) +
                               ", expected 0 (as GQA_THREADS says, else all cores) to " + std::to_string(kMostThreads)};
  }
  return check_flag("gqa_options.checked", options.checked);
}

}  // namespace

Status check_budget(const char* name, double seconds) {
  if (seconds >= 0 && seconds <= kMostSeconds) return {};
  return {Code::kOption,
          std::string(name) + " is " + std::to_string(seconds) + ", expected seconds from 0 (the default) to 1000000"};
}

Status make_problem(const gqa_shape* given, Problem* problem) {
  if (given == nullptr) return {Code::kNullArgument, "shape is NULL, expected a gqa_shape"};
  gqa_shape shape{};
  if (Status status = read_shape(*given, &shape); !status.ok()) return status;
  ElementType dtype{};
  if (!is_element(shape.dtype, &dtype)) {
    return {Code::kDtype, "gqa_shape.dtype is " + dtype_text(shape.dtype) + ", expected float32, float16 or bfloat16"};
  }
  Problem made;
  if (Status status = read_choices(shape, &made); !status.ok()) return status;
  made.set_types(dtype);
  made.keys = shape.page != 0 ? KeyLayout::kPaged : KeyLayout::kDense;
  made.page = static_cast<std::int32_t>(shape.page);
  made.kv_lengths = shape.cu_seqlens_k == 1    ? Lengths::kPacked
                    : shape.cache_seqlens == 1 ? Lengths::kEach
                                               : Lengths::kOne;
  made.set_q_packed(shape.cu_seqlens_q == 1);
  const std::int64_t head_dim_v = shape.head_dim_v != 0 ? shape.head_dim_v : shape.head_dim;
  const NamedSize sizes[] = {{"batch", shape.batch, &made.batch},          {"q_len", shape.q_len, &made.q_len},
                             {"kv_len", shape.kv_len, &made.kv_len},       {"q_heads", shape.q_heads, &made.q_heads},
                             {"kv_heads", shape.kv_heads, &made.kv_heads}, {"head_dim", shape.head_dim, &made.head_dim},
                             {"head_dim_v", head_dim_v, &made.head_dim_v}};
  if (Status status = read_sizes("gqa_shape", sizes); !status.ok()) return status;
  fill_mask(shape.causal == 1, shape.window_size, &made);
  fill_scores(score_traits_of(shape), &made);
  if (Status status = check(made); !status.ok()) return status;
  *problem = made;
  return {};
}

Status read_serving(const gqa_serving* given, ServingRange* range, Problem* layer) {
  if (given == nullptr) return {Code::kNullArgument, "serving is NULL, expected a gqa_serving"};
  Status status = check_struct(*given, "gqa_serving");
  if (!status.ok()) return status;
  if (given->range == nullptr)
    return {Code::kNullArgument, "gqa_serving.range is NULL, expected a text like \"batch=1..256,kv=1..32k,page=16\""};
  status = parse(given->range, range);
  if (!status.ok()) return {status.code(), "gqa_serving.range: " + status.message()};
  Problem made;
  const std::int64_t head_dim_v = given->head_dim_v != 0 ? given->head_dim_v : given->head_dim;
  const NamedSize sizes[] = {{"q_heads", given->q_heads, &made.q_heads},
                             {"kv_heads", given->kv_heads, &made.kv_heads},
                             {"head_dim", given->head_dim, &made.head_dim},
                             {"head_dim_v", head_dim_v, &made.head_dim_v}};
  status = read_sizes("gqa_serving", sizes);
  if (status.ok()) status = check_flag("gqa_serving.softcap", given->softcap);
  if (status.ok()) status = read_asked(*given, "gqa_serving", &Asked::serving, &made);
  if (status.ok()) status = check_flag("gqa_serving.plan_only", given->plan_only);
  if (status.ok()) status = check_window("gqa_serving.window_size", given->window_size);
  if (!status.ok()) return status;
  set_window(given->window_size != nullptr ? given->window_size[0] : -1, 0, &made);
  fill_scores({given->softcap == 1}, &made);
  *layer = made;
  return {};
}

// Options of the header that had no `checked` yet end before it: zero.
Status read_options(const gqa_options& given, gqa_options* options) {
  constexpr std::size_t kWithoutChecked = offsetof(gqa_options, checked);
  if (given.size != kWithoutChecked) {
    if (Status status = check_struct(given, "gqa_options"); !status.ok()) return status;
  }
  *options = {};
  std::memcpy(options, &given, std::min(given.size, sizeof(gqa_options)));
  return check_choices(*options);
}

}  // namespace gqa
