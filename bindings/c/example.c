/* example.c: grouped-query attention from C, start to end.
 *
 * Owns: the smallest complete program: a handle, four tensors, one call, and a check of the answer against attention
 * written out in double precision.
 * Never: needs anything but example_support.h, gqa.h, libgqa.so and the C library.
 * Threads: one.
 *
 *   example [DEVICE] [CACHE_FILE]     DEVICE: host (default); tensors are in host memory. CACHE_FILE: where to
 * remember; without one nothing is written.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_support.h"
#include "gqa.h"

enum { BATCH = 2, Q_LEN = 5, KV_LEN = 37, Q_HEADS = 6, KV_HEADS = 2, DIM = 64 };
enum { Q_COUNT = BATCH * Q_LEN * Q_HEADS * DIM, KV_COUNT = BATCH * KV_LEN * KV_HEADS * DIM };

/* Numbers in [-1, 1), the same at every run. */
static void fill(uint16_t* data, int count, uint32_t seed) {
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = to_bf16((float)(seed >> 8) / 8388608.0f - 1.0f);
  }
}

static DLTensor tensor(void* data, int64_t* shape, int rank, DLDataType dtype) {
  DLTensor made;
  memset(&made, 0, sizeof made);
  made.data = data;
  made.device.device_type = kDLCPU;
  made.ndim = rank;
  made.dtype = dtype;
  made.shape = shape; /* strides stay NULL: compact, row-major */
  return made;
}

/* One output row in double precision, causal with the last query seeing the last key. Returns its log-sum-exp. */
static double attention_row(const uint16_t* q, const uint16_t* k, const uint16_t* v, int row, double* out) {
  double weights[KV_LEN], sum = 0, highest = -INFINITY;
  const int seen = row + 1 + KV_LEN - Q_LEN;
  for (int j = 0; j < seen; ++j) {
    double score = 0;
    for (int d = 0; d < DIM; ++d) score += (double)from_bf16(q[d]) * from_bf16(k[j * KV_HEADS * DIM + d]);
    weights[j] = score / sqrt((double)DIM);
    if (weights[j] > highest) highest = weights[j];
  }
  for (int j = 0; j < seen; ++j) sum += weights[j] = exp(weights[j] - highest);
  for (int d = 0; d < DIM; ++d) {
    out[d] = 0;
    for (int j = 0; j < seen; ++j) out[d] += weights[j] / sum * from_bf16(v[j * KV_HEADS * DIM + d]);
  }
  return highest + log(sum);
}

/* The largest difference of out and lse from the rows above. */
static double worst_error(const uint16_t* q, const uint16_t* k, const uint16_t* v, const uint16_t* out,
                          const float* lse) {
  double worst = 0;
  for (int b = 0; b < BATCH; ++b) {
    for (int i = 0; i < Q_LEN; ++i) {
      for (int h = 0; h < Q_HEADS; ++h) {
        const int row = (b * Q_LEN + i) * Q_HEADS + h;
        const int keys = b * KV_LEN * KV_HEADS * DIM + h / (Q_HEADS / KV_HEADS) * DIM;
        double expected[DIM];
        const double sum = attention_row(q + row * DIM, k + keys, v + keys, i, expected);
        worst = fmax(worst, fabs(sum - lse[(b * Q_HEADS + h) * Q_LEN + i]));
        for (int d = 0; d < DIM; ++d) worst = fmax(worst, fabs(expected[d] - from_bf16(out[row * DIM + d])));
      }
    }
  }
  return worst;
}

int main(int argc, char** argv) {
  static uint16_t q[Q_COUNT], k[KV_COUNT], v[KV_COUNT], out[Q_COUNT];
  static float lse[BATCH * Q_HEADS * Q_LEN];
  fill(q, Q_COUNT, 1);
  fill(k, KV_COUNT, 2);
  fill(v, KV_COUNT, 3);

  const DLDataType bf16 = {kDLBfloat, 16, 1}, f32 = {kDLFloat, 32, 1};
  int64_t q_shape[] = {BATCH, Q_LEN, Q_HEADS, DIM}, kv_shape[] = {BATCH, KV_LEN, KV_HEADS, DIM};
  int64_t lse_shape[] = {BATCH, Q_HEADS, Q_LEN};
  const DLTensor q_tensor = tensor(q, q_shape, 4, bf16), k_tensor = tensor(k, kv_shape, 4, bf16);
  const DLTensor v_tensor = tensor(v, kv_shape, 4, bf16), out_tensor = tensor(out, q_shape, 4, bf16);
  const DLTensor lse_tensor = tensor(lse, lse_shape, 3, f32);

  gqa_handle gqa;
  gqa_status status = open_handle(argc, argv, &gqa);
  if (status != GQA_OK) return failed("gqa_create", status);

  gqa_call call;
  memset(&call, 0, sizeof call);
  call.size = sizeof call;
  call.causal = 1;
  call.lse = &lse_tensor;
  status = gqa_run_ex(gqa, &q_tensor, &k_tensor, &v_tensor, &out_tensor, &call);
  if (status != GQA_OK) return failed("gqa_run_ex", status);

  /* A mistake is told, not made: these keys have 5 heads, which 6 query heads cannot share. */
  int64_t wrong_shape[] = {BATCH, KV_LEN, 5, DIM};
  const DLTensor wrong = tensor(k, wrong_shape, 4, bf16);
  status = gqa_run_ex(gqa, &q_tensor, &wrong, &wrong, &out_tensor, &call);
  printf("with 5 key/value heads: %s: %s\n", gqa_status_string(status), gqa_last_error());
  if (status != GQA_ERROR_HEADS) return 1;
  gqa_destroy(gqa);

  const double error = worst_error(q, k, v, out, lse);
  printf("gqa %d: largest error %.5f against double precision\n", gqa_version(), error);
  return error < 0.01 ? 0 : 1;
}
