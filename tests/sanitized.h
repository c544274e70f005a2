// sanitized.h: whether this test program is one that a user's times and allocations can be seen in.
// Owns: the two answers, and the words of a test that is skipped for them.
// Never: says what a sanitizer cannot follow (fibers, forks): each such test has its own reason.
// Threads: any.
#pragma once

namespace gqa::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

#if defined(NDEBUG)
constexpr bool kOptimised = !kSanitized;
#else
constexpr bool kOptimised = false;
#endif

constexpr const char* kNeedsNoSanitizer = "needs a build without sanitizers";
constexpr const char* kNeedsOptimisation = "needs an optimised build";

}  // namespace gqa::test
