/* gqa.h: grouped-query attention, generated, tuned and remembered at run time.
 *
 * Owns: the whole public C interface (C11; also C++). Everything a program needs is in this file.
 * Never: throws, prints (unless a log callback asks), or exits.
 * Threads: one handle may be used from many threads at once. gqa_last_error is thread-local.
 *
 *   gqa_handle gqa;
 *   gqa_create(NULL, &gqa);                     // the best device present, the default cache file
 *   gqa_run(gqa, &q, &k, &v, &out);             // out = softmax(q k^T / sqrt(d)) v
 *   gqa_destroy(gqa);
 *
 * The first call for a shape generates candidates, compiles, verifies and times them and keeps the winner in the cache
 * file; from then on, in any process, the same shape is a look-up and a launch.
 *
 * Shapes (DLPack tensors, any strides whose last dimension is contiguous):
 *   q   (batch, q_len,  q_heads,  head_dim)      float32, float16 or bfloat16
 *   k   (batch, kv_len, kv_heads, head_dim)      same dtype
 *   v   (batch, kv_len, kv_heads, head_dim_v)    same dtype
 *   out (batch, q_len,  q_heads,  head_dim_v)    same dtype
 * A key/value cache may have pages, and each sequence a length of its own: see gqa_call.
 * q_heads is a multiple of kv_heads; query head h reads key/value head h / (q_heads / kv_heads). Products are
 * accumulated in float32. head_dim and head_dim_v are each one of 16, 32, 64, 80, 96, 112, 128, 192, 256.
 */
#ifndef GQA_H_
#define GQA_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* The one place of the version: CMake and the Python package read it here. */
#define GQA_VERSION_MAJOR 0
#define GQA_VERSION_MINOR 2
#define GQA_VERSION_PATCH 0
/* One number that compares: 10000 * major + 100 * minor + patch. */
#define GQA_VERSION (10000 * GQA_VERSION_MAJOR + 100 * GQA_VERSION_MINOR + GQA_VERSION_PATCH)

#if defined(__GNUC__)
#define GQA_API __attribute__((visibility("default")))
#else
#define GQA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- status */

typedef enum gqa_status {
  GQA_OK = 0,
  /* arguments: the call was refused before anything ran */
  GQA_ERROR_NULL_ARGUMENT = 1, /* a required pointer is NULL */
  GQA_ERROR_STRUCT_SIZE = 2,   /* a struct's `size` is not one this library knows */
  GQA_ERROR_RANK = 3,          /* a tensor has the wrong number of dimensions */
  GQA_ERROR_DTYPE = 4,         /* a dtype is not supported, or differs between tensors */
  GQA_ERROR_DEVICE = 5,        /* a tensor is not on the handle's device */
  GQA_ERROR_SHAPE = 6,         /* sizes do not agree between tensors */
  GQA_ERROR_SIZE = 7,          /* a size is zero or negative, or a product of sizes overflows */
  GQA_ERROR_HEAD_DIM = 8,      /* head_dim or head_dim_v is not supported */
  GQA_ERROR_HEADS = 9,         /* q_heads is not a multiple of kv_heads */
  GQA_ERROR_STRIDE = 10,       /* the last stride is not 1, or out overlaps itself */
  GQA_ERROR_ALIGNMENT = 11,    /* a data pointer is not aligned to its element */
  GQA_ERROR_ALIAS = 12,        /* out (or lse) overlaps an input */
  GQA_ERROR_OPTION = 13,       /* an option or a call field has a value that means nothing */
  /* the world: what the call needed is not there */
  GQA_ERROR_NO_DEVICE = 20,     /* the device asked for is not on this machine */
  GQA_ERROR_NO_COMPILER = 21,   /* NVRTC was not found, or is too old for the device */
  GQA_ERROR_NOT_CACHED = 22,    /* policy is GQA_TUNE_CACHED_ONLY and the cache holds no kernel for this shape */
  GQA_ERROR_CAPTURING = 23,     /* the stream is being captured, or is the legacy stream beside a capture that waits for
                                   it, and no kernel for this shape is loaded */
  GQA_ERROR_NO_CANDIDATE = 24,  /* every candidate was rejected, failed to compile or failed to verify */
  GQA_ERROR_OUT_OF_MEMORY = 25, /* host or device memory ran out */
  GQA_ERROR_DEVICE_FAILED = 26, /* the driver reported an error */
  GQA_ERROR_INTERNAL = 27,      /* a bug in this library; please report it with gqa_last_error() */
  GQA_ERROR_CANCELLED = 28      /* gqa_cancel ended this call before its kernel was ready */
} gqa_status;

