/* gqa_graph.h: programs of a user's own: write what is meant as a graph of operators, get the fastest equal program.
 *
 * Owns: the C interface of the µGraph superoptimizer (C11; also C++), beside gqa.h and with its manners: statuses,
 * gqa_last_error(), structs that begin with their size.
 * Never: throws, prints, or exits.
 * Threads: a graph belongs to one thread at a time. A program may be run from many threads at once.
 *
 *   gqa_graph graph;
 *   gqa_graph_create(&graph);
 *   gqa_value x, w, y;
 *   gqa_graph_input(graph, 2, (int64_t[]){16, 4096}, NULL, f16, &x);
 *   gqa_graph_input(graph, 2, (int64_t[]){4096, 1024}, NULL, f16, &w);
 *   gqa_graph_matmul(graph, x, w, 0, 0, &y);
 *   gqa_program program;
 *   gqa_graph_superoptimize(graph, gqa, NULL, &program);
 *   gqa_program_run(program, (const DLTensor*[]){&x_data, &w_data}, 2, (const DLTensor*[]){&y_data}, 1, stream);
 *
 * The search rewrites the graph, enumerates the kernels it could be, proves each program equal over finite fields,
 * compiles the most promising, verifies them against the graph's own evaluation in double, times them, and keeps the
 * fastest in the handle's cache file under the graph's canonical hash: names and the order of construction do not
 * matter. A second process does none of that again.
 */
#ifndef GQA_GRAPH_H_
#define GQA_GRAPH_H_

#include "gqa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- graphs */

typedef struct gqa_graph_s* gqa_graph;

/* A tensor of a graph: an input, or an operator's result. Means nothing in another graph: there it is refused. */
typedef struct gqa_value {
  uint32_t graph; /* which graph's; never 0 */
  int32_t index;
} gqa_value;

GQA_API gqa_status gqa_graph_create(gqa_graph* graph);
GQA_API void gqa_graph_destroy(gqa_graph graph); /* NULL is fine; programs made of it live on */

/* A new input: rank 1 to 8, sizes in elements. strides: in elements, one a dimension, none negative; NULL for
 * row-major without gaps. dtype: {kDLFloat, 16, 1}, {kDLBfloat, 16, 1} or {kDLFloat, 32, 1}. */
GQA_API gqa_status gqa_graph_input(gqa_graph graph, int rank, const int64_t* dims, const int64_t* strides,
                                   DLDataType dtype, gqa_value* result);

/* Marks a result as an output, in order. Where none is marked, every result that no operator reads is an output. */
GQA_API gqa_status gqa_graph_output(gqa_graph graph, gqa_value value);

/* Names a value: a letter or _, then letters, digits and _, no other's name. For texts and drawings: results do not
 * depend on names. Values without one are called t0, t1, ... */
GQA_API gqa_status gqa_graph_rename(gqa_graph graph, gqa_value value, const char* name);
/* The value of that name; of a graph that gqa_graph_parse made, the way to its values. */
GQA_API gqa_status gqa_graph_find(gqa_graph graph, const char* name, gqa_value* result);

/* The rank, sizes (8 at most) and dtype of a value; each pointer may be NULL. */
GQA_API gqa_status gqa_graph_describe(gqa_graph graph, gqa_value value, int* rank, int64_t dims[8], DLDataType* dtype);

/* Operators. Shapes and dtypes are checked at once; a refused operator leaves the graph as it was, and *result of no
 * graph. Dimensions of size 1
 * are stretched where two operands meet. float16 and bfloat16 do not mix; float32 wins over both. Results are rounded
 * to their dtype in the graph's own evaluation; a fused program keeps float32 between operators. dim: counted from 0,
 * or below 0 from the end. */

/* The last two dimensions multiply, those before them are batches: (.., m, k) x (.., k, n) -> (.., m, n);
 * transpose_a, transpose_b: 1 where an operand's last two dimensions are given swapped. */
