// What setmaxnreg leaves a producer thread and gives a consumer stands on the host, which prunes by it, and goes into
// the code from there; the device refuses numbers that would wait forever. No kernel is run; the compiler compares.
#include <gtest/gtest.h>

#include <string>

#include "jit/codegen.h"
#include "tests/search/from_text.h"
#include "tests/simt/emulator/kernel.h"

namespace gqa::simt {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// What the compiler says of the code; nothing where it has no objection.
std::string said_of(const std::string& source) {
  std::string why;
  return Kernel::compile(source, kEntryPoint, &why) != nullptr ? "" : why;
}

TEST(WarpgroupRegisters, TheCodeHasTheHostsNumbersAndMoreWouldWaitForever) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  for (const char* text : {"warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1",
                           "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=5",
                           "warpgroup m=192 n=64 warps=12 stages=2 pack=1 dynamic=0 out=1"}) {
    const Candidate candidate = candidate_of(text);
    const Problem problem = problem_of("hq=8,sq=1024,d=64");
    const RoleRegisters registers = role_registers(problem, std::get<WgmmaFlash>(candidate.of));
    const std::string source = attention_source(problem, candidate);
    const auto line = [](const char* role, int number) {
      return std::string(role) + "Registers = " + std::to_string(number) + ";";
    };
    EXPECT_EQ(said_of(source), "") << text;
    const std::string consumers =
        replaced(source, line("kConsumer", registers.consumer), line("kConsumer", registers.consumer + 8));
    EXPECT_NE(said_of(consumers).find("the roles share what was launched"), std::string::npos) << text;
    const std::string producer =
        replaced(source, line("kProducer", registers.producer), line("kProducer", registers.producer + 8));
    EXPECT_NE(said_of(producer).find("the roles share what was launched"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace gqa::simt
