// gqa.hpp: gqa from C++17: values with operators, exceptions, and ends of life that take care of themselves.
// Owns: a thin layer over gqa.h: gqa::Handle, gqa::PagePool, gqa::Tensor and gqa::Error; what a call means is said
// there. gqa_graph.hpp, which this header includes, is that over gqa_graph.h. Header only; link with -lgqa.
// Never: decides anything: every rule is the library's, and every message but those on the sizes of vectors.
// Threads: as the C functions: a handle and a pool may be used from many at once; a graph belongs to one at a time.
// Errors: each function may throw gqa::Error, and those that make vectors std::bad_alloc.
//
//   gqa::Handle handle;                                // the best device present
//   gqa_call call = {};                                // zeros; its size is filled in
//   call.causal = 1;
//   call.cache_seqlens = lengths.get();                // gqa::Tensors of int32, see gqa_call
//   call.page_table = table.get();
//   handle.attention(q, k_pages, v_pages, out, call);  // DLTensors' addresses, or gqa::Tensors
#ifndef GQA_HPP_
#define GQA_HPP_

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gqa.h"

namespace gqa {

using Dims = std::vector<std::int64_t>;

inline constexpr DLDataType float16{kDLFloat, 16, 1}, bfloat16{kDLBfloat, 16, 1}, float32{kDLFloat, 32, 1},
    int32{kDLInt, 32, 1};

// ---------------------------------------------------------------- errors

// A call that failed. what() says what was given, what was expected and what to do.
class Error : public std::runtime_error {
 public:
  Error(gqa_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  gqa_status status() const noexcept { return status_; }

 private:
  gqa_status status_;
};

inline void check(gqa_status status) {
  if (status != GQA_OK) throw Error(status, gqa_last_error());
}

// ---------------------------------------------------------------- tensors

// A DLTensor that owns its sizes and strides, and not its data.
class Tensor {
 public:
  // strides in elements; empty: row-major without gaps.
  Tensor(void* data, Dims dims, DLDataType dtype, DLDevice device = {kDLCPU, 0}, Dims strides = {})
      : dims_(std::move(dims)), strides_(std::move(strides)) {
    tensor_.data = data;
    tensor_.device = device;
    tensor_.ndim = static_cast<int>(dims_.size());
    tensor_.dtype = dtype;
    point();
  }
  Tensor(const Tensor& other) : dims_(other.dims_), strides_(other.strides_), tensor_(other.tensor_) { point(); }
  Tensor& operator=(const Tensor& other) {
    dims_ = other.dims_;
    strides_ = other.strides_;
    tensor_ = other.tensor_;
    point();
    return *this;
  }

  const Dims& dims() const { return dims_; }
  const DLTensor* get() const { return &tensor_; }

 private:
  void point() {
    tensor_.shape = dims_.data();
    tensor_.strides = strides_.empty() ? nullptr : strides_.data();
  }

  Dims dims_, strides_;
  DLTensor tensor_ = {};
};

// What a function takes where it wants a tensor: a DLTensor's address or a Tensor's.
class TensorRef {
 public:
  TensorRef(const DLTensor* tensor) : tensor_(tensor) {}       // NOLINT: converts on purpose
  TensorRef(const Tensor* tensor) : tensor_(tensor->get()) {}  // NOLINT
  TensorRef(const Tensor& tensor) : tensor_(tensor.get()) {}   // NOLINT
  const DLTensor* get() const { return tensor_; }

 private:
  const DLTensor* tensor_;
};

namespace detail {

inline std::vector<const DLTensor*> addresses(const std::vector<TensorRef>& tensors) {
  std::vector<const DLTensor*> found;
  found.reserve(tensors.size());
  for (const TensorRef& tensor : tensors) found.push_back(tensor.get());
  return found;
}

// C is told one count for two arrays.
inline std::int32_t count_of(const char* name, std::size_t count, const char* other, std::size_t others) {
  if (count != others)
    throw Error(GQA_ERROR_SHAPE, "there are " + std::to_string(count) + " " + name + " and " + std::to_string(others) +
                                     " " + other + "; expected as many of each");
  return static_cast<std::int32_t>(count);
}

// A progress callback as C calls it. No exception may pass through C: the first is kept, what the handle tunes or
// searches for is cancelled, and nothing is told after it.
template <typename Told>
struct Progress {
  const std::function<void(const Told&)>* call;
  gqa_handle handle;
  std::exception_ptr thrown;

  static void tell(void* user, const Told* told) {
    auto* self = static_cast<Progress*>(user);
    if (self->thrown) return;
    try {
      (*self->call)(*told);
    } catch (...) {
      self->thrown = std::current_exception();
      gqa_cancel(self->handle);
    }
  }
  void rethrow() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

}  // namespace detail

// ---------------------------------------------------------------- handle

// A device, a cache file, a way of tuning. Outlives its programs, its pools and the graphs that captured its calls.
class Handle {
 public:
  Handle() : Handle(gqa_options{}) {}
  // device: "auto", "cuda", "cuda:N", "host".
  explicit Handle(const char* device) : Handle(with_device(device)) {}
  explicit Handle(const std::string& device) : Handle(device.c_str()) {}
  // size is filled in.
  explicit Handle(gqa_options options) {
    options.size = sizeof(options);
    gqa_handle made = nullptr;
    check(gqa_create(&options, &made));
    handle_.reset(made);
  }

