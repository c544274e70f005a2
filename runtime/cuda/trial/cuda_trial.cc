// cuda_trial.cc: see cuda_trial.h.
#include "runtime/cuda/trial/cuda_trial.h"

#include <algorithm>
#include <cmath>

#include "runtime/cuda/driver/capture.h"
#include "runtime/cuda/trial/check_chain.h"
#include "runtime/verify/trial_arrays.h"
#include "search/families/served.h"

namespace gqa {
namespace {

constexpr std::int64_t kMaxInputBytes = 6LL << 30;
constexpr std::int64_t kReferenceKeys = 100000000;  // rows checked x keys: bounds the reference's time to about 0.1 s
constexpr int kMaxSets = 32;
constexpr std::uint64_t kListSeed = 4;

}  // namespace

CudaTrial::CudaTrial(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker, const Problem& problem,
                     const Effort& effort)
    : CudaTrialBase(std::move(shared), std::move(checker), "kernel", effort),
      guarded_(driver()),
      workspaces_(std::make_unique<WorkspacePool>(driver())),
      layout_(problem),
      verified_(verification_lists(problem, kListSeed)) {
  static_assert(2 * sizeof(unsigned long long) <= sizeof(CheckResult), "the result's memory is lent to the clock");
}

Status CudaTrial::make(std::shared_ptr<CudaShared> shared, std::shared_ptr<const Checker> checker,
                       const DeviceSpec& spec, const Problem& problem, const Effort& effort,
                       std::unique_ptr<Trial>* trial) {
  const BesideCaptures here(shared->context);
  for (int most_sets = kMaxSets;; most_sets /= 2) {
    auto fresh = std::unique_ptr<CudaTrial>(new CudaTrial(shared, checker, problem, effort));
    Status status = fresh->set_up(spec, most_sets);
    if (status.ok()) *trial = std::move(fresh);
    if (status.code() != Code::kOutOfMemory || most_sets == 1) return status;
  }
}

Status CudaTrial::set_up(const DeviceSpec& spec, int most_sets) {
  const Problem& problem = layout_.problem;
  if (Status s = stream_.open(); !s.ok()) return s;
  if (Status s = choose_sets(spec, most_sets); !s.ok()) return s;
  if (Status s = fill_inputs(); !s.ok()) return s;
  const TrialLists timed = timing_lists(problem, kListSeed);
  const TrialArrays arrays = trial_arrays(problem, kListSeed);
  if (Status s = copy(operands_of(problem, verified_), &verified_lists_); !s.ok()) return s;
  if (Status s = copy(operands_of(problem, timed), &timed_lists_); !s.ok()) return s;
  if (Status s = copy(operands_of(arrays), &arrays_); !s.ok()) return s;
  if (Status s = allocate_outputs(); !s.ok()) return s;
  variants_[1].hard = true;
  variants_[2].appends = true;
  if (Status s = prepare(problem, &variants_[0]); !s.ok()) return s;
  if (Status s = prepare(ragged(problem), &variants_[1]); !s.ok() || !can_append(problem)) return s;
  if (Status s = new_tokens_.make(driver(), stream_.get(), layout_, verified_, k_.address(), v_.address()); !s.ok())
    return s;
  return prepare(problem, &variants_[2]);
}

// Gives back all that one launch on one set of inputs can do without. The first set's numbers stay what they were.
Status CudaTrial::shrink() {
  stream_.forget_graphs();
  workspaces_->clear();
  workspaces_ = std::make_unique<WorkspacePool>(driver());
  guarded_.clear();
  if (sets_ == 1) return {};
  sets_ = 1;
  q_ = {};
  k_ = {};
  v_ = {};
  hard_q_ = {};
  return fill_inputs();
}

CudaTrial::~CudaTrial() {
  const BesideCaptures here(shared_->context);
  stream_.close();
  q_ = {};
  k_ = {};
  v_ = {};
  verified_lists_.clear();
  timed_lists_.clear();
  arrays_.clear();
  out_ = {};
  lse_ = {};
  result_ = {};
  hard_q_ = {};
  for (Variant& variant : variants_) variant = {};
  new_tokens_ = {};
  guarded_.clear();
  workspaces_->clear();
}

Status CudaTrial::choose_sets(const DeviceSpec& spec, int most_sets) {
  const std::int64_t set_bytes = layout_.input_bytes();
  std::size_t free_bytes = 0, total_bytes = 0;
  if (const CUresult r = driver().cuMemGetInfo(&free_bytes, &total_bytes); r != CUDA_SUCCESS)
    return driver().error("cuMemGetInfo", r);
  const std::int64_t room = std::min(kMaxInputBytes, static_cast<std::int64_t>(free_bytes / 2));
  const std::int64_t wanted = 3 * spec.l2_bytes / set_bytes + 1;
  sets_ = static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, room / set_bytes), 1, most_sets));
  launches_ = TrialStream::launches_a_graph(flops(layout_.problem) / spec.tensor_flops * 1e6, sets_);
  return {};
}