GQA_API gqa_status gqa_graph_matmul(gqa_graph graph, gqa_value a, gqa_value b, int transpose_a, int transpose_b,
                                    gqa_value* result);

GQA_API gqa_status gqa_graph_add(gqa_graph graph, gqa_value a, gqa_value b, gqa_value* result);
GQA_API gqa_status gqa_graph_sub(gqa_graph graph, gqa_value a, gqa_value b, gqa_value* result);
GQA_API gqa_status gqa_graph_mul(gqa_graph graph, gqa_value a, gqa_value b, gqa_value* result);
GQA_API gqa_status gqa_graph_div(gqa_graph graph, gqa_value a, gqa_value b, gqa_value* result);

GQA_API gqa_status gqa_graph_exp(gqa_graph graph, gqa_value x, gqa_value* result);
GQA_API gqa_status gqa_graph_sqrt(gqa_graph graph, gqa_value x, gqa_value* result);
GQA_API gqa_status gqa_graph_reciprocal(gqa_graph graph, gqa_value x, gqa_value* result); /* 1 / x */
GQA_API gqa_status gqa_graph_square(gqa_graph graph, gqa_value x, gqa_value* result);
GQA_API gqa_status gqa_graph_relu(gqa_graph graph, gqa_value x, gqa_value* result);
GQA_API gqa_status gqa_graph_silu(gqa_graph graph, gqa_value x, gqa_value* result);
GQA_API gqa_status gqa_graph_gelu(gqa_graph graph, gqa_value x, gqa_value* result); /* x Phi(x), by erf */
GQA_API gqa_status gqa_graph_tanh(gqa_graph graph, gqa_value x, gqa_value* result);
GQA_API gqa_status gqa_graph_clamp(gqa_graph graph, gqa_value x, double low, double high, gqa_value* result);
GQA_API gqa_status gqa_graph_scale(gqa_graph graph, gqa_value x, double factor, gqa_value* result); /* x factor */
GQA_API gqa_status gqa_graph_add_constant(gqa_graph graph, gqa_value x, double constant, gqa_value* result); /* x + c */

/* The dimension stays, with size 1. */
GQA_API gqa_status gqa_graph_sum(gqa_graph graph, gqa_value x, int dim, gqa_value* result);
GQA_API gqa_status gqa_graph_max(gqa_graph graph, gqa_value x, int dim, gqa_value* result);
GQA_API gqa_status gqa_graph_mean(gqa_graph graph, gqa_value x, int dim, gqa_value* result);

/* exp(x - max) / sum along dim; 0 where a row is all -inf. */
GQA_API gqa_status gqa_graph_softmax(gqa_graph graph, gqa_value x, int dim, gqa_value* result);
/* x / sqrt(mean(x^2) + epsilon) along the last dimension, times weight (that dimension's size) unless NULL. */
GQA_API gqa_status gqa_graph_rms_norm(gqa_graph graph, gqa_value x, const gqa_value* weight, double epsilon,
                                      gqa_value* result);

/* Row i of M and column j of N of the last two dimensions: -inf unless -left <= j - (i + N - M) <= right. A negative
 * bound: none. left -1, right 0: causal, aligned bottom-right. */
GQA_API gqa_status gqa_graph_mask(gqa_graph graph, gqa_value x, int64_t left, int64_t right, gqa_value* result);

/* x stretched to dims: from the last dimension on, each is x's own or x has size 1 there. */
GQA_API gqa_status gqa_graph_broadcast(gqa_graph graph, gqa_value x, int rank, const int64_t* dims, gqa_value* result);
/* Dimension i of the result is dimension order[i] of x; rank entries. */
GQA_API gqa_status gqa_graph_transpose(gqa_graph graph, gqa_value x, const int* order, gqa_value* result);

/* Texts of the graph, each valid until the next call of the same function for the same graph, or its end; NULL on an
 * error (gqa_last_error). */