  // out = softmax(softcap(q k^T scale score_scale) + bias + mask) v; see gqa_run_ex.
  //   q (batch, q_len, q_heads, head_dim), packed (total_q, q_heads, head_dim); out likewise, of head_dim_v
  //   k (batch, kv_len, kv_heads, head_dim), packed (total_k, ...), in pages (pages, page, ...); v likewise, of
  //   head_dim_v
  // call: lists, new keys, rotation, window, sink, stream: what gqa_call says; its size is filled in. DLTensors that it
  // points at need only live until this returns, their memory until the work is done.
  void attention(TensorRef q, TensorRef k, TensorRef v, TensorRef out, gqa_call call = {}) const {
    with_call(gqa_run_ex, q, k, v, out, call);
  }
  // The same where a kernel is loaded; where none is it throws GQA_ERROR_NOT_CACHED at once.
  void run_ready(TensorRef q, TensorRef k, TensorRef v, TensorRef out, gqa_call call = {}) const {
    with_call(gqa_run_ready, q, k, v, out, call);
  }
  // Makes such a call ready, and runs nothing.
  void prepare(TensorRef q, TensorRef k, TensorRef v, TensorRef out, gqa_call call = {}) const {
    with_call(gqa_prepare, q, k, v, out, call);
  }
  // Bytes of device memory that such a call takes beyond its tensors; 0 on the host. GQA_ERROR_NOT_CACHED where no
  // kernel for it is loaded.
  std::int64_t workspace_size(TensorRef q, TensorRef k, TensorRef v, TensorRef out, gqa_call call = {}) const {
    std::int64_t bytes = 0;
    with_call(gqa_workspace_size, q, k, v, out, call, &bytes);
    return bytes;
  }

  // Merges attention on disjoint sets of keys, at least one; see gqa_merge_states. out and lse may be the first part's.
  //   outs, out (batch, q_len, q_heads, head_dim_v), packed (total_q, q_heads, head_dim_v)
  //   lses, lse (batch, q_heads, q_len), packed (q_heads, total_q): float32, natural logarithms
  void merge_states(const std::vector<TensorRef>& outs, const std::vector<TensorRef>& lses, TensorRef out,
                    TensorRef lse, void* stream = nullptr) const {
    const std::int32_t count = detail::count_of("outs", outs.size(), "lses", lses.size());
    check(gqa_merge_states(get(), count, detail::addresses(outs).data(), detail::addresses(lses).data(), out.get(),
                           lse.get(), stream));
  }

  void warm(gqa_shape shape) const {
    shape.size = sizeof(shape);
    check(gqa_warm(get(), &shape));
  }
  // Every shape of a range; see gqa_serving, whose size is filled in. progress, where it is given, takes the place of
  // serving's: it is told the plan, then each shape, on this thread. What it throws cancels the warming, and is thrown
  // again once that has returned.
  void warm_serving(gqa_serving serving, const std::function<void(const gqa_serving_progress&)>& progress = {}) const {
    detail::Progress<gqa_serving_progress> told = {&progress, get(), nullptr};
    serving.size = sizeof(serving);
    if (progress) {
      serving.progress = &told.tell;
      serving.progress_user = &told;
    }
    const gqa_status status = gqa_warm_serving(get(), &serving);
    told.rethrow();
    check(status);
  }

  // Seconds that later misses may take; 0: the default.
  void set_tuning_budget(double seconds) { check(gqa_set_tuning_budget(get(), seconds)); }
  // Ends what is being tuned or searched for on this handle, in any thread; see gqa_cancel.
  void cancel() const { check(gqa_cancel(get())); }

  gqa_handle get() const { return handle_.get(); }

