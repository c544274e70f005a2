// check_kernel_test.cc: the verification kernels are compiled once, kept, and found by whoever comes without a
// compiler.
#include "runtime/verify/check_kernel.h"

#include <gtest/gtest.h>

#include "jit/codegen.h"
#include "runtime/workload/keys.h"
#include "tests/runtime/fake_device.h"
#include "tests/runtime/temporary_folder.h"

namespace gqa::test {
namespace {

class CheckKernel : public ::testing::Test {
 protected:
  Status find(Binary* binary) { return find_or_make_check(FakeDevice(&world_), *store_, compile_, binary); }

  FakeWorld world_;
  int compiles_ = 0;
  CompileSource compile_ = [this](const std::string& source, Binary* binary) {
    EXPECT_EQ(source, check_source());
    binary->cubin = "cubin " + std::to_string(++compiles_);
    return Status();
  };
  const TemporaryFolder folder_;
  const std::unique_ptr<cache::Store> store_ = cache::Store::open({folder_.file("cache.db")});
};

TEST_F(CheckKernel, IsCompiledOnceAndKept) {
  Binary first, second;
  ASSERT_TRUE(find(&first).ok() && find(&second).ok());
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(first.source, check_source());
  EXPECT_EQ(second.cubin, "cubin 1");
  const auto rows = store_->list_kernels();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].family, cache::kCheckFamily);
  EXPECT_EQ(rows[0].arch, world_.spec.arch);
  EXPECT_EQ(rows[0].key, kernel_key(FakeDevice(&world_), check_source()));
}

TEST_F(CheckKernel, OfAnotherCompilerServesWhereThereIsNone) {
  Binary made, found;
  ASSERT_TRUE(find(&made).ok());
  world_.compiler = "fake compiler none";
  compile_ = [](const std::string&, Binary*) { return Status(Code::kNoCompiler, "none"); };
  ASSERT_TRUE(find(&found).ok());
  EXPECT_EQ(found.cubin, made.cubin);
  world_.spec.arch = "sm_86";
  EXPECT_EQ(find(&found).code(), Code::kNoCompiler) << "of another architecture there is none";
  EXPECT_EQ(found.cubin, made.cubin) << "and it is left as it was";
  EXPECT_EQ(store_->list_kernels().size(), 1u);
}

TEST_F(CheckKernel, IsMadeAnewOnRequest) {
  Binary made;
  ASSERT_TRUE(find(&made).ok());
  ASSERT_TRUE(make_check(FakeDevice(&world_), *store_, compile_, &made).ok());
  EXPECT_EQ(made.cubin, "cubin 2");
  ASSERT_TRUE(find(&made).ok());
  EXPECT_EQ(made.cubin, "cubin 2");
  EXPECT_EQ(compiles_, 2);
}

}  // namespace
}  // namespace gqa::test