/* The name of a status, "GQA_ERROR_RANK"; never NULL, also for numbers that are no status. */
GQA_API const char* gqa_status_string(gqa_status status);

/* The message of this thread's last failed call: what was given, what was expected, what to do. "" after a success.
 * Valid until this thread's next call into the library. */
GQA_API const char* gqa_last_error(void);

/* GQA_VERSION of the library that is loaded. */
GQA_API int gqa_version(void);

/* ---------------------------------------------------------------- handle */

typedef struct gqa_handle_s* gqa_handle;

typedef enum gqa_cache_mode {
  GQA_CACHE_READ_WRITE = 0, /* look up, and remember what is learnt */
  GQA_CACHE_READ_ONLY = 1,  /* look up only; the file is never written */
  GQA_CACHE_OFF = 2         /* no file: this handle remembers in memory only */
} gqa_cache_mode;

typedef enum gqa_tuning {
  GQA_TUNE_NOW = 0,        /* on a miss: search, compile, verify and time within the budget, then answer */
  GQA_TUNE_GUESS = 1,      /* on a miss: compile and verify the cost model's best guess only, then answer */
  GQA_TUNE_CACHED_ONLY = 2 /* on a miss: fail with GQA_ERROR_NOT_CACHED */
} gqa_tuning;

/* The same of one call. A guess is stored nowhere: it answers calls until one whose tuning is now (by its own field, or
 * by the handle's option) comes for the same shape and tunes. While a stream is captured, that one takes the guess. */
typedef enum gqa_call_tuning {
  GQA_CALL_TUNE_AS_HANDLE = 0,
  GQA_CALL_TUNE_NOW = 1,
  GQA_CALL_TUNE_GUESS = 2,
  GQA_CALL_TUNE_CACHED_ONLY = 3
} gqa_call_tuning;

typedef enum gqa_log_level { GQA_LOG_INFO = 0, GQA_LOG_WARNING = 1 } gqa_log_level;

/* Called with one line of text without a newline; may be called from any thread, one call at a time per handle. */
typedef void (*gqa_log_fn)(void* user, gqa_log_level level, const char* message);

/* Zero-initialise, set size, then what should differ from the default. */
typedef struct gqa_options {
  size_t size;            /* sizeof(gqa_options) */
  const char* device;     /* "auto" (NULL: a GPU if there is one, else the host), "cuda", "cuda:N", "host" or "cpu" */
  const char* cache_path; /* NULL: $GQA_CACHE, else $XDG_CACHE_HOME/gqa/cache.db, else ~/.cache/gqa/cache.db.
                             A ~ before the first slash is $HOME, here and in $GQA_CACHE.
                             "user.db:image.db:site.db" names several: looked up in order, the first alone is written;
                             a ":" in a path is written "\:". What another file than the first holds is verified here
                             before its first use; what fails is ignored, and a warning to log says so.
                             A file there that is not a gqa cache is left untouched, one that cannot be written is only
                             read, one that others could write is refused: a warning to log says so, what is learnt
                             stays in memory, and calls succeed. An empty file of this user's is as good as none. */
  gqa_cache_mode cache_mode;
  gqa_tuning tuning;
  double tuning_budget;   /* seconds a miss may take, all in all, to within one compilation or one run of a kernel; 0: 8
                             s.   At least one candidate is tried. On the CPU a race ends after some calls of its best
                             candidate, or half a second: what is left of the budget is not spent. */
  int threads;            /* host threads for compiling and for the host device; 0: GQA_THREADS, else all it may use */
  const char* nvrtc_path; /* explicit libnvrtc to load; NULL: $GQA_NVRTC, then the documented search order */
  gqa_log_fn log;         /* NULL: silent. Told of a tuning as it begins, each second and as it ends */
  void* log_user;         /* handed to log */
  int checked;            /* 1: each call reads its lists first and refuses, with GQA_ERROR_OPTION, a
                             length outside 0 to kv_len, an entry that a length reaches outside 0 to pages - 1, packed
                             sequences that do not ascend from 0 on, leave their tensor or have more than the maximum,
                             two new keys for one slot, and positions past the last row of rotary_cos, naming sequence
                             and page. Starts that end before their tensor does are told to log, once. It waits for
                             the stream: for finding a bug, not for serving. 0: so if $GQA_CHECKED is 1 when the handle
                             is made. A gqa_options that ends before this field is taken too. */
} gqa_options;

