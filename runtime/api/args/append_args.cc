// append_args.cc: see append_args.h.
#include "runtime/api/args/append_args.h"

#include <algorithm>
#include <limits>
#include <string>

#include "runtime/api/args/cache_args.h"
#include "runtime/api/tensors/tensor_rules.h"

namespace gqa {
namespace {

constexpr Role kNewK = {"k_new", 4, "(batch, new, kv_heads, head_dim)"};
constexpr Role kNewV = {"v_new", 4, "(batch, new, kv_heads, head_dim_v)"};
constexpr Role kPackedNewK = {"k_new", 3, "(total_new, kv_heads, head_dim)"};
constexpr Role kPackedNewV = {"v_new", 3, "(total_new, kv_heads, head_dim_v)"};
constexpr Role kStarts = {"cu_seqlens_k_new", 1, "(batch + 1)"};
constexpr Role kCos = {"rotary_cos", 2, "(positions, rotary_dim / 2)"};
constexpr Role kSin = {"rotary_sin", 2, "(positions, rotary_dim / 2)"};
constexpr Role kRotaryStarts = {"rotary_seqlens", 1, "(batch)"};
constexpr Role kBatchIdx = {"cache_batch_idx", 1, "(batch)"};
constexpr Role kLeftpad = {"cache_leftpad", 1, "(batch)"};
constexpr int kRotaryStep = 16;  // rotary_dim is a multiple of it
constexpr int kHalf = 2;         // bytes

Status together(const char* one, bool has_one, const char* other, bool has_other) {
  if (has_one == has_other) return {};
  return {Code::kOption, std::string(has_one ? one : other) + " is given without " + (has_one ? other : one) +
                             ", expected both or neither"};
}

// `what` needs `other`.
Status needs(const char* what, bool given, const char* other, bool has_other) {
  if (!given || has_other) return {};
  return {Code::kOption, std::string(what) + " is given without " + other + ", expected both"};
}

// New keys or values. Without a row they are as good as none, and what else they are is checked as of one row.
class NewRows {
 public:
  NewRows(const Role& role, const DLTensor& given, int row) : tensor_(given) {
    if (given.ndim != role.rank || given.shape[row] != 0) return;
    std::copy(given.shape, given.shape + given.ndim, shape_);
    shape_[row] = 1;
    tensor_.shape = shape_;
  }
  NewRows(const NewRows&) = delete;
  NewRows& operator=(const NewRows&) = delete;
  const DLTensor& get() const { return tensor_; }