GQA_API const char* gqa_graph_text(gqa_graph graph); /* what gqa_graph_parse reads; see docs/mugraph.md */
GQA_API const char* gqa_graph_json(gqa_graph graph);
GQA_API const char* gqa_graph_dot(gqa_graph graph); /* Graphviz */
/* 32 hexadecimal digits: equal for graphs that differ in names and order of construction alone. */
GQA_API const char* gqa_graph_hash(gqa_graph graph);

/* A new graph from gqa_graph_text's or gqa_graph_json's form. */
GQA_API gqa_status gqa_graph_parse(const char* text, gqa_graph* graph);

/* ---------------------------------------------------------------- programs */

typedef struct gqa_program_s* gqa_program;

/* How far a search is; numbers of its programs and kernels. */
typedef struct gqa_search_progress {
  const char* phase;                /* "search", "compile", "verify", "time" */
  int64_t explored, pruned, proved; /* µGraphs and programs */
  int64_t kernels, compiled;
  int64_t programs, verified, timed;
  double best_us; /* 0: none yet */
  double seconds; /* since the search began */
} gqa_search_progress;

/* Called on the thread that called gqa_graph_superoptimize. */
typedef void (*gqa_search_progress_fn)(void* user, const gqa_search_progress* progress);

/* Zero-initialise, set size. */
typedef struct gqa_search_options {
  size_t size;                     /* sizeof(gqa_search_options) */
  const char* config;              /* NULL: for any graph; "attention": tiles for softmax(q k) v and its kin */
  double budget;                   /* seconds it may take, all in all; 0: the handle's tuning_budget */
  uint64_t seed;                   /* of the proofs; 0: 1. One seed and one cache give one result */
  gqa_search_progress_fn progress; /* NULL: none */
  void* progress_user;
} gqa_search_options;

/* The fastest program for the graph on the handle's device: from the cache, or searched for. The handle must outlive
 * it. GQA_ERROR_NO_CANDIDATE: nothing fits the device, with the counts of what was tried. */
GQA_API gqa_status gqa_graph_superoptimize(gqa_graph graph, gqa_handle handle, const gqa_search_options* options,
                                           gqa_program* program);
GQA_API void gqa_program_destroy(gqa_program program); /* no launched work of it may still run */

/* How many tensors it takes and gives, and what they must be: as gqa_graph_describe. */
GQA_API int gqa_program_inputs(gqa_program program);
GQA_API int gqa_program_outputs(gqa_program program);
GQA_API gqa_status gqa_program_describe_input(gqa_program program, int index, int* rank, int64_t dims[8],
                                              DLDataType* dtype);
GQA_API gqa_status gqa_program_describe_output(gqa_program program, int index, int* rank, int64_t dims[8],
                                               DLDataType* dtype);

/* Runs it: inputs in the order they were added, outputs in gqa_graph_output's order. Inputs have the sizes, dtype and
 * strides they were declared with; outputs are row-major without gaps; all on the handle's device, starting on
 * multiples of 16 bytes, outputs apart from everything else. On a GPU the work is queued on the stream (CUstream; NULL:
 * the legacy default stream) and the call returns; on the host it is done when the call returns. */
GQA_API gqa_status gqa_program_run(gqa_program program, const DLTensor* const* inputs, int input_count,
                                   const DLTensor* const* outputs, int output_count, void* stream);

/* What was searched, what was proved, what was measured: some lines for people. */
GQA_API const char* gqa_program_explain(gqa_program program);
/* The program itself, a graph whose operators are the kernels that were made: its text, its drawing. */
GQA_API const char* gqa_program_text(gqa_program program);
GQA_API const char* gqa_program_dot(gqa_program program);
/* 1 if the cache had it: nothing was searched, compiled or timed. */
GQA_API int gqa_program_from_cache(gqa_program program);

#ifdef __cplusplus
}
#endif

#endif /* GQA_GRAPH_H_ */
