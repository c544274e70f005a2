/* graph_example.c: a program of one's own from C, start to end: attention written as its formula.
 *
 * Owns: the smallest complete program: a graph of operators, the search for the fastest equal program, one run, and a
 * check of the answer against the formula in double precision.
 * Never: needs anything but example_support.h, gqa_graph.h, libgqa.so and the C library.
 * Threads: one.
 *
 *   graph_example [DEVICE] [CACHE_FILE]     DEVICE: host (default); tensors are in host memory. CACHE_FILE: where to
 * remember; without one nothing is written.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_support.h"
#include "gqa_graph.h"

enum { BATCH = 2, QUERIES = 24, KEYS = 80, DIM = 32 };

/* Numbers in [-range, range), the same at every run. */
static void fill(uint16_t* data, int count, uint32_t seed, float range) {
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = to_bf16(((float)(seed >> 8) / 8388608.0f - 1.0f) * range);
  }
}

static DLTensor tensor(void* data, int64_t* shape) {
  DLTensor made;
  memset(&made, 0, sizeof made);
  made.data = data;
  made.device.device_type = kDLCPU;
  made.ndim = 3;
  made.dtype.code = kDLBfloat;
  made.dtype.bits = 16;
  made.dtype.lanes = 1;
  made.shape = shape; /* strides stay NULL: compact, row-major */
  return made;
}

/* exp(q k) v / sum(exp(q k)), k being (dim, keys). */
static gqa_status attention(gqa_graph graph, int64_t* q_shape, int64_t* k_shape, int64_t* v_shape) {
  const DLDataType bf16 = {kDLBfloat, 16, 1};
  gqa_value q, k, v, scores, weights, total, shares, out;
  gqa_status status = gqa_graph_input(graph, 3, q_shape, NULL, bf16, &q);
  if (status == GQA_OK) status = gqa_graph_input(graph, 3, k_shape, NULL, bf16, &k);
  if (status == GQA_OK) status = gqa_graph_input(graph, 3, v_shape, NULL, bf16, &v);
  if (status == GQA_OK) status = gqa_graph_matmul(graph, q, k, 0, 0, &scores);
  if (status == GQA_OK) status = gqa_graph_exp(graph, scores, &weights);
  if (status == GQA_OK) status = gqa_graph_sum(graph, weights, 2, &total);
  if (status == GQA_OK) status = gqa_graph_div(graph, weights, total, &shares);
  if (status == GQA_OK) status = gqa_graph_matmul(graph, shares, v, 0, 0, &out);
  if (status == GQA_OK) status = gqa_graph_output(graph, out);
  return status;
}

static double worst_error(const uint16_t* q, const uint16_t* k, const uint16_t* v, const uint16_t* out) {
  double worst = 0;
  for (int b = 0; b < BATCH; ++b) {
    for (int i = 0; i < QUERIES; ++i) {
      double weights[KEYS], total = 0;
      for (int j = 0; j < KEYS; ++j) {
        double score = 0;
        for (int d = 0; d < DIM; ++d)
          score += from_bf16(q[(b * QUERIES + i) * DIM + d]) * from_bf16(k[(b * DIM + d) * KEYS + j]);
        total += weights[j] = exp(score);
      }
      for (int d = 0; d < DIM; ++d) {
        double expected = 0;
        for (int j = 0; j < KEYS; ++j) expected += weights[j] / total * from_bf16(v[(b * KEYS + j) * DIM + d]);
        worst = fmax(worst, fabs(expected - from_bf16(out[(b * QUERIES + i) * DIM + d])));
      }
    }
  }
  return worst;
}

static void print_progress(void* user, const gqa_search_progress* at) {
  fprintf((FILE*)user, "%s: %lld explored, %lld proved, %lld kernels compiled, %lld programs timed\n", at->phase,
          (long long)at->explored, (long long)at->proved, (long long)at->compiled, (long long)at->timed);
}

int main(int argc, char** argv) {
  static uint16_t q[BATCH * QUERIES * DIM], k[BATCH * DIM * KEYS], v[BATCH * KEYS * DIM], out[BATCH * QUERIES * DIM];
  fill(q, BATCH * QUERIES * DIM, 1, 0.5f);
  fill(k, BATCH * DIM * KEYS, 2, 1.0f);
  fill(v, BATCH * KEYS * DIM, 3, 1.0f);
  int64_t q_shape[] = {BATCH, QUERIES, DIM}, k_shape[] = {BATCH, DIM, KEYS}, v_shape[] = {BATCH, KEYS, DIM};

  gqa_handle gqa;
  gqa_status status = open_handle(argc, argv, &gqa);
  if (status != GQA_OK) return failed("gqa_create", status);

  gqa_graph graph;
  status = gqa_graph_create(&graph);
  if (status == GQA_OK) status = attention(graph, q_shape, k_shape, v_shape);
  if (status != GQA_OK) return failed("building the graph", status);
  printf("%shash %s\n", gqa_graph_text(graph), gqa_graph_hash(graph));

  /* A mistake is told when it is made: queries times values do not fit. */
  gqa_value q_value, v_value, wrong;
  gqa_graph_find(graph, "t0", &q_value);
  gqa_graph_find(graph, "t2", &v_value);
  status = gqa_graph_matmul(graph, q_value, v_value, 0, 0, &wrong);
  printf("%s: %s\n", gqa_status_string(status), gqa_last_error());
  if (status != GQA_ERROR_SHAPE) return 1;

  gqa_search_options search;
  memset(&search, 0, sizeof search);
  search.size = sizeof search;
  search.config = "attention";
  search.budget = 1;
  search.progress = print_progress;
  search.progress_user = stdout;
  gqa_program program;
  status = gqa_graph_superoptimize(graph, gqa, &search, &program);
  if (status != GQA_OK) return failed("gqa_graph_superoptimize", status);
  gqa_graph_destroy(graph);
  printf("%s\n", gqa_program_explain(program));

  const DLTensor q_tensor = tensor(q, q_shape), k_tensor = tensor(k, k_shape), v_tensor = tensor(v, v_shape);
  const DLTensor out_tensor = tensor(out, q_shape);
  status = gqa_program_run(program, (const DLTensor*[]){&q_tensor, &k_tensor, &v_tensor}, 3,
                           (const DLTensor*[]){&out_tensor}, 1, NULL);
  if (status != GQA_OK) return failed("gqa_program_run", status);
  gqa_program_destroy(program);
  gqa_destroy(gqa);

  const double error = worst_error(q, k, v, out);
  printf("largest error %.5f against double precision\n", error);
  return error < 0.01 ? 0 : 1;
}
