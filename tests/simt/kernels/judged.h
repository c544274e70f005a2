// judged.h: a kernel under the emulator with a verdict of its own (tests/harness/verdicts.h).
// Owns: what decides it beside the test's text: the kernel's text with all that it includes. Compiles the kernel only
// where no verdict is listed.
// Never: judges: each test does.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "jit/codegen.h"
#include "jit/embedded.h"
#include "tests/harness/verdicts.h"
#include "tests/simt/emulator/kernel.h"
#include "tests/simt/emulator/kernel_store.h"

namespace gqa::simt {

using Judge = std::function<::testing::AssertionResult(const Kernel&)>;

struct KernelText {
  std::string source;
  std::vector<EmbeddedHeader> headers = embedded_headers();
  std::string entry = kEntryPoint;
};

// Success is what the judge calls right. One that does not compile fails the test. `says`: see
// tests/harness/verdicts.h.
inline ::testing::AssertionResult judged(const KernelText& text, const Judge& judge, const std::string& says = "") {
  const auto compile_and_judge = [&]() -> ::testing::AssertionResult {
    std::string why;
    const auto kernel = Kernel::compile(text.source, text.entry, &why, text.headers);
    if (kernel != nullptr) return judge(*kernel);
    ADD_FAILURE() << why << "\n" << text.source;
    return ::testing::AssertionFailure() << why;
  };
  return test::verdict(text.entry + '\0' + kernel_digest(text.source, text.headers), compile_and_judge, says);
}

// The same for judges that expect on their own.
inline ::testing::AssertionResult judged_whole(const KernelText& text,
                                               const std::function<void(const Kernel&)>& judge) {
  return judged(text, [&](const Kernel& kernel) { return test::no_failure_of([&] { judge(kernel); }); });
}

}  // namespace gqa::simt
