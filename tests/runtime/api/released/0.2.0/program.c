/* program.c: a program of version 0.2.0, compiled against that version's headers and linked with the library as it is.
 *
 * Owns: one call of each struct with a size: options, call, shape, serving, search options; it exits 0 if all work.
 * Never: includes a header of the tree, or is changed: a program in the field is not changed either.
 * Threads: one.
 */
#include <stdio.h>

#include "gqa.h"
#include "gqa_graph.h"

enum { TOKENS = 16, Q_HEADS = 4, KV_HEADS = 2, DIM = 64, Q = TOKENS * Q_HEADS * DIM, KV = TOKENS * KV_HEADS * DIM };

static uint16_t q_data[Q], k_data[KV], v_data[KV], out_data[Q];
static float x_data[8 * 8], y_data[8 * 8], lse_data[Q_HEADS * TOKENS];

static int failed(const char* what, gqa_status status) {
  if (status != GQA_OK) fprintf(stderr, "%s: %s: %s\n", what, gqa_status_string(status), gqa_last_error());
  return status != GQA_OK;
}

static DLTensor tensor(void* data, int ndim, int64_t* shape, int code, int bits) {
  DLTensor t = {0};
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = ndim;
  t.dtype.code = (uint8_t)code;
  t.dtype.bits = (uint8_t)bits;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* A value of token t has t's number, so a window of two tokens gives the mean of two numbers that follow each other. */
static int attends(gqa_handle gqa) {
  int64_t q_shape[] = {1, TOKENS, Q_HEADS, DIM}, kv_shape[] = {1, TOKENS, KV_HEADS, DIM};
  int64_t lse_shape[] = {1, Q_HEADS, TOKENS};
  const uint16_t numbers[] = {0x0000, 0x3f80, 0x4000, 0x4040}; /* 0, 1, 2, 3 */
  const int32_t window[] = {1, 0};
  DLTensor q = tensor(q_data, 4, q_shape, kDLBfloat, 16), k = tensor(k_data, 4, kv_shape, kDLBfloat, 16);
  DLTensor v = tensor(v_data, 4, kv_shape, kDLBfloat, 16), out = tensor(out_data, 4, q_shape, kDLBfloat, 16);
  DLTensor lse = tensor(lse_data, 3, lse_shape, kDLFloat, 32);
  gqa_call call = {0};
  for (int i = 0; i < KV; ++i) v_data[i] = numbers[i / (KV_HEADS * DIM) % 4];
  call.size = sizeof call;
  call.causal = 1;
  call.window_size = window;
  call.lse = &lse;
  call.tuning = GQA_CALL_TUNE_GUESS; /* the last field of this version */
  if (failed("gqa_run_ex", gqa_run_ex(gqa, &q, &k, &v, &out, &call))) return 0;
  if (out_data[2 * Q_HEADS * DIM] != 0x3fc0) { /* tokens 1 and 2: 1.5 */
    fprintf(stderr, "token 2 of out is 0x%04x, expected 0x3fc0\n", out_data[2 * Q_HEADS * DIM]);
    return 0;
  }
  if (lse_data[2] < 0.69f || lse_data[2] > 0.70f) { /* log 2 */
    fprintf(stderr, "token 2 of lse is %g, expected log 2\n", (double)lse_data[2]);
    return 0;
  }
  return 1;
}

static int warms(gqa_handle gqa) {
  gqa_shape shape = {0};
  gqa_serving serving = {0};
  shape.size = sizeof shape;
  shape.batch = 1;
  shape.q_len = shape.kv_len = TOKENS;
  shape.q_heads = Q_HEADS;
  shape.kv_heads = KV_HEADS;
  shape.head_dim = DIM;
  shape.dtype.code = kDLBfloat;
  shape.dtype.bits = 16;
  shape.dtype.lanes = 1;
  shape.bias = GQA_BIAS_FLOAT32; /* the last field of this version */
  serving.size = sizeof serving;
  serving.range = "batch=1..2,kv=1..32";
  serving.q_heads = Q_HEADS;
  serving.kv_heads = KV_HEADS;
  serving.head_dim = DIM;
  serving.plan_only = 1;
  return !failed("gqa_warm", gqa_warm(gqa, &shape)) && !failed("gqa_warm_serving", gqa_warm_serving(gqa, &serving));
}

static int searches(gqa_handle gqa) {
  const DLDataType f32 = {kDLFloat, 32, 1};
  int64_t dims[] = {8, 8};
  DLTensor x_tensor = tensor(x_data, 2, dims, kDLFloat, 32), y_tensor = tensor(y_data, 2, dims, kDLFloat, 32);
  const DLTensor *inputs[] = {&x_tensor}, *outputs[] = {&y_tensor};
  gqa_search_options search = {0};
  gqa_graph graph = NULL;
  gqa_program program = NULL;
  gqa_value x, y;
  int right = 0;
  for (int i = 0; i < 64; ++i) x_data[i] = i % 2 ? 3.0f : -3.0f;
  search.size = sizeof search;
  search.budget = 1;
  if (!failed("gqa_graph_create", gqa_graph_create(&graph)) &&
      !failed("gqa_graph_input", gqa_graph_input(graph, 2, dims, NULL, f32, &x)) &&
      !failed("gqa_graph_relu", gqa_graph_relu(graph, x, &y)) &&
      !failed("gqa_graph_output", gqa_graph_output(graph, y)) &&
      !failed("gqa_graph_superoptimize", gqa_graph_superoptimize(graph, gqa, &search, &program)) &&
      !failed("gqa_program_run", gqa_program_run(program, inputs, 1, outputs, 1, NULL)))
    right = y_data[0] == 0.0f && y_data[1] == 3.0f;
  gqa_program_destroy(program);
  gqa_graph_destroy(graph);
  return right;
}

int main(void) {
  gqa_options options = {0};
  gqa_handle gqa;
  int right;
  if (gqa_version() < GQA_VERSION) {
    fprintf(stderr, "the library is %d, older than this program's header, %d\n", gqa_version(), GQA_VERSION);
    return 1;
  }
  options.size = sizeof options;
  options.device = "host";
  options.cache_mode = GQA_CACHE_OFF;
  options.tuning = GQA_TUNE_GUESS;
  options.checked = 1; /* the last field of this version */
  if (failed("gqa_create", gqa_create(&options, &gqa))) return 1;
  right = attends(gqa) && warms(gqa) && searches(gqa);
  gqa_destroy(gqa);
  return !right;
}