Status CudaTrial::fill_inputs() {
  const struct {
    DeviceMemory* memory;
    std::int64_t count;
    int sets;
    unsigned long long seed;
    TrialTensor tensor;
  } inputs[] = {{&q_, layout_.q, sets_, 1, TrialTensor::kPlain},
                {&k_, layout_.k, sets_, 2, TrialTensor::kKeys},
                {&v_, layout_.v, sets_, 3, TrialTensor::kPlain},
                {&hard_q_, layout_.q, 1, 1, TrialTensor::kHardQueries}};
  for (const auto& input : inputs) {
    const std::int64_t count = layout_.input_slab(input.count, input.sets);
    if (Status s =
            DeviceMemory::allocate(driver(), static_cast<std::size_t>(count * layout_.element_bytes()), input.memory);
        !s.ok())
      return s;
    if (Status s = checker_->fill(stream_.get(), input.memory->address(), count, input.seed, layout_.shift,
                                  layout_.trial_rows(input.tensor));
        !s.ok())
      return s;
  }
  return poison_unused();
}

// In the first set, which verification reads, what no sequence uses is NaN.
Status CudaTrial::poison_unused() {
  CUresult result = CUDA_SUCCESS;
  for (const KeyRun& run : unused_keys(layout_.problem, verified_)) {
    const auto poison = [&](const DeviceMemory& memory, std::int64_t row) {
      const auto first = static_cast<CUdeviceptr>(layout_.element_bytes() * (layout_.shift + run.first * row));
      const auto bytes = static_cast<std::size_t>(layout_.element_bytes() * run.count * row);
      if (result == CUDA_SUCCESS)
        result = driver().cuMemsetD8Async(memory.address() + first, 0xff, bytes, stream_.get());
    };
    poison(k_, layout_.k_strides.row);
    poison(v_, layout_.v_strides.row);
  }
  return driver().error("cuMemsetD8Async", result);
}

// The copies are done when this returns.
Status CudaTrial::copy(const TrialOperands& operands, DeviceOperands* copied) {
  for (const TrialOperand& operand : operands) {
    DeviceOperand& made = copied->emplace_back(DeviceOperand{operand.role, operand.strides, {}});
    if (Status s = DeviceMemory::allocate(driver(), operand.bytes, &made.memory); !s.ok()) return s;
    const CUresult result =
        driver().cuMemcpyHtoDAsync(made.memory.address(), operand.data, operand.bytes, stream_.get());
    if (result != CUDA_SUCCESS) return driver().error("cuMemcpyHtoDAsync", result);
  }
  return operands.empty() ? Status() : stream_.wait();
}

Status CudaTrial::allocate_outputs() {
  const std::size_t out_bytes = static_cast<std::size_t>(layout_.out_slab() * layout_.element_bytes());
  const std::size_t lse_bytes = static_cast<std::size_t>(layout_.lse_slab()) * 4;
  if (Status s = DeviceMemory::allocate(driver(), out_bytes, &out_); !s.ok()) return s;
  if (lse_bytes > 0)
    if (Status s = DeviceMemory::allocate(driver(), lse_bytes, &lse_); !s.ok()) return s;
  return DeviceMemory::allocate(driver(), sizeof(CheckResult), &result_);
}

Call CudaTrial::call(const Problem& problem, const DeviceOperands& lists, const DeviceMemory& q, int set) const {
  Call slabs;
  slabs.place(Role::kQ, q.as<void>());
  slabs.place(Role::kK, k_.as<void>());
  slabs.place(Role::kV, v_.as<void>());
  slabs.place(Role::kOut, out_.as<void>());
  slabs.place(Role::kLse, lse_.as<void>());
  for (const DeviceOperands* operands : {&lists, &arrays_})
    for (const DeviceOperand& operand : *operands) slabs.set(operand.role, operand.memory.as<void>(), operand.strides);
  Call c = layout_.call(slabs, problem, set);
  c.stream = stream_.get();
  return c;
}

