/* old_glibc.c: what was compiled with a glibc of today, in terms of what glibc 2.28 has.
 * Owns: a definition of each function of a newer version that the objects, libstdc++.a or libgcc_eh.a call. What is
 * linked takes these before glibc's; they are hidden, so nobody else does. Most hand on to an older version of the same
 * function, which every later glibc keeps. tools/package fails where a newer one is still asked for, and names it.
 * Never: includes a header that declares them: their names are given new meanings here. Threads: any number. */
#define _GNU_SOURCE
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* A function whose older version does the same. */
#define FORMER(result, name, version, parameters, arguments)     \
  __asm__(".symver former_" #name ", " #name "@GLIBC_" version); \
  extern result former_##name parameters;                        \
  HIDDEN result name parameters;                                 \
  HIDDEN result name parameters { return former_##name arguments; }

/* Since 2.29 these set no errno by way of a handler of errors, since 2.35 hypot; nobody here reads errno after them. */
FORMER(double, exp, "2.2.5", (double x), (x))
FORMER(double, exp2, "2.2.5", (double x), (x))
FORMER(double, log, "2.2.5", (double x), (x))
FORMER(double, log2, "2.2.5", (double x), (x))
FORMER(double, pow, "2.2.5", (double x, double y), (x, y))
FORMER(double, hypot, "2.2.5", (double x, double y), (x, y))

/* Since 2.34 these are libc's own: the same functions, which were libdl's and libpthread's. */
FORMER(void*, dlopen, "2.2.5", (const char* file, int mode), (file, mode))
FORMER(void*, dlsym, "2.2.5", (void* handle, const char* name), (handle, name))
FORMER(int, dlclose, "2.2.5", (void* handle), (handle))
FORMER(int, dladdr, "2.2.5", (const void* address, void* info), (address, info))
FORMER(char*, dlerror, "2.2.5", (void), ())
FORMER(int, pthread_create, "2.2.5", (unsigned long* thread, const void* how, void* (*what)(void*), void* argument),
       (thread, how, what, argument))
FORMER(int, pthread_join, "2.2.5", (unsigned long thread, void** result), (thread, result))
FORMER(int, pthread_detach, "2.2.5", (unsigned long thread), (thread))
FORMER(int, pthread_once, "2.2.5", (int* once, void (*what)(void)), (once, what))
FORMER(int, pthread_key_create, "2.2.5", (unsigned* key, void (*end)(void*)), (key, end))
FORMER(int, __pthread_key_create, "2.2.5", (unsigned* key, void (*end)(void*)), (key, end))
FORMER(int, pthread_key_delete, "2.2.5", (unsigned key), (key))
FORMER(void*, pthread_getspecific, "2.2.5", (unsigned key), (key))
FORMER(int, pthread_setspecific, "2.2.5", (unsigned key, const void* value), (key, value))
FORMER(int, pthread_mutex_trylock, "2.2.5", (void* mutex), (mutex))
FORMER(int, pthread_mutexattr_init, "2.2.5", (void* how), (how))
FORMER(int, pthread_mutexattr_settype, "2.2.5", (void* how, int type), (how, type))
FORMER(int, pthread_mutexattr_destroy, "2.2.5", (void* how), (how))
FORMER(int, pthread_rwlock_rdlock, "2.2.5", (void* lock), (lock))
FORMER(int, pthread_rwlock_wrlock, "2.2.5", (void* lock), (lock))
FORMER(int, pthread_rwlock_unlock, "2.2.5", (void* lock), (lock))
FORMER(int, pthread_sigmask, "2.2.5", (int how, const void* set, void* before), (how, set, before))

/* Before 2.34 what is called before main() was called through here; the null pointers that a start of today hands on
 * are passed over then. The programs linked with this have nothing to call. */
FORMER(int, __libc_start_main, "2.2.5",
       (int (*main)(int, char**, char**), int count, char** arguments, void (*init)(void), void (*fini)(void),
        void (*end)(void), void* stack),
       (main, count, arguments, init, fini, end, stack))

/* Before 2.33 these were inline, around functions that were told of which layout a struct stat is: 1. */
extern int __xstat(int layout, const char* path, void* result);
extern int __lxstat(int layout, const char* path, void* result);
extern int __fxstat(int layout, int file, void* result);
extern int __fxstatat(int layout, int folder, const char* path, void* result, int flags);
HIDDEN int stat(const char* path, void* result) { return __xstat(1, path, result); }
HIDDEN int stat64(const char* path, void* result) { return __xstat(1, path, result); }
HIDDEN int lstat(const char* path, void* result) { return __lxstat(1, path, result); }
HIDDEN int lstat64(const char* path, void* result) { return __lxstat(1, path, result); }
HIDDEN int fstat(int file, void* result) { return __fxstat(1, file, result); }
HIDDEN int fstat64(int file, void* result) { return __fxstat(1, file, result); }
HIDDEN int fstatat(int folder, const char* path, void* result, int flags) {
  return __fxstatat(1, folder, path, result, flags);
}

/* Since 2.32: whether counters may be changed without atomic instructions. It is never sure, so they are not. */
HIDDEN char __libc_single_threaded = 0;

/* glibc's own, where it is of a version that has it; a test defines this away. */
#ifndef newer
static void* newer(const char* name, void** found, char* looked) {
  if (!__atomic_load_n(looked, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(found, former_dlsym(NULL, name), __ATOMIC_RELAXED); /* NULL: whatever the process has */
    __atomic_store_n(looked, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(found, __ATOMIC_RELAXED);
}
#endif

/* Since 2.30: a wait until a time of another clock. Before, the time is told by the clock of the day; whoever waits
 * asks its own clock again, so only a day's clock that is set back while it waits makes it wait longer. */
extern int pthread_cond_timedwait(void* condition, void* mutex, const struct timespec* until);
HIDDEN int pthread_cond_clockwait(void* condition, void* mutex, clockid_t clock, const struct timespec* until) {
  static void* found;
  static char looked;
  struct timespec now, day;
  int64_t left;
  int (*waits)(void*, void*, clockid_t, const struct timespec*);
  *(void**)&waits = newer("pthread_cond_clockwait", &found, &looked);
  if (waits) return waits(condition, mutex, clock, until);
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &day);
  left = until->tv_nsec - now.tv_nsec + day.tv_nsec;
  day.tv_sec += until->tv_sec - now.tv_sec + left / 1000000000;
  day.tv_nsec = left % 1000000000;
  if (day.tv_nsec < 0) {
    day.tv_nsec += 1000000000;
    --day.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &day);
}

/* Since 2.36: random bytes, of the kernel; std::random_device asks for them. */
extern int getentropy(void* bytes, size_t count);
extern void abort(void);
HIDDEN uint32_t arc4random(void) {
  uint32_t word;
  if (getentropy(&word, sizeof word)) abort();
  return word;
}

/* Since 2.35: where an exception's unwinder finds the tables of the code at an address. Before, it went through all
 * libraries, as this does. The layouts are glibc's: <dlfcn.h> and <link.h>. */
struct dl_find_object {
  unsigned long long flags;
  void *begin, *end, *link_map, *eh_frame;
  unsigned long long reserved[7];
};
struct library { /* the beginning of dl_phdr_info */
  Elf64_Addr base;
  const char* name;
  const Elf64_Phdr* headers;
  Elf64_Half count;
};
struct sought {
  uintptr_t address;
  struct dl_find_object* result;
};
extern int dl_iterate_phdr(int (*look)(struct library*, size_t, void*), void* data);

static int holds(struct library* library, size_t size, void* data) {
  const struct sought* sought = data;
  struct dl_find_object* result = sought->result;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  int inside = 0;
  (void)size;
  result->eh_frame = NULL;
  for (int i = 0; i < library->count; ++i) {
    const Elf64_Phdr* header = &library->headers[i];
    const uintptr_t first = library->base + header->p_vaddr, last = first + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME) result->eh_frame = (void*)first;
    if (header->p_type != PT_LOAD) continue;
    inside |= sought->address >= first && sought->address < last;
    if (first < begin) begin = first;
    if (last > end) end = last;
  }
  result->begin = (void*)begin;
  result->end = (void*)end;
  return inside && result->eh_frame;
}

HIDDEN int _dl_find_object(void* address, struct dl_find_object* result) {
  static void* found;
  static char looked;
  struct sought sought = {(uintptr_t)address, result};
  int (*finds)(void*, struct dl_find_object*);
  *(void**)&finds = newer("_dl_find_object", &found, &looked);
  if (finds) return finds(address, result);
  return dl_iterate_phdr(holds, &sought) ? 0 : -1;
}
