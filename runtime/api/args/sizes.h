// sizes.h: what a call's dimensions count, and that its tensors agree about it.
// Owns: Sizes, a number for each Dim that a tensor of the call has, and the messages of those that differ.
// Never: knows a role; the table (roles.h) says what each dimension counts.
// Threads: a value; nothing is allocated unless it is refused.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/api/args/operands.h"
#include "runtime/call/roles.h"
#include "search/status.h"

namespace gqa {

class Sizes {
 public:
  // That all tensors agree, in their order: the first that has a dimension says what the others must have.
  Status agree(const Operands& operands);

  std::int64_t operator[](Dim dim) const { return sizes_[index_of(dim)].number; }

 private:
  struct Known {
    std::int64_t number = 0;
    const char* from = nullptr;  // whose it is; null: not known
  };
  Status agree(const Expected& expected, const DLTensor& tensor);
  Status agree(const Expected& expected, const Size& size, std::int64_t number);
  Status agree_on_keys(const Operands& operands);
  Known& known(Dim dim) { return sizes_[index_of(dim)]; }

  std::array<Known, kDimNames.size()> sizes_{};
  bool any_batch_ = false;  // the cache's batch may be another than the call's
};

}  // namespace gqa