/* Creates a handle; options may be NULL. On failure *handle is NULL. */
GQA_API gqa_status gqa_create(const gqa_options* options, gqa_handle* handle);

/* Waits for this handle's tuning in other threads, frees kernels and workspace. NULL is fine.
 * The caller makes sure that no launched work of this handle is still running. */
GQA_API void gqa_destroy(gqa_handle handle);

/* Ends every miss and every gqa_graph_superoptimize that is in progress on the handle within half a second: they fail
 * with GQA_ERROR_CANCELLED, and nothing half-done is cached. Calls that need no tuning, and all later ones, are
 * unaffected. From any thread, or from a progress or log callback. A compiler that already runs may end in the
 * background; gqa_destroy waits for it. */
GQA_API gqa_status gqa_cancel(gqa_handle handle);

/* How many seconds later misses of the handle may take, as gqa_options.tuning_budget; 0: the default. From any thread.
 */
GQA_API gqa_status gqa_set_tuning_budget(gqa_handle handle, double seconds);

/* ---------------------------------------------------------------- calls */

/* Everything about a call that is not one of its four tensors. Zero-initialise, set size. A paragraph before each group
 * of fields says what they mean; one that ends at the end of a group, as older headers have it, is taken too.
 *
 * Keys: a sequence b has len(b) of them, kv_len unless the call says otherwise. Its query i stands at key
 * len(b) - q_len + i (aligned bottom-right) and sees, of keys 0 to len(b) - 1,
 *   all                                               without causal and window_size;
 *   j <= len(b) - q_len + i                           with causal;
 *   those at most left before it and right after it   with window_size {left, right}.
 * A row that sees no key, as all rows of a sequence of length 0, gives 0 and lse -inf. Keys and values that no row of
 * the call may see (past lengths, in slots and pages of others, outside all windows) never show, NaN and infinities
 * included. Where the mask hides a key from some rows only, or -inf of a bias hides it, they may show in the rows that
 * do not see it (0 times NaN), as in FlashAttention-2.
 *
 * Lists are read on the device when the work runs, never by the host (but see gqa_options.checked), so a captured call
 * reads what they hold at each replay. Calls that differ in these numbers only are one problem: a growing cache
 * compiles and tunes nothing.
 *
 * A call without a query (batch, q_len or total_q of 0, or cu_seqlens_q of a single number) that appends nothing has
 * nothing to do: it succeeds, and of its tensors only q and out are looked at. One that brings new keys writes those.
 */
