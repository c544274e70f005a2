// library_c_test.cc: what the shared library's own file says: the libraries it needs, and that it stays once loaded.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <set>
#include <string>

#include "runtime/api/gqa.h"

namespace {

// The dynamic section of the libgqa.so that this program runs with.
class LibraryC : public testing::Test {
 protected:
  void SetUp() override {
    Dl_info info = {};
    ASSERT_NE(
        0, dladdr1(reinterpret_cast<void*>(&gqa_last_error), &info, reinterpret_cast<void**>(&map_), RTLD_DL_LINKMAP));
    ASSERT_NE(std::string::npos, std::string(info.dli_fname).find("libgqa")) << info.dli_fname;
    for (const ElfW(Dyn)* entry = map_->l_ld; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_FLAGS_1) flags_ = entry->d_un.d_val;
      if (entry->d_tag == DT_STRTAB) strings_ = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    }
    ASSERT_NE(nullptr, strings_);
    for (const ElfW(Dyn)* entry = map_->l_ld; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_NEEDED) needed_.insert(strings_ + entry->d_un.d_val);
  }

  link_map* map_ = nullptr;
  const char* strings_ = nullptr;
  ElfW(Xword) flags_ = 0;
  std::set<std::string> needed_;
};

// Threads of its pool sleep in its code after the last call; dlclose() may not unmap it.
TEST_F(LibraryC, StaysOnceLoaded) { EXPECT_NE(0U, flags_ & DF_1_NODELETE); }

// A second pool beside its own would spin against it.
TEST_F(LibraryC, NeedsNoThreadsOfOpenMP) {
  EXPECT_TRUE(needed_.count("libstdc++.so.6") + needed_.count("libc++.so.1") > 0);  // the list is read
  for (const std::string& name : needed_) EXPECT_EQ(std::string::npos, name.find("omp")) << name;
}

}  // namespace
