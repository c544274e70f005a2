// cached_lists.cc: see cached_lists.h.
#include "runtime/cuda/cached_lists.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "runtime/checked.h"
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

// A list of the call, read back and then found at its copy. `count` numbers; null where there is no list.
struct ReadList {
  const std::int32_t** list;
  std::int64_t count;
  std::vector<std::int32_t> copy;
};

}  // namespace

Status check_cached_lists(const Context& context, const Call& call, std::string* odd) {
  const Problem& p = call.problem;
  const bool given = call.append != nullptr && p.paged();  // the table as it was given, before one is made of it
  const std::int64_t rows = given ? call.append->cache_batch : p.batch, page = given ? call.append->page : p.page;
  const std::int64_t table = p.paged() ? (rows - 1) * call.page_table_stride + p.kv_len / page : 0;
  const std::int64_t starts = p.batch + std::int64_t{1};
  Call on_host = call;
  Append append;
  if (call.append != nullptr) on_host.append = &(append = *call.append);
  ReadList lists[] = {
      {&on_host.q_starts, starts, {}},      {&on_host.k_starts, starts, {}},  {&on_host.q_lengths, p.batch, {}},
      {&on_host.kv_lengths, p.batch, {}},   {&on_host.page_table, table, {}}, {&append.starts, starts, {}},
      {&append.rotary_starts, p.batch, {}}, {&append.batch_idx, p.batch, {}}, {&append.leftpad, p.batch, {}}};
  if (std::all_of(std::begin(lists), std::end(lists), [](const ReadList& l) { return *l.list == nullptr; })) return {};
  const BesideCaptures here(context);
  const auto stream = static_cast<CUstream>(call.stream);
  if (Status s = check_not_captured(context.driver(), stream); !s.ok()) return s;
  for (auto& [list, count, copy] : lists) {
    if (*list == nullptr) continue;
    copy.resize(static_cast<std::size_t>(count));
    if (Status s = read_back(context.driver(), *list, stream, &copy); !s.ok()) return s;
    *list = copy.data();
  }
  return check_lists(on_host, odd);
}

}  // namespace gqa