typedef struct gqa_call {
  size_t size;         /* sizeof(gqa_call) */
  float scale;         /* scores are scaled by this, finite, positive and not subnormal; 0: 1/sqrt(head_dim) */
  int causal;          /* 1: query i sees keys j <= i + kv_len - q_len (aligned bottom-right); a row that sees no key
                          gives 0 and lse -inf */
  const DLTensor* lse; /* NULL, or out: (batch, q_heads, q_len) float32, natural log of the sum of exp(scaled scores);
                          calls with and without are tuned apart */
  void* stream;        /* CUstream / cudaStream_t to launch on; NULL: the legacy default stream; host: ignored */

  /* Caches. A sequence has cache_seqlens[b] keys of the kv_len that there is room for. With page_table, k is (pages,
   * page, kv_heads, head_dim), v (pages, page, kv_heads, head_dim_v), for any page size from 1; key j of sequence b is
   * k[page_table[b][j / page]][j % page], and kv_len is page times the table's columns. Sequences may share pages, in
   * any order. Entries that a length reaches are 0 to pages - 1. Keys from len(b) on, pages that no length reaches and
   * entries past a length are never used: they may hold anything, numbers out of range included. */
  const DLTensor* cache_seqlens; /* NULL: kv_len keys in each sequence; or (batch) int32, contiguous, on the handle's
                                    device; numbers below 0 count as 0, those above kv_len as kv_len */
  const DLTensor* page_table;    /* NULL: dense keys; or (batch, pages a sequence) int32, contiguous rows, on the
                                    handle's device */
  const int32_t* window_size;    /* NULL: no window; or two numbers {left, right} in host memory, each at least 0, or -1
                                    for no limit on that side; causal makes right 0 */

  /* Packed sequences. With cu_seqlens_q, queries of all sequences follow each other: q is (total_q, q_heads, head_dim),
   * out likewise, lse (q_heads, total_q), and sequence b has rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1, at most
   * max_seqlen_q of them; q_len above is then their number. With cu_seqlens_k, k and v are (total_k, kv_heads, ...) in
   * the same way. A sequence may have no query, no key, or more queries than keys; rows that no sequence has are not
   * written. total_q and total_k may be larger than the last number of the list. Where no sequence has a key, total_k
   * and max_seqlen_k may be 0. */
  const DLTensor* cu_seqlens_q; /* NULL: q is (batch, q_len, q_heads, head_dim); or (batch + 1) int32, contiguous, on
                                   the handle's device, ascending from 0 on */
  const DLTensor* cu_seqlens_k; /* the same of k and v; not with page_table. cache_seqlens, where it is given too, says
                                   how many keys of each sequence's are used; more than it has count as all of them */
  const DLTensor* seqused_q;    /* NULL, or (batch) int32: how many queries of each packed sequence's are used (more
                                   than it has: all), the others' rows of out and lse are not written; cu_seqlens_q
                                   alone has it */
  int64_t max_seqlen_q; /* with cu_seqlens_q: no sequence has more queries; those that are past it are not read */
  int64_t max_seqlen_k; /* with cu_seqlens_k: no sequence has more keys */

  /* Steps of a score. With softcap, a score s = scale q k becomes softcap * tanh(s / softcap) before the mask and the
   * softmax; lse is that of such scores. Calls that differ in the cap only are one problem. With sink, the number s of
   * a query head joins the denominator of its rows as exp(s), beside the exponentials of scores, and adds no value;
   * lse includes it. A row that sees no key then gives 0 and lse s, and so does any where s outweighs all scores. */
  float softcap;        /* 0: none; or the bound of all scores, finite, positive and not subnormal */
  const DLTensor* sink; /* NULL: none; or (q_heads) float32, contiguous, on the handle's device, read when the work
                           runs: finite, -inf for a head without one, or +inf, which makes a head's rows 0 */

  /* New keys. With k_new, the call first writes sequence b's new keys and values into slots cache_seqlens[b],
   * cache_seqlens[b] + 1, ... of k and v, in pages where there are some, and then attends: len(b) is cache_seqlens[b]
   * and as many more as the new ones are. Those past the last slot are not written. k_new without a row brings nothing.
   * On a GPU decodes write them in attention's own launch; other calls by a kernel before it on the same stream,
   * compiled at the first such call; where that fails, nothing has been written.
   *   With rotary_cos and rotary_sin each new key, at position t, is written as rotated: a pair (x, y) of its first
   * rotary_dim elements becomes (x cos - y sin, x sin + y cos) by row t, which is rotary_seqlens[b], or
   * cache_seqlens[b], for the first of them. Queries are rotated the same way where they are read, q stays as it is:
   * query i by row t + i with causal or window_size, all by row t without. Positions past the last row take the last (a
   * checked handle refuses them).
   *   With cache_leftpad a sequence's keys begin at slot cache_leftpad[b]; cache_seqlens counts slots from 0, so len(b)
   * is smaller by cache_leftpad[b]. */
  const DLTensor* k_new; /* NULL: none; or (batch, new, kv_heads, head_dim), written into k before the call attends */
  const DLTensor* v_new; /* with k_new: (batch, new, kv_heads, head_dim_v), written into v */
  const DLTensor* cu_seqlens_k_new; /* NULL; or (batch + 1) int32, as cu_seqlens_q: k_new is (total_new, kv_heads, ...),
                                       and v_new likewise */
  const DLTensor* rotary_cos;       /* with k_new: (positions, rotary_dim / 2) of q's dtype, rows contiguous */
  const DLTensor* rotary_sin;       /* the same; rotary_dim is a multiple of 16, at most head_dim */
  const DLTensor*
      rotary_seqlens;     /* NULL: cache_seqlens; or (batch) int32: the position of a sequence's first new key */
  int rotary_interleaved; /* 1: pairs are elements 2 i and 2 i + 1, 0: i and i + rotary_dim / 2 */
  const DLTensor* cache_batch_idx; /* NULL: i; or (batch) int32: sequence i lies in k[cache_batch_idx[i]], v likewise;
                                      k's and v's batch may be another than q's. With page_table: its row */
  const DLTensor* cache_leftpad;   /* NULL: 0; or (batch) int32: the first slot of a sequence. With page_table, pages
                                       follow each other without a gap: each slot is then a page to the kernel.
                                       Without, rows of k and of v are a whole number of slots apart, unless they
                                       have one slot a row */

  /* Arrays of scores. With score_scale, a score is multiplied by its head's or row's number before softcap. With bias,
   * a row's number for a key is added to the capped score before the mask; -inf hides the key. A finite number is one,
   * the type's least, too: a row all of whose scores it makes equal is the average of its values. lse is that of such
   * scores. A row all of whose keys are hidden by -inf is one that sees no key. Where sequences have lengths of their
   * own, column j is key j; what a row does not see may be NaN. At most two of softcap, score_scale and bias go
   * together. */
  const DLTensor* score_scale; /* NULL: none; or float32 on the handle's device, read when the work runs: (q_heads),
                                  contiguous, or, of sequences that are not packed, (batch or 1, q_heads or 1, q_len) */
  const DLTensor* bias;        /* NULL: none; or (batch or 1, q_heads or 1, q_len or 1, kv_len) of q's dtype or float32,
                                  rows contiguous, on the handle's device, read when the work runs; not with
                                  cu_seqlens_q, cu_seqlens_k or k_new. kv_len is page times columns of page_table */

  gqa_call_tuning tuning; /* 0: as the handle's option; else what this call does on a miss */
} gqa_call;

