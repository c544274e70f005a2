// subjects.cc: tests that harness_test.py runs, to see what the harness makes of them.
// Owns: verdicts of each outcome, whose judges say that they were asked. FAIL_AFTER in the environment makes one fail.
// Threads: one.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/harness/verdicts.h"

namespace gqa::test {
namespace {

::testing::AssertionResult asked(const char* name, bool right) {
  std::printf("judged %s\n", name);
  return right ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "row 3 is wrong";
}

TEST(Subjects, Right) {
  for (const char* subject : {"one", "other"})
    EXPECT_TRUE(verdict(subject, [&] { return asked(subject, true); })) << subject;
}

TEST(Subjects, Wrong) {
  const auto result = verdict(
      "fault", [] { return asked("fault", false); }, "is wrong");
  EXPECT_FALSE(result);
  EXPECT_NE(std::string::npos, std::string(result.message()).find("is wrong")) << result.message();
}

// A failure that says something else than what is asked for is nothing to remember.
TEST(Subjects, WrongOtherwise) {
  EXPECT_FALSE(verdict(
      "fault", [] { return asked("otherwise", false); }, "is right"));
}

TEST(Subjects, Named) {
  if (listed_right("text", "m=64 n=32")) std::puts("listed by name");
  EXPECT_TRUE(verdict(
      "text", [] { return asked("named", true); }, "", "m=64 n=32"));
}

TEST(Subjects, FailsAfterwards) {
  EXPECT_TRUE(verdict("last", [] { return asked("last", true); }));
  EXPECT_EQ(nullptr, std::getenv("FAIL_AFTER"));
}

}  // namespace
}  // namespace gqa::test