CheckParams CudaTrial::check_params(const Variant& variant) const {
  CheckParams c{};
  c.rows = variant.device_rows.as<long long>();
  c.reference = variant.reference.as<double>();
  c.reference_lse = variant.reference_lse.as<float>();
  c.units = variant.units.as<float>();
  c.result = result_.as<CheckResult>();
  const AttentionRoundings roundings = attention_roundings(layout_.problem.out_type, layout_.problem.head_dim);
  c.rounding = static_cast<float>(roundings.of_element.relative);
  c.least = static_cast<float>(roundings.of_element.least);
  c.rounding_of_score = static_cast<float>(roundings.of_score);
  c.most_score = static_cast<float>(kMostScore);
  c.of_query = static_cast<float>(kOfQuery);
  c.of_largest = static_cast<float>(kOfLargest);
  c.lse_relative = static_cast<float>(kLseRelative);
  c.lse_absolute = static_cast<float>(kLseAbsolute);
  c.scale = 1.0F / std::sqrt(static_cast<float>(layout_.problem.head_dim));
  c.head_dim = layout_.problem.head_dim;
  c.head_dim_v = layout_.problem.head_dim_v;
  c.causal = layout_.problem.causal();
  c.type = static_cast<int>(layout_.problem.q_type);
  c.vectors = layout_.problem.align >= 16;
  c.page = layout_.problem.page;
  const Call checked = call(layout_.problem, verified_lists_, q_, 0);
  c.q_starts = checked.list(Role::kQStarts);
  c.chain = check_chain_of(checked);
  return c;
}

// Rows of sequences without keys: those that append give them one.
void CudaTrial::leave_out_empty(Variant* variant) const {
  const Problem& p = variant->problem;
  std::vector<std::int64_t>& rows = variant->row_numbers;
  const auto empty = [&](std::int64_t row) {
    return verified_.lengths[static_cast<std::size_t>(row / (std::int64_t{p.q_heads} * p.q_len))] == 0;
  };
  rows.erase(std::remove_if(rows.begin(), rows.end(), empty), rows.end());
}

Status CudaTrial::prepare(const Problem& problem, Variant* variant) {
  variant->problem = problem;
  variant->row_numbers =
      rows_to_check(problem, verified_, std::max<std::int64_t>(256, kReferenceKeys / problem.kv_len));
  if (variant->appends) leave_out_empty(variant);
  variant->rows = static_cast<int>(variant->row_numbers.size());
  const std::size_t rows = variant->row_numbers.size();
  if (Status s = DeviceMemory::allocate(driver(), rows * 8, &variant->device_rows); !s.ok()) return s;
  if (Status s = DeviceMemory::allocate(driver(), rows * 8 * problem.head_dim_v, &variant->reference); !s.ok())
    return s;
  if (Status s = DeviceMemory::allocate(driver(), rows * 4, &variant->reference_lse); !s.ok()) return s;
  if (Status s = DeviceMemory::allocate(driver(), rows * 8, &variant->units); !s.ok()) return s;
  driver().cuMemcpyHtoDAsync(variant->device_rows.address(), variant->row_numbers.data(), rows * 8, stream_.get());
  driver().cuMemsetD8Async(result_.address(), 0, sizeof(CheckResult), stream_.get());
  const Call checked = call(problem, verified_lists_, queries(*variant), 0);
  if (Status s = checker_->reference(stream_.get(), params_of(checked, Candidate()), check_params(*variant),
                                     cache_params_of(checked), variant->rows);
      !s.ok())
    return s;
  CheckResult made{};
  if (Status s = stream_.read(result_.address(), &made, sizeof made); !s.ok()) return s;
  variant->with_unit = made.rows;
  return {};
}

Status CudaTrial::poison() {
  const CUresult out = driver().cuMemsetD8Async(out_.address(), 0xff, out_.bytes(), stream_.get());
  CUresult lse = CUDA_SUCCESS;
  if (layout_.problem.lse) lse = driver().cuMemsetD8Async(lse_.address(), 0xff, lse_.bytes(), stream_.get());
  const CUresult result = driver().cuMemsetD8Async(result_.address(), 0, sizeof(CheckResult), stream_.get());
  return driver().error("cuMemsetD8Async", out != CUDA_SUCCESS ? out : lse != CUDA_SUCCESS ? lse : result);
}

Status CudaTrial::scan_outputs(const Problem& problem) const {
  const Call full = call(layout_.problem, verified_lists_, q_, 0);
  ScanParams scan{};
  scan.slab = out_.as<void>();
  scan.result = result_.as<CheckResult>();
  scan.count = layout_.out_slab();
  scan.first = layout_.first_out();
  const bool packed = problem.q_packed();  // then all sequences' rows are one's
  scan.batch = packed ? 1 : problem.batch;
  scan.batch_stride = packed ? layout_.out : full.strides(Role::kOut).batch;
  scan.rows = packed ? query_rows(problem, verified_) : problem.q_len;
  scan.row_extent = full.strides(Role::kOut).row;
  scan.type = static_cast<int>(problem.out_type);
  if (Status s = checker_->scan(stream_.get(), scan); !s.ok() || !problem.lse) return s;
  scan.slab = lse_.as<void>();
  scan.count = layout_.lse_slab();
  scan.first = TrialLayout::kGuard;
  scan.batch_stride = packed ? layout_.lse : full.strides(Role::kLse).batch;
  scan.row_extent = full.strides(Role::kLse).head;
  scan.rows_inner = 1;
  scan.type = static_cast<int>(ElementType::kF32);
  return checker_->scan(stream_.get(), scan);
}

