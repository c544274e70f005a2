/* xxhash.c: xxHash, whose header holds the implementation. Its library alone would serve, were it made for linking into
 * shared libraries. */
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#include <xxhash.h>
