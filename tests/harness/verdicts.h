// verdicts.h: what planted faults, emulated kernels and compiled kernels were found to be, so that nothing is judged
// again that nothing has changed of.
// Owns: asking. A verdict has a name, its test's, and a digest of all that decides it: its subject (a kernel's text
// with what it includes), the test's own text with the headers that it includes and the code behind them, the emulator,
// the launches, verification and the families. GQA_VERDICTS names a file of verdicts, a name and a digest a line; a
// test that passed leaves its own in its suite's file in the folder GQA_VERDICTS_SEEN. verdicts.py makes the one and
// takes the other. Never: believes or writes anything where these are not set: then all is judged. Threads: one,
// GoogleTest's.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace gqa::test {

// What the list says of the subject, else what the judge says now: success is right, failure is wrong. Either may be
// what the test wants. `says`: what a failure's message must hold to be listed as one. `name`: tells the verdicts of a
// test apart where their order may change; by default the how many-eth it is.
::testing::AssertionResult verdict(const std::string& subject, const std::function<::testing::AssertionResult()>& judge,
                                   const std::string& says = "", const std::string& name = "");

// Whether the list calls the subject right: for what prepares its judgement beside others'.
bool listed_right(const std::string& subject, const std::string& name);

// For judges that expect on their own.
::testing::AssertionResult no_failure_of(const std::function<void()>& judge);

}  // namespace gqa::test
