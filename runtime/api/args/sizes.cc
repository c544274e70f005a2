// sizes.cc: see sizes.h.
#include "runtime/api/args/sizes.h"

#include <limits>
#include <string>

namespace gqa {
namespace {

constexpr Roles kKeyRoles =
    roles_where([](const RoleRow& row) { return row.group == Group::kTensors || row.group == Group::kSequences; });

Status wrong_starts(const char* name, std::int64_t numbers, std::int64_t sequences) {
  const std::string expected = sequences > 0 ? std::to_string(sequences + 1) : "at least 2";
  return {Code::kShape, std::string(name) + " has " + std::to_string(numbers) + " numbers, expected " + expected +
                            ": where each sequence begins, and last where the last one ends"};
}

}  // namespace

Status Sizes::agree(const Expected& expected, const Size& size, std::int64_t number) {
  const Dim dim = size.dim == Dim::kCacheBatch && !any_batch_ ? Dim::kBatch : size.dim;
  Known& here = known(dim);
  const bool starts = size.extent == Size::Extent::kPlusOne;
  if (here.from == nullptr) here = {number - (starts ? 1 : 0), expected.name};
  if (starts)
    return number == here.number + 1 && here.number > 0 ? Status() : wrong_starts(expected.name, number, here.number);
  if (size.extent == Size::Extent::kExact)
    return check_equal(expected.name, number, name_of(dim), here.from, here.number);
  if (number == here.number || number == 1) return {};
  return {Code::kShape, std::string(expected.name) + " has " + name_of(dim) + " " + std::to_string(number) +
                            ", expected " + std::to_string(here.number) + (here.number == 1 ? "" : " or 1") + ": " +
                            dims_text(expected.form)};
}

Status Sizes::agree(const Expected& expected, const DLTensor& tensor) {
  for (int at = 0; at < expected.form.rank; ++at) {
    Status status = agree(expected, expected.form.sizes[static_cast<std::size_t>(at)], tensor.shape[at]);
    if (!status.ok()) return status;
  }
  return {};
}

// kv_len of a cache in pages is what a row of the table stands for.
Status Sizes::agree_on_keys(const Operands& operands) {
  const std::int64_t q_heads = (*this)[Dim::kQHeads], kv_heads = (*this)[Dim::kKvHeads];
  if (operands.has(Role::kPageTable)) {
    const std::int64_t columns = (*this)[Dim::kColumns], page = (*this)[Dim::kPage];  // both are below 2^31
    if (columns * page > std::numeric_limits<std::int32_t>::max())
      return {Code::kSize, "page_table has " + std::to_string(columns) + " pages a sequence, of " +
                               std::to_string(page) +
                               " keys each: expected at most 2147483647 keys a sequence; hand in fewer columns"};
    known(Dim::kKvLen) = {columns * page, row_of(Role::kK).name};
  }
  if (q_heads % kv_heads == 0) return {};
  return {Code::kHeads, "k has kv_heads " + std::to_string(kv_heads) + ", but q has q_heads " +
                            std::to_string(q_heads) + ": q_heads must be a multiple of kv_heads"};
}

Status Sizes::agree(const Operands& operands) {
  any_batch_ = operands.has(Role::kBatchIdx);
  for (const Role role : operands.present() & kKeyRoles)
    if (Status status = agree(operands.expected(role), operands[role]); !status.ok()) return status;
  if (Status status = agree_on_keys(operands); !status.ok()) return status;
  for (const Role role : operands.present().without(kKeyRoles))
    if (Status status = agree(operands.expected(role), operands[role]); !status.ok()) return status;
  return {};
}

}  // namespace gqa