/* out = softmax(softcap(q k^T * scale * score_scale) + bias + mask) v. On a GPU the work is queued on the stream and
 * the call returns; on the host it is done when the call returns.
 * A call may be captured. Graphs of different captures, branches of one capture and live calls may run at once;
 * executable graphs instantiated from one capture write the same out and share workspace, so their order is the
 * caller's. The handle must outlive them. */
GQA_API gqa_status gqa_run(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                           const DLTensor* out);

/* The same with options; call may be NULL. */
GQA_API gqa_status gqa_run_ex(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                              const DLTensor* out, const gqa_call* call);

/* The two halves of a first call, for callers that must not wait, or that wait on another thread. gqa_run_ready is
 * gqa_run_ex where a kernel for the call is loaded, and fails with GQA_ERROR_NOT_CACHED at once where none is.
 * gqa_prepare makes it ready and runs nothing. */
GQA_API gqa_status gqa_run_ready(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                                 const DLTensor* out, const gqa_call* call);
GQA_API gqa_status gqa_prepare(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                               const DLTensor* out, const gqa_call* call);

/* Attention on disjoint sets of keys, merged into attention on all of them: for a prefix that sequences share
 * (cascades), or keys that are spread over devices (context parallelism).
 *   lse = log(sum_i exp(lses[i])), out = sum_i exp(lses[i] - lse) outs[i]
 * count: parts, at least 1; outs and lses: arrays of so many pointers.
 *   outs, out  (batch, q_len, q_heads, head_dim_v)  float16, bfloat16 or float32, all alike; any head_dim_v
 *   lses, lse  (batch, q_heads, q_len)              float32, natural logs
 * or, of packed sequences, (total_q, q_heads, head_dim_v) and (q_heads, total_q). out and lse overlap no part and not
 * each other, but may be outs[0] and lses[0], to merge in place. A part that saw no key of a row has -inf there, or
 * +inf, FlashAttention-2's mark of it: its out is not read there, and may hold anything. Where all have, out is 0 and
 * lse -inf. With a sink, give it to the calls of one part. Without a row in out there is nothing to do.
 * On a GPU the work is queued on the stream. Its kernel is compiled at the first call of any shape, or by gqa_warm of
 * any shape with lse, and cached; a call may be captured from then on. More than 32 parts are merged in rounds there,
 * and out is rounded to its dtype once a round. */
