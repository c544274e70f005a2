// gqa_pages.cc: gqa_page_pool_*, see gqa.h.
// Owns: gqa_page_pool_s, and the rules about a pool's tensors and arrays.
// Never: decides which page goes where (runtime/pages/), or lets an exception out (c_api.h).
// Threads: as gqa.h promises.
#include <memory>
#include <string>
#include <vector>

#include "runtime/api/c_api.h"
#include "runtime/api/gqa.h"
#include "runtime/api/handle.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/api/tensors/tensor_rules.h"
#include "runtime/pages/page_pool.h"

struct gqa_page_pool_s {
  gqa::PagePool pool;
};

namespace {

using gqa::Code;
using gqa::guarded;
using gqa::Status;
using gqa::View;

// In any layout.
constexpr gqa::Form kCache =
    gqa::form(nullptr, gqa::Dim::kPages, gqa::Dim::kPage, gqa::Dim::kKvHeads, gqa::Dim::kHeadDim);

Status read_cache(const gqa::Device& device, const char* name, const DLTensor* cache, View* view) {
  const gqa::Expected expected = {name, kCache};
  if (Status s = gqa::check_present(expected, cache); !s.ok()) return s;
  const DLDataType type = cache->dtype;
  if (type.bits == 0 || type.bits % 8 != 0 || type.lanes != 1)
    return {Code::kDtype, std::string(name) + " is " + gqa::dtype_text(type) + ", expected a dtype of whole bytes"};
  if (Status s = gqa::check_tensor(device, expected, *cache, type); !s.ok()) return s;
  if (Status s = gqa::read_view(expected, *cache, view); !s.ok()) return s;
  return gqa::check_distinct(*view);
}

// The first two dimensions of all are those of the first.
Status read_caches(const gqa::Device& device, const DLTensor* const* caches, int32_t count, std::vector<View>* views) {
  for (int32_t at = 0; at < count; ++at) {
    const std::string name = "caches[" + std::to_string(at) + "]";
    View view;
    if (Status s = read_cache(device, name.c_str(), caches[at], &view); !s.ok()) return s;
    const View& first = views->empty() ? view : views->front();
    if (Status s = gqa::check_equal(name.c_str(), view.size[0], "pages", "caches[0]", first.size[0]); !s.ok()) return s;
    if (Status s = gqa::check_equal(name.c_str(), view.size[1], "page", "caches[0]", first.size[1]); !s.ok()) return s;
    views->push_back(view);
  }
  return {};
}

Status create(gqa_handle handle, const DLTensor* const* caches, int32_t count, gqa_page_pool* pool) {
  if (handle == nullptr) return gqa::null_handle();
  if (count < 1) return {Code::kSize, "count is " + std::to_string(count) + ", expected at least 1 cache"};
  if (caches == nullptr) return {Code::kNullArgument, "caches is NULL, expected an array of count pointers to tensors"};
  std::vector<View> views;
  if (Status s = read_caches(handle->session.device(), caches, count, &views); !s.ok()) return s;
  *pool = new gqa_page_pool_s{{handle->session.device(), views}};
  return {};
}

// What the sequences of a call need; `array`: one beside them, or where it writes to.
Status check_arrays(int32_t count, const int64_t* sequences, const char* name, const void* array) {
  if (count < 0) return {Code::kSize, "count is " + std::to_string(count) + ", expected the number of sequences"};
  if (count == 0 || (sequences != nullptr && array != nullptr)) return {};
  return {Code::kNullArgument, std::string(sequences == nullptr ? "sequences" : name) +
                                   " is NULL, expected an array for " + std::to_string(count) + " sequences"};
}

Status check_output(const char* name, const void* output) {
  if (output != nullptr) return {};
  return {Code::kNullArgument, std::string(name) + " is NULL, expected where to put the answer"};
}

std::span<const int64_t> all(const int64_t* sequences, int32_t count) {
  return {sequences, static_cast<std::size_t>(count)};
}

template <typename Step>
gqa_status with_pool(gqa_page_pool pool, const Step& step) {
  return guarded([&]() -> Status {
    if (pool == nullptr) return {Code::kNullArgument, "pool is NULL, expected one that gqa_page_pool_create made"};
    return step(pool->pool);
  });
}

}  // namespace

extern "C" {

gqa_status gqa_page_pool_create(gqa_handle handle, const DLTensor* const* caches, int32_t count, gqa_page_pool* pool) {
  return guarded([&]() -> Status {
    if (Status s = check_output("pool", pool); !s.ok()) return s;
    *pool = nullptr;
    return create(handle, caches, count, pool);
  });
}

void gqa_page_pool_destroy(gqa_page_pool pool) { delete pool; }

gqa_status gqa_page_pool_add(gqa_page_pool pool, int64_t* sequence) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status {
    if (Status s = check_output("sequence", sequence); !s.ok()) return s;
    *sequence = p.add();
    return {};
  });
}

gqa_status gqa_page_pool_share(gqa_page_pool pool, int64_t sequence, int64_t tokens, int64_t* copy) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status {
    const Status s = check_output("copy", copy);
    return s.ok() ? p.share(sequence, tokens, copy) : s;
  });
}

gqa_status gqa_page_pool_append(gqa_page_pool pool, const int64_t* sequences, const int32_t* tokens, int32_t count,
                                void* stream) {
  return gqa_page_pool_append_within(pool, sequences, tokens, count, gqa::PageNumbers::kAnyPages, stream);
}

gqa_status gqa_page_pool_append_within(gqa_page_pool pool, const int64_t* sequences, const int32_t* tokens,
                                       int32_t count, int64_t columns, void* stream) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status {
    const Status s = check_arrays(count, sequences, "tokens", tokens);
    return s.ok() ? p.append(all(sequences, count), tokens, stream, columns) : s;
  });
}

gqa_status gqa_page_pool_truncate(gqa_page_pool pool, int64_t sequence, int64_t tokens) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status { return p.truncate(sequence, tokens); });
}

gqa_status gqa_page_pool_free(gqa_page_pool pool, const int64_t* sequences, int32_t count) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status {
    const Status s = check_arrays(count, sequences, "sequences", sequences);
    return s.ok() ? p.free(all(sequences, count)) : s;
  });
}

gqa_status gqa_page_pool_table(gqa_page_pool pool, const int64_t* sequences, int32_t count, int64_t columns,
                               int32_t* table, int32_t* lengths) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status {
    const Status s = check_arrays(count, sequences, "table", table);
    return s.ok() ? p.table(all(sequences, count), columns, table, lengths) : s;
  });
}

gqa_status gqa_page_pool_length(gqa_page_pool pool, int64_t sequence, int64_t* tokens) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status {
    const Status s = check_output("tokens", tokens);
    return s.ok() ? p.tokens(sequence, tokens) : s;
  });
}

gqa_status gqa_page_pool_free_pages(gqa_page_pool pool, int32_t* pages) {
  return with_pool(pool, [&](gqa::PagePool& p) -> Status {
    if (Status s = check_output("pages", pages); !s.ok()) return s;
    *pages = p.free_pages();
    return {};
  });
}

}  // extern "C"
