// checker.cc: see checker.h.
#include "runtime/cuda/trial/checker.h"

#include <algorithm>
#include <bit>

namespace gqa {
namespace {

constexpr int kThreads = 128;      // kCheckThreads of device/check.cuh
constexpr int kWideThreads = 256;  // of kernels that stride over memory
constexpr long long kBlocks = 2048;

}  // namespace

float share_of(unsigned long long placed) { return std::bit_cast<float>(static_cast<std::uint32_t>(placed >> 32)); }

RowErrors row_errors(const CheckResult& result, std::int64_t with_unit) {
  constexpr unsigned long long kPlace = 0xffffffffULL;
  RowErrors errors;
  errors.worst_norm = share_of(result.worst_row);
  errors.worst_row = static_cast<std::int64_t>(result.worst_row & kPlace);
  errors.worst_element = share_of(result.worst_element);
  errors.worst_element_at = static_cast<std::int64_t>(result.worst_element & kPlace);
  errors.squares = static_cast<double>(result.squares) / static_cast<double>(kSquaresUnit);
  errors.rows = with_unit;
  return errors;
}

Status Checker::load(const Context& context, const Binary& binary, const DeviceSpec& spec,
                     std::unique_ptr<Checker>* checker) {
  auto fresh = std::unique_ptr<Checker>(new Checker(context.driver(), spec));
  if (Status s = Module::load(context.driver(), binary.cubin, binary.ptx, &fresh->module_); !s.ok()) return s;
  const struct {
    const char* name;
    CUfunction* function;
    int dynamic_smem = 0;
  } functions[] = {{"gqa_fill", &fresh->fill_},
                   {"gqa_reference", &fresh->reference_},
                   {"gqa_reference_wide", &fresh->reference_wide_},
                   {"gqa_compare", &fresh->compare_},
                   {"gqa_scan", &fresh->scan_},
                   {"gqa_clock", &fresh->clock_},
                   {"gqa_probe", &fresh->probe_, spec.smem_per_block}};
  for (const auto& f : functions)
    if (Status s = fresh->module_.function(f.name, f.dynamic_smem, f.function); !s.ok()) return s;
  *checker = std::move(fresh);
  return {};
}

Status Checker::launch(const char* name, CUfunction function, long long blocks, int threads, CUstream stream,
                       void** arguments, int dynamic_smem) const {
  const CUresult result =
      driver_.cuLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1,
                             static_cast<unsigned>(dynamic_smem), stream, arguments, nullptr);
  return result == CUDA_SUCCESS ? Status() : driver_.error(name, result);
}

Status Checker::fill(CUstream stream, CUdeviceptr data, long long count, unsigned long long seed, long long first,
                     const TrialRows& rows) const {
  void* arguments[] = {&data, &count, &seed, &first, const_cast<TrialRows*>(&rows)};
  return launch("gqa_fill", fill_, kBlocks, kWideThreads, stream, arguments);
}

Status Checker::reference(CUstream stream, const AttentionParams& params, const CheckParams& check,
                          const CacheParams& cache, int rows) const {
  void* arguments[] = {const_cast<AttentionParams*>(&params), const_cast<CheckParams*>(&check),
                       const_cast<CacheParams*>(&cache)};
  const bool wide = static_cast<ElementType>(check.type) == ElementType::kF32;
  return launch("gqa_reference", wide ? reference_wide_ : reference_, rows, kThreads, stream, arguments);
}

Status Checker::compare(CUstream stream, const AttentionParams& params, const CheckParams& check, int rows) const {
  void* arguments[] = {const_cast<AttentionParams*>(&params), const_cast<CheckParams*>(&check)};
  return launch("gqa_compare", compare_, rows, kThreads, stream, arguments);
}

Status Checker::scan(CUstream stream, const ScanParams& scan) const {
  void* arguments[] = {const_cast<ScanParams*>(&scan)};
  return launch("gqa_scan", scan_, kBlocks, kWideThreads, stream, arguments);
}

Status Checker::clock(CUstream stream, CUdeviceptr cycles_and_nanoseconds) const {
  void* arguments[] = {&cycles_and_nanoseconds};
  return launch("gqa_clock", clock_, 1, 1, stream, arguments);
}

Status Checker::probe(CUstream stream, CUdeviceptr span, unsigned long long nanoseconds) const {
  void* arguments[] = {&span, &nanoseconds};
  return launch("gqa_probe", probe_, sms_, 1, stream, arguments, smem_per_block_);
}

}  // namespace gqa
