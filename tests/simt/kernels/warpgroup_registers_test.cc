// What setmaxnreg gives a consumer thread stands on the device (warpgroup_flash.cuh) and on the host, which prunes by
// it: the same number. No kernel is run; the compiler compares.
#include <gtest/gtest.h>

#include <string>

#include "jit/codegen.h"
#include "tests/search/from_text.h"
#include "tests/simt/emulator/kernel.h"

namespace gqa::simt {
namespace {

// The candidate's types, without its kernel.
std::string types_of(const Candidate& candidate) {
  const std::string source = attention_source(problem_of("hq=8,sq=1024,d=64"), candidate);
  return source.substr(0, source.find("extern \"C\""));
}

std::string compiled_with(const Candidate& candidate, int registers) {
  const std::string source = types_of(candidate) + "static_assert(gqa::WarpgroupFlash<Config>::kConsumerRegisters == " +
                             std::to_string(registers) + ", \"registers differ\");\n" +
                             "extern \"C\" __global__ void none() {}\n";
  std::string why;
  return Kernel::compile(source, "none", &why) != nullptr ? "" : why;
}

TEST(WarpgroupRegisters, TheHostsNumberIsTheDevices) {
  if (const char* why = unavailable()) GTEST_SKIP() << why;
  for (const char* text : {"warpgroup m=64 n=64 warps=4 stages=2 pack=1 dynamic=0 out=1",
                           "warpgroup m=64 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=1 out=1",
                           "warpgroup m=128 n=64 warps=8 stages=2 pack=1 dynamic=0 out=1 stream_k=5",
                           "warpgroup m=192 n=64 warps=12 stages=2 pack=1 dynamic=0 out=1"}) {
    Candidate candidate;
    ASSERT_TRUE(parse(text, &candidate).ok());
    const int registers = consumer_registers(std::get<WgmmaFlash>(candidate.of));
    EXPECT_EQ(compiled_with(candidate, registers), "") << text;
    EXPECT_NE(compiled_with(candidate, registers + 8).find("registers differ"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace gqa::simt