GQA_API gqa_status gqa_merge_states(gqa_handle handle, int32_t count, const DLTensor* const* outs,
                                    const DLTensor* const* lses, const DLTensor* out, const DLTensor* lse,
                                    void* stream);

/* *bytes: the device memory beyond its tensors that a call of these shapes takes: what its first use in a capture
 * allocates, unless a graph that is gone left as much; 0 on the host. It follows from the shapes, maxima included, and
 * not from the numbers in lists: a call captured with the largest lengths has room for all. Calls of one stream, and of
 * one stream in one capture, share it, so the largest counts; where it has to grow, it grows by half at least. Fails
 * with GQA_ERROR_NOT_CACHED where no kernel for the call is loaded. */
GQA_API gqa_status gqa_workspace_size(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                                      const DLTensor* out, const gqa_call* call, int64_t* bytes);

/* A shape without tensors, for warming. Zero-initialise, set size. One that ends before lse, page, cu_seqlens_q or
 * softcap, as older headers have it, is taken too. What a call appends asks for no shape of its own. */
typedef enum gqa_score_scale {
  GQA_SCORE_SCALE_NONE = 0,
  GQA_SCORE_SCALE_HEADS = 1, /* (q_heads) */
  GQA_SCORE_SCALE_ROWS = 2   /* (batch or 1, q_heads or 1, q_len) */
} gqa_score_scale;

typedef enum gqa_bias { GQA_BIAS_NONE = 0, GQA_BIAS_OF_Q = 1 /* of q's dtype */, GQA_BIAS_FLOAT32 = 2 } gqa_bias;

