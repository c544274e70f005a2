// nvrtc_search_test.cc: the order of the places where NVRTC is looked for, in folders made here.
#include "jit/nvrtc_search.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "jit/dynamic_library.h"

namespace gqa {
namespace {

namespace fs = std::filesystem;

class NvrtcSearch : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gqa-search-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (const char* name : {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONUSERBASE", "HOME"}) {
      const char* value = std::getenv(name);
      before_[name] = value != nullptr ? std::optional<std::string>(value) : std::nullopt;
      unsetenv(name);
    }
  }

  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
    }
    fs::remove_all(folder_);
  }

  void set(const char* variable, const std::string& value) { setenv(variable, value.c_str(), 1); }
  std::string make(const std::string& name) {
    fs::create_directories(folder_ + "/" + name);
    return folder_ + "/" + name;
  }

  // Where the file is tried; the end if it is not.
  static std::size_t place(const std::string& file) {
    const std::vector<std::string> files = nvrtc_search_order();
    return static_cast<std::size_t>(std::find(files.begin(), files.end(), file) - files.begin());
  }
  static bool tried(const std::string& file) { return place(file) < nvrtc_search_order().size(); }

  std::string folder_;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(NvrtcSearch, BesideThisLibraryThenWheelsThenToolkitThenTheLoaders) {
  set("CUDA_HOME", "/made/up");
  const std::string own = own_folder();
  EXPECT_EQ(place(own + "/libnvrtc.so.13"), 0U);
  const std::size_t steps[] = {place(own + "/libnvrtc.so"),
                               place(own + "/../nvidia/cu13/lib/libnvrtc.so.13"),
                               place(own + "/../nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
                               place("/made/up/lib64/libnvrtc.so.13"),
                               place("/usr/local/cuda/lib64/libnvrtc.so.13"),
                               place("libnvrtc.so.13"),
                               place("libnvrtc.so.12"),
                               place("libnvrtc.so")};
  EXPECT_TRUE(std::is_sorted(std::begin(steps), std::end(steps)));
  EXPECT_LT(steps[7], nvrtc_search_order().size());
}

TEST_F(NvrtcSearch, WheelsOfTheActiveEnvironmentAndTheUserComeAfterAll) {
  const std::string environment = make("venv/lib/python3.12/site-packages"),
                    user = make("home/.local/lib/python3.9/site-packages"),
                    base = make("base/lib/python3/dist-packages");
  const std::string wheel = "/nvidia/cu13/lib/libnvrtc.so.13", older = "/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
  EXPECT_FALSE(tried(environment + wheel));
  set("VIRTUAL_ENV", folder_ + "/venv");
  set("HOME", folder_ + "/home");
  for (const std::string& file : {environment + wheel, environment + older, user + wheel, user + older}) {
    EXPECT_TRUE(tried(file)) << file;
    EXPECT_GT(place(file), place("libnvrtc.so")) << file;
  }
  set("PYTHONUSERBASE", folder_ + "/base");
  EXPECT_TRUE(tried(base + older));
  EXPECT_FALSE(tried(user + older)) << "PYTHONUSERBASE stands in for ~/.local";
}

TEST_F(NvrtcSearch, CondasOwnPackage) {
  set("CONDA_PREFIX", make("conda"));
  EXPECT_TRUE(tried(folder_ + "/conda/lib/libnvrtc.so.12"));
}

// As PyTorch's, in whatever folder on sys.path it lies.
TEST_F(NvrtcSearch, WheelsBesideAPackageThatIsLoaded) {
  const std::string site = make("odd/place/site-packages"),
                    module = make("odd/place/site-packages/torch/lib") + "/one.so";
  const std::string file = site + "/nvidia/cu13/lib/libnvrtc.so.13";
  EXPECT_FALSE(tried(file));
  std::string why;
  const auto any = DynamicLibrary::open("libm.so.6", &why);
  ASSERT_NE(any, nullptr) << why;
  fs::copy_file(any->path(any->symbol("cos")), module);
  const auto library = DynamicLibrary::open(module, &why);
  ASSERT_NE(library, nullptr) << why;
  EXPECT_TRUE(tried(file));
}

TEST_F(NvrtcSearch, AFolderStandsForEachNameInIt) {
  EXPECT_EQ(nvrtc_files_of(""), std::vector<std::string>());
  EXPECT_EQ(nvrtc_files_of("/a/file.so"), std::vector<std::string>{"/a/file.so"});
  const std::vector<std::string> in_it = nvrtc_files_of(folder_);
  EXPECT_EQ(in_it.size(), 3U);
  EXPECT_EQ(in_it.front(), folder_ + "/libnvrtc.so.13");
}

TEST(NvrtcFit, TheArchitectureMustBeKnownAndAnOlderMajorVersionThanTheDriversComesFirst) {
  const NvrtcFacts old = {12040, {80, 90}}, fresh = {13000, {80, 90, 100}};
  EXPECT_EQ(fit_of(old, {}, false), NvrtcFit::kTake);
  EXPECT_EQ(fit_of(old, {"sm_90a", 0}, false), NvrtcFit::kTake);
  EXPECT_EQ(fit_of(old, {"sm_100a", 0}, false), NvrtcFit::kNever);
  EXPECT_EQ(fit_of(old, {"sm_100a", 13000}, true), NvrtcFit::kNever);
  EXPECT_EQ(fit_of(fresh, {"sm_90a", 12040}, false), NvrtcFit::kIfNoOther);
  EXPECT_EQ(fit_of(fresh, {"sm_90a", 12040}, true), NvrtcFit::kTake) << "it was asked for by name";
  EXPECT_EQ(fit_of(fresh, {"sm_90a", 13000}, false), NvrtcFit::kTake);
  EXPECT_EQ(fit_of({13050, {80}}, {"sm_80", 13000}, false), NvrtcFit::kTake) << "minor versions go together";
  EXPECT_EQ(fit_of(old, {"sm_80", 13000}, false), NvrtcFit::kTake);
}

}  // namespace
}  // namespace gqa
