/* example_support.h: what the C examples share.
 *
 * Owns: bfloat16 in software, the handle that an example's arguments ask for, failures and the library's log in words.
 * Never: needs anything but gqa.h and the C library.
 * Threads: one.
 */
#ifndef GQA_EXAMPLE_SUPPORT_H_
#define GQA_EXAMPLE_SUPPORT_H_

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gqa.h"

/* bfloat16 is the upper half of a float. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits += 0x7fff + ((bits >> 16) & 1); /* to nearest, ties to even */
  return (uint16_t)(bits >> 16);
}

static float from_bf16(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void print_log(void* user, gqa_log_level level, const char* message) {
  fprintf((FILE*)user, "%s%s\n", level == GQA_LOG_WARNING ? "warning: " : "", message);
}

static int failed(const char* what, gqa_status status) {
  fprintf(stderr, "%s: %s: %s\n", what, gqa_status_string(status), gqa_last_error());
  return 1;
}

/* The arguments of `example [DEVICE] [CACHE_FILE]`; the library's log goes to stdout. */
static gqa_status open_handle(int argc, char** argv, gqa_handle* gqa) {
  gqa_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.device = argc > 1 ? argv[1] : "host";
  options.cache_path = argc > 2 ? argv[2] : NULL;
  options.cache_mode = argc > 2 ? GQA_CACHE_READ_WRITE : GQA_CACHE_OFF;
  options.log = print_log;
  options.log_user = stdout;
  return gqa_create(&options, gqa);
}

#endif /* GQA_EXAMPLE_SUPPORT_H_ */
