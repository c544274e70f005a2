// cached_lists.cc: see cached_lists.h.
#include "runtime/cuda/cached_lists.h"

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/call/checked.h"
#include "runtime/call/roles.h"
#include "runtime/cuda/driver/capture.h"

namespace gqa {
namespace {

Status read_back(const Driver& driver, const std::int32_t* list, CUstream stream, std::vector<std::int32_t>* copy) {
  const CUresult result = driver.cuMemcpyDtoHAsync(copy->data(), reinterpret_cast<CUdeviceptr>(list),
                                                   copy->size() * sizeof(std::int32_t), stream);
  return driver.error("cuMemcpyDtoHAsync", result != CUDA_SUCCESS ? result : driver.cuStreamSynchronize(stream));
}

Status check_not_captured(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = driver.cuStreamIsCapturing(stream, &status);
  if (result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) return {};
  return {Code::kCapturing,
          "a checked handle reads lengths and page tables back before each call, which a stream that is being captured "
          "cannot do: capture with a handle that is not checked"};
}

// Numbers in a list of the call, as far as any sequence reads it.
std::int64_t numbers_of(const Call& call, Role role) {
  const Problem& p = call.problem;
  if (role != Role::kPageTable) return row_of(role).plain.sizes[0] == plus_one(Dim::kBatch) ? p.batch + 1LL : p.batch;
  const bool given = call.appends() && p.paged();  // the table as it was given, before one is made of it
  const std::int64_t rows = given ? call.append.cache_batch : p.batch, page = given ? call.append.page : p.page;
  return p.paged() ? (rows - 1) * call.strides(role).batch + p.kv_len / page : 0;
}

constexpr Roles kLists = roles_where([](const RoleRow& row) { return row.elements == Elements::kI32; });

}  // namespace

Status check_cached_lists(const Context& context, const Call& call, std::string* odd) {
  const Roles lists = call.present() & kLists;
  if (lists.empty()) return {};
  const BesideCaptures here(context);
  const auto stream = static_cast<CUstream>(call.stream);
  if (Status s = check_not_captured(context.driver(), stream); !s.ok()) return s;
  Call on_host = call;
  std::array<std::vector<std::int32_t>, kRoleCount> copies;
  for (const Role role : lists) {
    std::vector<std::int32_t>& copy = copies[index_of(role)];
    copy.resize(static_cast<std::size_t>(numbers_of(call, role)));
    if (Status s = read_back(context.driver(), call.list(role), stream, &copy); !s.ok()) return s;
    on_host.place(role, copy.data());
  }
  return check_lists(on_host, odd);
}

}  // namespace gqa