 private:
  template <typename Function, typename... Rest>
  void with_call(Function function, TensorRef q, TensorRef k, TensorRef v, TensorRef out, gqa_call call,
                 Rest... rest) const {
    call.size = sizeof(call);
    check(function(get(), q.get(), k.get(), v.get(), out.get(), &call, rest...));
  }
  static gqa_options with_device(const char* device) {
    gqa_options options = {};
    options.device = device;
    return options;
  }
  struct Destroy {
    void operator()(gqa_handle handle) const { gqa_destroy(handle); }
  };
  std::unique_ptr<gqa_handle_s, Destroy> handle_;
};

// ---------------------------------------------------------------- pages

// The pages and lengths of a batch, in host memory: what gqa_call's page_table and cache_seqlens hold.
struct PageTable {
  std::vector<std::int32_t> pages;    // (sequences, columns), row after row; 0 past a sequence's last page
  std::vector<std::int32_t> lengths;  // (sequences): tokens of each
};

// Which pages of a key/value cache belong to which sequence; see gqa_page_pool, also for the order of work. It keeps
// numbers, in host memory; the tensors are the caller's. Sequences are numbers that no other pool of the process gives.
// Move-only, and frees itself. Threads: many at once, each function is one step; no other thread may be in one while
// the pool is moved or ends.
class PagePool {
 public:
  // caches: keys and values of all layers, each (pages, page, kv_heads, head_dim), of any strides and any dtype of
  // whole bytes, on the handle's device; all of as many pages, and tokens a page. Handle and memory outlive the pool.
  PagePool(const Handle& handle, const std::vector<TensorRef>& caches) {
    gqa_page_pool made = nullptr;
    check(gqa_page_pool_create(handle.get(), detail::addresses(caches).data(), static_cast<std::int32_t>(caches.size()),
                               &made));
    pool_.reset(made);
  }

  // A new sequence, of no tokens.
  std::int64_t add() {
    std::int64_t sequence = 0;
    check(gqa_page_pool_add(get(), &sequence));
    return sequence;
  }
  // A new sequence that begins with another's first tokens (-1: all), and shares their pages.
  std::int64_t share(std::int64_t sequence, std::int64_t tokens = -1) {
    std::int64_t copy = 0;
    check(gqa_page_pool_share(get(), sequence, tokens, &copy));
    return copy;
  }
  // Room for tokens[i] more in sequences[i], or for as many in each; all or nothing. A shared page that is not full is
  // copied first, on the stream, which must not be captured. GQA_ERROR_OUT_OF_MEMORY: too few pages are free.
  void append(const std::vector<std::int64_t>& sequences, const std::vector<std::int32_t>& tokens,
              void* stream = nullptr) {
    const std::int32_t count = detail::count_of("sequences", sequences.size(), "tokens", tokens.size());
    check(gqa_page_pool_append(get(), sequences.data(), tokens.data(), count, stream));
  }
  void append(const std::vector<std::int64_t>& sequences, std::int32_t tokens = 1, void* stream = nullptr) {
    append(sequences, std::vector<std::int32_t>(sequences.size(), tokens), stream);
  }
  // The same where none may have more pages than a table of so many columns holds: GQA_ERROR_SHAPE.
  void append_within(std::int64_t columns, const std::vector<std::int64_t>& sequences,
                     const std::vector<std::int32_t>& tokens, void* stream = nullptr) {
    const std::int32_t count = detail::count_of("sequences", sequences.size(), "tokens", tokens.size());
    check(gqa_page_pool_append_within(get(), sequences.data(), tokens.data(), count, columns, stream));
  }
  // Leaves a sequence its first `tokens`; pages that hold none of them any more are given back.
  void truncate(std::int64_t sequence, std::int64_t tokens) { check(gqa_page_pool_truncate(get(), sequence, tokens)); }
  // Takes sequences back, all or none. Pages that no other sequence holds can be given out again, at once.
  void free(const std::vector<std::int64_t>& sequences) {
    check(gqa_page_pool_free(get(), sequences.data(), static_cast<std::int32_t>(sequences.size())));
  }

  // columns: at least 1, and as many as the longest of the sequences has pages.
  PageTable table(const std::vector<std::int64_t>& sequences, std::int64_t columns) const {
    if (columns < 1) throw Error(GQA_ERROR_SIZE, "columns is " + std::to_string(columns) + "; expected at least 1");
    PageTable made;
    made.pages.resize(sequences.size() * static_cast<std::size_t>(columns));
    made.lengths.resize(sequences.size());
    table(sequences, columns, made.pages.data(), made.lengths.data());
    return made;
  }
  // The same into the caller's host memory, pinned for one; lengths may be NULL.
  void table(const std::vector<std::int64_t>& sequences, std::int64_t columns, std::int32_t* pages,
             std::int32_t* lengths) const {
    const auto count = static_cast<std::int32_t>(sequences.size());
    check(gqa_page_pool_table(get(), sequences.data(), count, columns, pages, lengths));
  }

  // Tokens of a sequence.
  std::int64_t length(std::int64_t sequence) const {
    std::int64_t tokens = 0;
    check(gqa_page_pool_length(get(), sequence, &tokens));
    return tokens;
  }
  std::int32_t free_pages() const {
    std::int32_t pages = 0;
    check(gqa_page_pool_free_pages(get(), &pages));
    return pages;
  }

  gqa_page_pool get() const { return pool_.get(); }

 private:
  struct Destroy {
    void operator()(gqa_page_pool pool) const { gqa_page_pool_destroy(pool); }
  };
  std::unique_ptr<gqa_page_pool_s, Destroy> pool_;
};

}  // namespace gqa

#include "gqa_graph.hpp"

#endif  // GQA_HPP_
