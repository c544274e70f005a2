/* command.c: the gqa-cache of a wheel: finds the libgqa.so.0 of its installation and becomes what that has of
 * gqa-cache. Owns: where that library may lie. Never: takes one of elsewhere, or one of another version. GQA_PYTHON is
 * the Python that the wheel is for, "3.11"; GQA_VERSION the version of both, "0.2.0". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gqa.h"

/* Seen from the folder of this program: virtual environments, prefixes and users' folders; Debian's own Python; and
 * `pip install --target`. */
static const char* const kPlaces[] = {
    "../lib/python" GQA_PYTHON "/site-packages/gqa",
    "../lib64/python" GQA_PYTHON "/site-packages/gqa",
    "../lib/python" GQA_PYTHON "/dist-packages/gqa",
    "../lib/python3/dist-packages/gqa",
    "../gqa",
};
enum { PLACES = sizeof kPlaces / sizeof *kPlaces };

typedef int (*Entry)(int, char**);

static Entry entry_of(const char* library) {
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* entry;
  int (*version)(void);
  Entry result;
  if (!loaded) {
    fprintf(stderr, "gqa-cache: %s\n", dlerror());
    return NULL;
  }
  *(void**)&version = dlsym(loaded, "gqa_version");
  entry = dlsym(loaded, "gqa_cache_main");
  if (!version || version() != GQA_VERSION || !entry) {
    fprintf(
        stderr,
        "gqa-cache: %s has version %d, expected %d, of the same wheel as this program; install it again: pip install "
        "--force-reinstall gqa\n",
        library, version ? version() : 0, GQA_VERSION);
    return NULL;
  }
  *(void**)&result = entry;
  return result;
}

int main(int count, char** arguments) {
  char here[4096], path[sizeof here + 128];
  const ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
  char* last;
  if (length < 0) {
    perror("gqa-cache: /proc/self/exe, which tells where this program lies");
    return 1;
  }
  here[length] = 0;
  last = strrchr(here, '/');
  if (last) *last = 0;
  for (int i = 0; i < PLACES; ++i) {
    snprintf(path, sizeof path, "%s/%s/libgqa.so.0", here, kPlaces[i]);
    if (access(path, R_OK) == 0) {
      const Entry entry = entry_of(path);
      return entry ? entry(count, arguments) : 1;
    }
  }
  fprintf(stderr,
          "gqa-cache: no libgqa.so.0 of this installation: expected in %s/%s or another usual place beside %s; use "
          "python -m gqa, or install it again: pip install --force-reinstall gqa\n",
          here, kPlaces[0], here);
  return 1;
}
