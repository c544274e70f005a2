// roles_test.cc: the table of a call's tensors is that of gqa.h.
#include "runtime/call/roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "runtime/api/args/operands.h"
#include "runtime/api/args/views.h"
#include "tests/runtime/tensors.h"

namespace gqa::test {
namespace {

// The fields of gqa_call that are tensors, as the header has them.
std::vector<std::string> tensor_fields() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "../../../runtime/api/gqa.h");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t begin = text.find("typedef struct gqa_call {"), end = text.find("} gqa_call;");
  const std::string fields = text.substr(begin, end - begin);
  const std::regex field(R"(const DLTensor\*\s+(\w+);)");
  std::vector<std::string> names;
  for (std::sregex_iterator at(fields.begin(), fields.end(), field), last; at != last; ++at) names.push_back((*at)[1]);
  return names;
}

TEST(Roles, EachTensorOfACallHasARow) {
  std::vector<std::string> fields = tensor_fields(), rows;
  for (const Role role : kFieldRoles) rows.emplace_back(row_of(role).name);
  std::sort(fields.begin(), fields.end());
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, fields);
}

TEST(Roles, ARowReadsItsOwnField) {
  const DLTensor tensor{};
  for (const Role role : kFieldRoles) {
    gqa_call call{};
    *reinterpret_cast<const DLTensor**>(reinterpret_cast<char*>(&call) + row_of(role).field) = &tensor;
    EXPECT_EQ(Operands(nullptr, nullptr, nullptr, nullptr, &call).present(), Roles(role)) << row_of(role).name;
  }
}

TEST(Roles, AreIteratedInOrder) {
  const Roles some = Roles(Role::kLeftpad) | Role::kQ | Role::kSink;
  std::vector<Role> found;
  for (const Role role : some) found.push_back(role);
  EXPECT_EQ(found, (std::vector{Role::kQ, Role::kSink, Role::kLeftpad}));
  EXPECT_EQ(some.without(Role::kSink), Roles(Role::kQ) | Role::kLeftpad);
}

TEST(Roles, FormsReadAsTheHeaderHasThem) {
  EXPECT_EQ(dims_text(row_of(Role::kQ).plain), "(batch, q_len, q_heads, head_dim)");
  EXPECT_EQ(dims_text(row_of(Role::kLse).packed), "(q_heads, total_q)");
  EXPECT_EQ(dims_text(row_of(Role::kK).paged), "(pages, page, kv_heads, head_dim)");
  EXPECT_EQ(dims_text(row_of(Role::kKStarts).plain), "(batch + 1)");
  EXPECT_EQ(dims_text(row_of(Role::kBias).plain), "(batch or 1, q_heads or 1, q_len or 1, kv_len)");
}

// What is written must not overlap what is read, whatever that is.
TEST(Roles, WhatIsWrittenIsApartFromAllElse) {
  for (const Role role : kAllRoles) {
    const Access access = row_of(role).access;
    const Roles apart = apart_from(role);
    switch (access) {
      case Access::kWrite:
        EXPECT_EQ(apart | kWrittenRoles, kAllRoles) << row_of(role).name;
        break;
      case Access::kAppend:
        EXPECT_EQ(apart, kAppendedRoles) << row_of(role).name;
        break;
      case Access::kRead:
        EXPECT_TRUE(apart.empty()) << row_of(role).name;
    }
  }
  EXPECT_TRUE(apart_from(Role::kLse).has(Role::kOut)) << "nor do the two that are written";
}

}  // namespace
}  // namespace gqa::test