typedef struct gqa_shape {
  size_t size; /* sizeof(gqa_shape) */
  int64_t batch, q_len, kv_len, q_heads, kv_heads, head_dim;
  int64_t head_dim_v; /* 0: head_dim */
  DLDataType dtype;   /* {kDLFloat, 32, 1}, {kDLFloat, 16, 1} or {kDLBfloat, 16, 1} */
  int causal;
  int lse;      /* 1: calls that give an lse tensor, 0: calls that do not */
  int64_t page; /* keys a page of calls with page_table, whose kv_len is page times its columns; 0: without */
  const int32_t* window_size; /* as gqa_call's; NULL: no window */
  int cache_seqlens;          /* 1: calls that give cache_seqlens, 0: calls that do not */
  int cu_seqlens_q;           /* 1: calls that give cu_seqlens_q: q_len is their max_seqlen_q, batch their sequences */
  int cu_seqlens_k;           /* 1: calls that give cu_seqlens_k: kv_len is their max_seqlen_k */
  int softcap;                /* 1: calls that give a softcap, whatever its number; 0: calls that do not */
  int sink;                   /* 1: calls that give a sink, 0: calls that do not */
  /* A gqa_shape that ends here is taken too. */
  gqa_score_scale score_scale; /* of calls that give one, of which shape it is */
  gqa_bias bias;               /* of calls that give one, of which type it is, whatever its broadcast dimensions */
  int align; /* bytes that rows of q, k, v and out begin on multiples of: 16, or 0 for that; 2: anywhere */
  int notma; /* 1: calls whose strides no tensor map can express, as those of a reversed tensor; 0: all others */
} gqa_shape;

/* Does what the first gqa_run of such a shape would do, and runs nothing for the caller. */
GQA_API gqa_status gqa_warm(gqa_handle handle, const gqa_shape* shape);

/* How far gqa_warm_serving is. */
typedef struct gqa_serving_progress {
  int64_t shapes, tuned;              /* of the range; of them, those that the cache had a tuned winner for before */
  int64_t kernels, to_compile;        /* that the others are about to try; of them, those that are not cached */
  double about_seconds, most_seconds; /* of the work, an estimate; where every shape spends its whole tuning_budget */
  int64_t done, failed;               /* shapes, so far; those that are not ready, counted in done */
  const char* shape;                  /* the last of them, as gqa-cache writes it; NULL: this is the plan, before any */
  double seconds;                     /* since the work began */
} gqa_serving_progress;

/* Called on the thread that called gqa_warm_serving: with the plan, then after each shape. */
typedef void (*gqa_serving_progress_fn)(void* user, const gqa_serving_progress* progress);

/* The calls of a layer, causal, while a model is served. Zero-initialise, set size. */
typedef struct gqa_serving {
  size_t size;       /* sizeof(gqa_serving) */
  const char* range; /* "batch=1..256,kv=1..32k,page=16"; gqa-cache help serve and docs/deployment.md explain it */
  int64_t q_heads, kv_heads, head_dim;
  int64_t head_dim_v;               /* 0: head_dim */
  const int32_t* window_size;       /* as gqa_call's; NULL: no window */
  int softcap, sink;                /* as gqa_shape's */
  int plan_only;                    /* 1: tells the plan and makes nothing ready */
  gqa_serving_progress_fn progress; /* NULL: none */
  void* progress_user;
} gqa_serving;

/* gqa_warm for every shape of a range: after it, a handle that may not tune has a kernel for each of its calls. A shape
 * that fails does not keep the others from being tried; the first failure is returned, with how many there were.
 * gqa_cancel ends it. */
GQA_API gqa_status gqa_warm_serving(gqa_handle handle, const gqa_serving* serving);

/* Why a call runs as it does, or is refused: tunes, compiles and launches nothing, and reads no tensor's numbers. out
 * may be NULL. *text: lines to read; *json: an object with source    "tuned" (measured in this process), "cache" (its
 * winner is cached), "guess" (nobody has timed it; where nothing is known, what the cost model would choose), "refused"
 *   problem, kernel, reason   texts; problem and kernel are "" where there is none
 *   evidence  numbers by name: median_us, spread_us, error, error_bound, predicted_us, candidates, gflop, megabytes,
 * ... nearest   null, or {change, problem, predicted_us}: the nearest call that is served, or of one that is served the
 *             nearest that the cost model holds clearly faster.
 * Both are this thread's, until its next gqa_explain; either may be NULL. A refused call is no failure. */
GQA_API gqa_status gqa_explain(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                               const DLTensor* out, const gqa_call* call, const char** text, const char** json);

/* ---------------------------------------------------------------- pages */