Status CudaTrial::check_variant(const CudaKernel& kernel, const Variant& variant, CheckResult* result,
                                std::int64_t* damaged) {
  Call c = call(variant.problem, verified_lists_, queries(variant), 0);
  if (variant.appends) c = new_tokens_.call(c);
  const LaunchPlan& needed = kernel.plan_of(c.problem);
  Workspace workspace;
  if (Status s = poison(); !s.ok()) return s;
  if (Status s = guarded_.prepare(stream_.get(), needed, &workspace); !s.ok()) return s;
  if (variant.appends)
    if (Status s = new_tokens_.take_out(k_.address(), v_.address()); !s.ok()) return s;
  Status ran = kernel.launch(c, workspace);
  if (ran.ok()) ran = stream_.wait();
  if (variant.appends)
    if (Status s = new_tokens_.put_back(k_.address(), v_.address()); !s.ok() && ran.ok()) ran = s;
  if (!ran.ok()) return ran;
  if (Status s = guarded_.inspect(stream_.get(), damaged); !s.ok()) return s;
  if (Status s = scan_outputs(variant.problem); !s.ok()) return s;
  if (Status s = checker_->compare(stream_.get(), params_of(c, Candidate()), check_params(variant), variant.rows);
      !s.ok())
    return s;
  return stream_.read(result_.address(), result, sizeof *result);
}

// Where memory is short, again with what a smaller trial leaves.
Status CudaTrial::check_with_memory(const CudaKernel& kernel, const Variant& variant, CheckResult* result,
                                    std::int64_t* damaged) {
  Status status = check_variant(kernel, variant, result, damaged);
  if (status.code() != Code::kOutOfMemory) return status;
  if (Status s = shrink(); !s.ok()) return s;
  return check_variant(kernel, variant, result, damaged);
}

Comparison CudaTrial::comparison(const Variant& variant, const CheckResult& result) {
  Comparison c;
  c.rows = row_errors(result, variant.with_unit);
  c.lse_share = share_of(result.worst_lse);
  c.worst_lse_index = static_cast<std::int64_t>(result.worst_lse & 0xffffffffu);
  c.unwritten = result.unwritten;
  c.nonfinite = result.nonfinite;
  c.stray = result.stray;
  return c;
}

Verdict CudaTrial::verify(const LoadedProgram& program) {
  const BesideCaptures here(shared_->context);
  const CudaKernel& kernel = *static_cast<const CudaProgram&>(program).attention();
  const std::size_t runs = kernel.plan_of(layout_.problem).brings(LaunchArgument::kTokens) ? 3 : 2;
  return gqa::verify(runs, [&](std::size_t run, std::vector<Measured>* outputs) -> Status {
    const Variant& variant = variants_[run];
    CheckResult result{};
    std::int64_t damaged = 0;
    if (Status s = check_with_memory(kernel, variant, &result, &damaged); !s.ok()) return s;
    Comparison found = comparison(variant, result);
    found.workspace = damaged;
    const char* inputs = variant.hard ? kHardInputs : variant.appends ? kNewTokenInputs : "";
    *outputs = measured(variant.problem, variant.row_numbers, found, inputs);
    return {};
  });
}

Status CudaTrial::time(const LoadedProgram& program, int samples, std::vector<double>* microseconds) {
  const BesideCaptures here(shared_->context);
  const CudaKernel& kernel = *static_cast<const CudaProgram&>(program).attention();
  guarded_.clear();
  Status status = time_once(kernel, samples, microseconds);
  if (status.code() != Code::kOutOfMemory) return status;
  // Inputs stay as many as the others were timed on: fewer would be faster.
  stream_.forget_graphs();
  workspaces_->clear();
  workspaces_ = std::make_unique<WorkspacePool>(driver());
  return time_once(kernel, samples, microseconds);
}

Status CudaTrial::time_once(const CudaKernel& kernel, int samples, std::vector<double>* microseconds) {
  const LaunchPlan& needed = kernel.plan_of(layout_.problem);
  WorkspacePin pin;
  if (needed.needs_workspace())
    if (Status s = workspaces_->take(stream_.get(), needed, &pin); !s.ok()) return s;
  const auto launch = [&](int i) {
    return kernel.launch(call(layout_.problem, timed_lists_, q_, i % sets_), pin.workspace);
  };
  return stream_.time(kernel.id(), launches_, launch, samples, microseconds);
}

}  // namespace gqa
