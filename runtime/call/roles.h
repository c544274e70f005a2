// roles.h: what the tensors of a call are.
// Owns: Role, one for each tensor that a caller can hand in, and kRoles, the table of what each is: its field and name,
// its dimensions in each form, its elements, what the call does with it.
// Never: looks at a tensor; operands.h does, by loops over this table.
// Threads: constants and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/api/gqa.h"
#include "runtime/call/role.h"
#include "search/problem/problem.h"

namespace gqa {

// What a dimension counts. Those of one name in a call's tensors must be equal.
enum class Dim : std::uint8_t {
  kNone,
  kBatch,
  kCacheBatch,  // the batch, but where cache_batch_idx says which sequence is whose
  kQLen,
  kTotalQ,
  kQHeads,
  kHeadDim,
  kKvLen,
  kTotalK,
  kPages,
  kPage,
  kColumns,
  kKvHeads,
  kHeadDimV,
  kNew,
  kTotalNew,
  kPositions,
  kRotaryHalf,
};
inline constexpr std::array kDimNames = {
    "",         "batch",      "batch",   "q_len",     "total_q",   "q_heads",
    "head_dim", "kv_len",     "total_k", "pages",     "page",      "pages a sequence",
    "kv_heads", "head_dim_v", "new",     "total_new", "positions", "rotary_dim / 2"};
constexpr std::size_t index_of(Dim dim) { return static_cast<std::size_t>(dim); }
constexpr bool counts_rows(Dim dim) {
  return dim == Dim::kBatch || dim == Dim::kQLen || dim == Dim::kTotalQ || dim == Dim::kTotalK || dim == Dim::kNew ||
         dim == Dim::kTotalNew;
}
constexpr const char* name_of(Dim dim) { return kDimNames[index_of(dim)]; }

struct Size {
  enum class Extent : std::uint8_t { kExact, kOrOne, kPlusOne };  // kOrOne: 1 serves all; kPlusOne: starts
  Dim dim = Dim::kNone;
  Extent extent = Extent::kExact;
  constexpr Size() = default;
  constexpr Size(Dim of, Extent given = Extent::kExact) : dim(of), extent(given) {}  // NOLINT: as the table reads
  constexpr bool operator==(const Size&) const = default;
};
constexpr Size or_one(Dim dim) { return {dim, Size::Extent::kOrOne}; }
constexpr Size plus_one(Dim dim) { return {dim, Size::Extent::kPlusOne}; }

// The dimensions of a tensor.
struct Form {
  static constexpr int kMaxRank = 4;
  int rank = 0;                      // 0: there is no such form
  const char* contiguous = nullptr;  // what the last dimension is, which must be contiguous; null: it need not
  std::array<Size, kMaxRank> sizes{};
};
template <typename... Sizes>
constexpr Form form(const char* contiguous, Sizes... sizes) {
  return {static_cast<int>(sizeof...(sizes)), contiguous, {Size(sizes)...}};
}

// "(batch, q_len or 1, q_heads)"
inline std::string dims_text(const Form& form) {
  constexpr const char* kExtents[] = {"", " or 1", " + 1"};
  std::string text;
  for (int at = 0; at < form.rank; ++at) {
    const Size& size = form.sizes[static_cast<std::size_t>(at)];
    text += (at == 0 ? "(" : ", ") + std::string(name_of(size.dim)) + kExtents[static_cast<int>(size.extent)];
  }
  return text + ")";
}

enum class Elements : std::uint8_t { kOfQ, kF32, kI32, kF32OrOfQ };  // kOfQ: q's type
enum class Access : std::uint8_t { kRead, kWrite, kAppend };         // kAppend: written where k_new is
enum class Group : std::uint8_t { kTensors, kSequences, kScores, kAppended };

// Where a problem says that there is such a tensor, and where callers say it of calls to come: fields of gqa_shape and
// gqa_serving, 0: none.
struct Asked {
  bool Problem::*flag = nullptr;
  std::size_t shape = 0, serving = 0;
};

struct RoleRow {
  Role role;
  std::size_t field;  // of gqa_call; 0: an argument beside it
  const char* name;
  Group group;
  Elements elements;
  Access access;
  Form plain;
  Form packed = {};  // where a list of starts is given, packed_by
  Role packed_by = Role::kQ;
  Form paged = {};  // where a page table is given
  Asked asked = {};
};

namespace roles_detail {

inline constexpr const char *kHead = "the head dimension", *kIt = "it", *kRow = "each row", *kStepped = nullptr;
inline constexpr Form kNumbers = form(kIt, Dim::kBatch), kStarts = form(kIt, plus_one(Dim::kBatch));
inline constexpr Form kRotary = form(kRow, Dim::kPositions, Dim::kRotaryHalf);

}  // namespace roles_detail

// clang-format off
inline constexpr std::array<RoleRow, kRoleCount> kRoles = [] {
  using namespace roles_detail;
  using enum Dim;
  using enum Elements;
  using enum Access;
  return std::array<RoleRow, kRoleCount>{{
      {Role::kQ, 0, "q", Group::kTensors, kOfQ, kRead,
       form(kHead, kBatch, kQLen, kQHeads, kHeadDim), form(kHead, kTotalQ, kQHeads, kHeadDim), Role::kQStarts},
      {Role::kQStarts, offsetof(gqa_call, cu_seqlens_q), "cu_seqlens_q", Group::kSequences, kI32, kRead, kStarts},
      {Role::kK, 0, "k", Group::kTensors, kOfQ, kAppend,
       form(kHead, kCacheBatch, kKvLen, kKvHeads, kHeadDim), form(kHead, kTotalK, kKvHeads, kHeadDim), Role::kKStarts,
       form(kHead, kPages, kPage, kKvHeads, kHeadDim)},
      {Role::kV, 0, "v", Group::kTensors, kOfQ, kAppend,
       form(kHead, kCacheBatch, kKvLen, kKvHeads, kHeadDimV), form(kHead, kTotalK, kKvHeads, kHeadDimV), Role::kKStarts,
       form(kHead, kPages, kPage, kKvHeads, kHeadDimV)},
      {Role::kOut, 0, "out", Group::kTensors, kOfQ, kWrite,
       form(kHead, kBatch, kQLen, kQHeads, kHeadDimV), form(kHead, kTotalQ, kQHeads, kHeadDimV), Role::kQStarts},
      {Role::kLse, offsetof(gqa_call, lse), "lse", Group::kTensors, kF32, kWrite,
       form(kStepped, kBatch, kQHeads, kQLen), form(kStepped, kQHeads, kTotalQ), Role::kQStarts, {},
       {&Problem::lse, offsetof(gqa_shape, lse)}},
      {Role::kKStarts, offsetof(gqa_call, cu_seqlens_k), "cu_seqlens_k", Group::kSequences, kI32, kRead, kStarts},
      {Role::kKvLengths, offsetof(gqa_call, cache_seqlens), "cache_seqlens", Group::kSequences, kI32, kRead, kNumbers},
      {Role::kPageTable, offsetof(gqa_call, page_table), "page_table", Group::kSequences, kI32, kRead,
       form(kRow, kCacheBatch, kColumns)},
      {Role::kQLengths, offsetof(gqa_call, seqused_q), "seqused_q", Group::kSequences, kI32, kRead, kNumbers},
      {Role::kSink, offsetof(gqa_call, sink), "sink", Group::kScores, kF32, kRead, form(kIt, kQHeads),
       {}, Role::kQ, {}, {&Problem::sink, offsetof(gqa_shape, sink), offsetof(gqa_serving, sink)}},
      {Role::kScoreScale, offsetof(gqa_call, score_scale), "score_scale", Group::kScores, kF32, kRead,
       form(kStepped, or_one(kBatch), or_one(kQHeads), kQLen), form(kIt, kQHeads), Role::kScoreScale},
      {Role::kBias, offsetof(gqa_call, bias), "bias", Group::kScores, kF32OrOfQ, kRead,
       form("its keys", or_one(kBatch), or_one(kQHeads), or_one(kQLen), kKvLen)},
      {Role::kNewK, offsetof(gqa_call, k_new), "k_new", Group::kAppended, kOfQ, kRead,
       form(kHead, kBatch, kNew, kKvHeads, kHeadDim), form(kHead, kTotalNew, kKvHeads, kHeadDim), Role::kNewStarts},
      {Role::kNewV, offsetof(gqa_call, v_new), "v_new", Group::kAppended, kOfQ, kRead,
       form(kHead, kBatch, kNew, kKvHeads, kHeadDimV), form(kHead, kTotalNew, kKvHeads, kHeadDimV), Role::kNewStarts},
      {Role::kNewStarts, offsetof(gqa_call, cu_seqlens_k_new), "cu_seqlens_k_new", Group::kAppended, kI32, kRead,
       kStarts},
      {Role::kCos, offsetof(gqa_call, rotary_cos), "rotary_cos", Group::kAppended, kOfQ, kRead, kRotary},
      {Role::kSin, offsetof(gqa_call, rotary_sin), "rotary_sin", Group::kAppended, kOfQ, kRead, kRotary},
      {Role::kRotaryStarts, offsetof(gqa_call, rotary_seqlens), "rotary_seqlens", Group::kAppended, kI32, kRead,
       kNumbers},
      {Role::kBatchIdx, offsetof(gqa_call, cache_batch_idx), "cache_batch_idx", Group::kAppended, kI32, kRead,
       kNumbers},
      {Role::kLeftpad, offsetof(gqa_call, cache_leftpad), "cache_leftpad", Group::kAppended, kI32, kRead, kNumbers},
  }};
}();
// clang-format on

constexpr const RoleRow& row_of(Role role) { return kRoles[index_of(role)]; }

template <typename Predicate>
constexpr Roles roles_where(Predicate predicate) {
  Roles found;
  for (const RoleRow& row : kRoles)
    if (predicate(row)) found = found | row.role;
  return found;
}
inline constexpr Roles kAllRoles = roles_where([](const RoleRow&) { return true; });
inline constexpr Roles kWrittenRoles = roles_where([](const RoleRow& row) { return row.access == Access::kWrite; });
inline constexpr Roles kCacheRoles = roles_where([](const RoleRow& row) { return row.access == Access::kAppend; });
inline constexpr Roles kAskedRoles = roles_where([](const RoleRow& row) { return row.asked.flag != nullptr; });
inline constexpr Roles kFieldRoles = roles_where([](const RoleRow& row) { return row.field != 0; });

static_assert(
    [] {
      for (std::size_t at = 0; at < kRoleCount; ++at)
        if (index_of(kRoles[at].role) != at) return false;
      return true;
    }(),
    "the table is in the order of Role");
static_assert(kAppendedRoles == roles_where([](const RoleRow& row) { return row.group == Group::kAppended; }),
              "role.h says which roles append");

}  // namespace gqa