/* Which pages of a key/value cache belong to which sequence, for gqa_call's page_table. A pool keeps numbers, in host
 * memory; tensors are the caller's, who writes keys and values into them. Sequences are numbers, too: no other pool of
 * the process gives the same ones.
 *
 *   gqa_page_pool_create(gqa, caches, 2 * layers, &pool);
 *   gqa_page_pool_add(pool, &sequence);
 *   gqa_page_pool_append(pool, &sequence, &tokens, 1, stream);         // then write their keys and values, and
 *   gqa_page_pool_table(pool, &sequence, 1, columns, table, lengths);  // attend with this table and these lengths
 *
 * Threads: one pool may be used from many threads at once; each function is one step.
 * Order: a freed page may be given out at once, and a shared page is copied before it is written. So work that reads
 * and work that writes a pool's tensors is in order with the streams given here, as it is where there is one stream. */
typedef struct gqa_page_pool_s* gqa_page_pool;

/* A pool of all pages of `caches`, so many tensors (count, at least 1) as keys and values of all layers have: each
 * (pages, page, kv_heads, head_dim), of any strides and any dtype of whole bytes, on the handle's device; all with as
 * many pages and as many tokens a page. Handle and memory must outlive the pool. On failure *pool is NULL. */
GQA_API gqa_status gqa_page_pool_create(gqa_handle handle, const DLTensor* const* caches, int32_t count,
                                        gqa_page_pool* pool);
GQA_API void gqa_page_pool_destroy(gqa_page_pool pool); /* NULL is fine */

/* A new sequence, of no tokens. */
GQA_API gqa_status gqa_page_pool_add(gqa_page_pool pool, int64_t* sequence);

/* A new sequence that begins with the first `tokens` of another, or with all of them where that is -1. Their pages are
 * shared; no memory is copied before one of the two appends to a page that is not full. */
GQA_API gqa_status gqa_page_pool_share(gqa_page_pool pool, int64_t sequence, int64_t tokens, int64_t* copy);

/* Makes room for tokens[i] more in sequences[i]. A last page that is not full and that other sequences hold, too, is
 * copied to a page of the sequence's own, in all caches: on a GPU queued on the stream, which must not be captured, on
 * the host done when the call returns. Where the pool has too few free pages it fails with GQA_ERROR_OUT_OF_MEMORY; all
 * is then as before, as after any failure. */
GQA_API gqa_status gqa_page_pool_append(gqa_page_pool pool, const int64_t* sequences, const int32_t* tokens,
                                        int32_t count, void* stream);

/* The same for sequences that have to fit a table of `columns` columns: where one would have more pages, it fails with
 * GQA_ERROR_SHAPE, and all is as before. */
GQA_API gqa_status gqa_page_pool_append_within(gqa_page_pool pool, const int64_t* sequences, const int32_t* tokens,
                                               int32_t count, int64_t columns, void* stream);

/* Leaves a sequence its first `tokens`, 0 to as many as it has: those of a draft that was refused go. Pages that hold
 * none of them any more are given back. */
GQA_API gqa_status gqa_page_pool_truncate(gqa_page_pool pool, int64_t sequence, int64_t tokens);

/* Takes sequences back. Pages that no other sequence holds are free. */
GQA_API gqa_status gqa_page_pool_free(gqa_page_pool pool, const int64_t* sequences, int32_t count);

/* Writes, in host memory, a row of `columns` page numbers a sequence, 0 past its last page; and to lengths, which may
 * be NULL, how many tokens each has. */
GQA_API gqa_status gqa_page_pool_table(gqa_page_pool pool, const int64_t* sequences, int32_t count, int64_t columns,
                                       int32_t* table, int32_t* lengths);

GQA_API gqa_status gqa_page_pool_length(gqa_page_pool pool, int64_t sequence, int64_t* tokens);
GQA_API gqa_status gqa_page_pool_free_pages(gqa_page_pool pool, int32_t* pages);

#ifdef __cplusplus
}
#endif

#endif /* GQA_H_ */