 private:
  DLTensor tensor_;
  std::int64_t shape_[4];
};

Status check_new(const Device& device, const AppendGiven& g, bool packed) {
  const DLTensor &k = *g.options.k_new, &v = *g.options.v_new;
  const Role &k_role = packed ? kPackedNewK : kNewK, &v_role = packed ? kPackedNewV : kNewV;
  constexpr const char* kLikeQ = ", but q is ";
  const int row = packed ? 0 : 1;
  Status status = check_tensor(device, k_role, NewRows(k_role, k, row).get(), g.q.dtype, kLikeQ);
  if (status.ok()) status = check_tensor(device, v_role, NewRows(v_role, v, row).get(), g.q.dtype, kLikeQ);
  if (!status.ok()) return status;
  if (!packed) status = check_equal(k_role, k.shape[0], "batch", "q", g.sequences);
  if (status.ok() && !packed) status = check_equal(v_role, v.shape[0], "batch", "k_new", k.shape[0]);
  if (status.ok()) status = check_equal(v_role, v.shape[row], packed ? "total_new" : "new", "k_new", k.shape[row]);
  if (status.ok()) status = check_equal(k_role, k.shape[row + 1], "kv_heads", "k", g.k.shape[2]);
  if (status.ok()) status = check_equal(v_role, v.shape[row + 1], "kv_heads", "k", g.k.shape[2]);
  if (status.ok()) status = check_equal(k_role, k.shape[row + 2], "head_dim", "q", g.q.shape[3]);
  if (status.ok()) status = check_equal(v_role, v.shape[row + 2], "head_dim_v", "v", g.v.shape[3]);
  return status.ok() ? check_starts(device, kStarts, g.options.cu_seqlens_k_new, g.sequences) : status;
}

Status check_rotary(const Device& device, const AppendGiven& g) {
  const DLTensor &cos = *g.options.rotary_cos, &sin = *g.options.rotary_sin;
  constexpr const char* kLikeQ = ", but q is ";
  Status status = check_tensor(device, kCos, cos, g.q.dtype, kLikeQ);
  if (status.ok()) status = check_tensor(device, kSin, sin, g.q.dtype, kLikeQ);
  if (status.ok()) status = check_equal(kSin, sin.shape[0], "positions", "rotary_cos", cos.shape[0]);
  if (status.ok()) status = check_equal(kSin, sin.shape[1], "rotary_dim / 2", "rotary_cos", cos.shape[1]);
  if (!status.ok()) return status;
  const std::int64_t dim = 2 * cos.shape[1], head_dim = g.q.shape[3];
  if (dim % kRotaryStep == 0 && dim <= head_dim) return {};
  return {Code::kShape, "rotary_cos has " + std::to_string(cos.shape[1]) + " columns and so rotary_dim " +
                            std::to_string(dim) + ", expected a multiple of 16 up to head_dim, which is " +
                            std::to_string(head_dim)};
}

Status read_rows(const Role& role, const DLTensor* tensor, const char* last, View* view) {
  return tensor == nullptr ? Status() : read_view(role, *tensor, kHalf, last, view);
}

const void* data_of(const View& view) { return reinterpret_cast<const void*>(view.data); }

// Whether a dense cache's sequences that begin anywhere are packed: from one's first row to the next's is a whole
// number of rows; `all`: up to the last one's last.
bool rows_between(const View& cache, std::int32_t* rows, std::int64_t* all) {
  const std::int64_t batch = cache.stride[0], row = cache.stride[1];
  if (row > 0 ? batch % row != 0 : batch != 0) return false;
  const std::int64_t between = row > 0 ? batch / row : 0;
  *all = between * (cache.size[0] - 1) + cache.size[1];
  if (between < 0 || *all > std::numeric_limits<std::int32_t>::max()) return false;
  *rows = static_cast<std::int32_t>(between);
  return true;
}

// Fills in what a dense cache needs whose sequences begin anywhere.
Status fill_rows(const View& k, const View& v, Append* append, Call* call) {
  Problem& problem = call->problem;
  if (rows_between(k, &append->cache_batch_rows, &call->k_rows) &&
      rows_between(v, &append->cache_batch_values, &call->v_rows)) {
    problem.kv_lengths = Lengths::kPacked;
    call->k_strides.batch = call->v_strides.batch = 0;
    return {};
  }
  if (append->leftpad != nullptr && problem.kv_len > 1)
    return {Code::kStride, "k has strides " + std::to_string(k.stride[0]) + " and " + std::to_string(k.stride[1]) +
                               " of batch and kv_len, v " + std::to_string(v.stride[0]) + " and " +
                               std::to_string(v.stride[1]) +
                               ": beside cache_leftpad a batch stride of a whole number of rows is expected, fewer "
                               "than 2147483647 in all"};
  // Each row of the cache is a page, and a sequence has one.
  problem.keys = KeyLayout::kPaged;
  problem.page = append->page = problem.kv_len;
  call->pages = append->pages = append->cache_batch;
  return {};
}

void fill_new(const gqa_call& options, const AppendViews& views, Append* append) {
  const bool packed = options.cu_seqlens_k_new != nullptr;
  const int row = packed ? 0 : 1;
  append->k = data_of(views.k);
  append->v = data_of(views.v);
  append->k_strides = {packed ? 0 : views.k.stride[0], views.k.stride[row], views.k.stride[row + 1]};
  append->v_strides = {packed ? 0 : views.v.stride[0], views.v.stride[row], views.v.stride[row + 1]};
  append->count = packed ? 0 : static_cast<std::int32_t>(views.k.size[1]);
  append->rows = static_cast<std::int32_t>(packed ? views.k.size[0] : views.k.size[0] * views.k.size[1]);
  append->starts = list_of(views.starts);
}

// Whether queries have places of their own: as the caller says it, though a window may hide nothing of so few keys.
bool orders_queries(const gqa_call& options) {
  const std::int32_t* window = options.window_size;
  return options.causal == 1 || (window != nullptr && (window[0] >= 0 || window[1] >= 0));
}

void fill_rotary(const gqa_call& options, const AppendViews& views, Append* append) {
  append->cos = data_of(views.cos);
  append->sin = data_of(views.sin);
  append->cos_stride = views.cos.stride[0];
  append->sin_stride = views.sin.stride[0];
  append->rotary_len = static_cast<std::int32_t>(views.cos.size[0]);
  append->rotary_dim = static_cast<std::int32_t>(2 * views.cos.size[1]);
  append->interleaved = options.rotary_interleaved == 1;
  append->advances = orders_queries(options);
  append->rotary_starts = list_of(views.rotary_starts);
}

// Where sequences are padded, each slot becomes a page of its own.
Status fill_pages(const DLTensor& table, const View& k, const View& v, Append* append, Call* call) {
  Problem& problem = call->problem;
  append->page = problem.page;
  append->pages = call->pages;
  append->cache_batch = static_cast<std::int32_t>(table.shape[0]);
  if (append->leftpad == nullptr) return {};
  const std::int64_t slots = std::int64_t{append->pages} * append->page;
  const auto gapless = [&](const View& view) {
    return view.size[0] == 1 || view.size[1] == 1 || view.stride[0] == view.stride[1] * view.size[1];
  };
  if (!gapless(k) || !gapless(v) || slots > std::numeric_limits<std::int32_t>::max())
    return {Code::kStride,
            "k has strides " + std::to_string(k.stride[0]) + " and " + std::to_string(k.stride[1]) +
                " of pages and page, v " + std::to_string(v.stride[0]) + " and " + std::to_string(v.stride[1]) +
                ": beside cache_leftpad pages of " + std::to_string(append->page) +
                " are expected to follow each other without a gap, of fewer than 2147483648 slots in all"};
  problem.page = 1;
  call->pages = static_cast<std::int32_t>(slots);
  call->k_strides.batch = append->page == 1 ? k.stride[0] : k.stride[1];
  call->v_strides.batch = append->page == 1 ? v.stride[0] : v.stride[1];
  return {};
}

}  // namespace

bool appends(const gqa_call* o) {
  return o != nullptr && (o->k_new != nullptr || o->v_new != nullptr || o->cu_seqlens_k_new != nullptr ||
                          o->rotary_cos != nullptr || o->rotary_sin != nullptr || o->rotary_seqlens != nullptr ||
                          o->cache_batch_idx != nullptr || o->cache_leftpad != nullptr);
}

bool adds_keys(const gqa_call* o) { return o != nullptr && o->k_new != nullptr && !has_no_row(*o->k_new); }

Status check_append_fields(const gqa_call& o) {
  const bool adds = o.k_new != nullptr, rotates = o.rotary_cos != nullptr;
  if (o.rotary_interleaved != 0 && o.rotary_interleaved != 1)
    return {Code::kOption,
            "gqa_call.rotary_interleaved is " + std::to_string(o.rotary_interleaved) + ", expected 0 or 1"};
  Status status = together("k_new", adds, "v_new", o.v_new != nullptr);
  if (status.ok()) status = needs("k_new", adds, "cache_seqlens", o.cache_seqlens != nullptr);
  if (status.ok()) status = needs("cu_seqlens_k_new", o.cu_seqlens_k_new != nullptr, "k_new", adds);
  if (status.ok()) status = together("rotary_cos", rotates, "rotary_sin", o.rotary_sin != nullptr);
  if (status.ok()) status = needs("rotary_cos", rotates, "k_new", adds);
  if (status.ok()) status = needs("rotary_seqlens", o.rotary_seqlens != nullptr, "rotary_cos", rotates);
  if (!status.ok() || o.cu_seqlens_k == nullptr) return status;
  return {
      Code::kOption,
      "k_new, cache_batch_idx or cache_leftpad is given beside cu_seqlens_k, expected one of them: a cache has a row "
      "a sequence"};
}

Status check_append_present(const gqa_call& o) {
  const bool packed = o.cu_seqlens_k_new != nullptr;
  const struct {
    const Role& role;
    const DLTensor* tensor;
  } all[] = {{packed ? kPackedNewK : kNewK, o.k_new},
             {packed ? kPackedNewV : kNewV, o.v_new},
             {kStarts, o.cu_seqlens_k_new},
             {kCos, o.rotary_cos},
             {kSin, o.rotary_sin},
             {kRotaryStarts, o.rotary_seqlens},
             {kBatchIdx, o.cache_batch_idx},
             {kLeftpad, o.cache_leftpad}};
  for (const auto& [role, tensor] : all) {
    if (tensor == nullptr) continue;
    if (Status status = check_present(role, tensor); !status.ok()) return status;
  }
  return {};
}

Status check_append_tensors(const Device& device, const AppendGiven& g) {
  const gqa_call& o = g.options;
  Status status;
  if (o.k_new != nullptr) status = check_new(device, g, o.cu_seqlens_k_new != nullptr);
  if (status.ok() && o.rotary_cos != nullptr) status = check_rotary(device, g);
  if (status.ok()) status = check_list(device, kRotaryStarts, o.rotary_seqlens, g.sequences);
  if (status.ok()) status = check_list(device, kBatchIdx, o.cache_batch_idx, g.sequences);
  if (status.ok()) status = check_list(device, kLeftpad, o.cache_leftpad, g.sequences);
  return status;
}

Status read_append(const AppendGiven& given, const View& k, const View& v, const View& out, const View& lse,
                   AppendViews* views) {
  const gqa_call& o = given.options;
  const bool packed = o.cu_seqlens_k_new != nullptr;
  const bool adds = adds_keys(&o);
  Status status;
  if (adds) status = read_rows(packed ? kPackedNewK : kNewK, o.k_new, "the head dimension", &views->k);
  if (status.ok() && adds) status = read_rows(packed ? kPackedNewV : kNewV, o.v_new, "the head dimension", &views->v);
  if (status.ok()) status = read_list(kStarts, o.cu_seqlens_k_new, "it", &views->starts);
  if (status.ok()) status = read_rows(kCos, o.rotary_cos, "each row", &views->cos);
  if (status.ok()) status = read_rows(kSin, o.rotary_sin, "each row", &views->sin);
  if (status.ok()) status = read_list(kRotaryStarts, o.rotary_seqlens, "it", &views->rotary_starts);
  if (status.ok()) status = read_list(kBatchIdx, o.cache_batch_idx, "it", &views->batch_idx);
  if (status.ok()) status = read_list(kLeftpad, o.cache_leftpad, "it", &views->leftpad);
  const View* const read[] = {&views->k,         &views->v,      &views->starts,
                              &views->cos,       &views->sin,    &views->rotary_starts,
                              &views->batch_idx, &views->leftpad};
  const View* const written[] = {&out, &lse, adds ? &k : &lse, adds ? &v : &lse};
  for (const View* to : written)
    for (const View* from : read)
      if (status.ok() && to->data != 0 && from->data != 0) status = check_apart(*to, *from);
  if (status.ok() && adds) status = check_distinct(k);
  if (status.ok() && adds) status = check_distinct(v);
  return status;
}

Status fill_append(const gqa_call& options, const AppendViews& views, const View& k, const View& v, Append* append,
                   Call* call) {
  call->append = append;
  if (adds_keys(&options)) fill_new(options, views, append);
  if (options.rotary_cos != nullptr) fill_rotary(options, views, append);
  append->batch_idx = list_of(views.batch_idx);
  append->leftpad = list_of(views.leftpad);
  append->k_batch_stride = call->k_strides.batch;
  append->v_batch_stride = call->v_strides.batch;
  append->cache_batch = static_cast<std::int32_t>(k.size[0]);
  Problem& problem = call->problem;
  problem.kv_lengths = Lengths::kEach;
  if (problem.paged()) return fill_pages(*options.page_table, k, v, append, call);
  return append->anywhere() ? fill_rows(k, v, append, call) : Status();
}

}  // namespace gqa
