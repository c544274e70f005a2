// new_tokens_run.cc: see new_tokens_run.h.
#include "runtime/cuda/trial/new_tokens_run.h"

#include "runtime/element.h"

namespace gqa {
namespace {

constexpr int kRotaryStep = 16;  // rotary_dim is a multiple of it

std::vector<std::byte> numbers(ElementType type, int count, float value) {
  const int bytes = element_bytes(type);
  std::vector<std::byte> made(static_cast<std::size_t>(count * bytes));
  for (int i = 0; i < count; ++i) store_element(type, value, &made[static_cast<std::size_t>(i * bytes)]);
  return made;
}

}  // namespace

Status NewTokensRun::make(const Driver& driver, CUstream stream, const TrialLayout& layout, const TrialLists& lists,
                          CUdeviceptr k, CUdeviceptr v) {
  const Problem& p = layout.problem;
  driver_ = &driver;
  stream_ = stream;
  lists_ = append_lists(p, lists);
  k_bytes_ = static_cast<std::size_t>(layout.element_bytes() * layout.k_strides.row);
  v_bytes_ = static_cast<std::size_t>(layout.element_bytes() * layout.v_strides.row);
  const auto batch = static_cast<std::size_t>(p.batch);
  const int pairs = p.head_dim / kRotaryStep * kRotaryStep / 2;
  const std::vector<std::byte> ones = numbers(p.q_type, pairs, 1), zeros = numbers(p.q_type, pairs, 0);
  Status status = DeviceMemory::copy_of(driver, stream, lists_.cached, &cached_);
  if (status.ok()) status = DeviceMemory::copy_of(driver, stream, lists_.table, &table_);
  if (status.ok()) status = DeviceMemory::copy_of(driver, stream, ones, &cos_);
  if (status.ok()) status = DeviceMemory::copy_of(driver, stream, zeros, &sin_);
  if (status.ok()) status = DeviceMemory::allocate(driver, batch * k_bytes_, &k_);
  if (status.ok()) status = DeviceMemory::allocate(driver, batch * v_bytes_, &v_);
  CUresult result = CUDA_SUCCESS;
  for (std::size_t b = 0; b < batch && status.ok(); ++b) {  // the first sequence has keys
    const auto row = static_cast<std::size_t>(lists_.rows[lists_.rows[b] < 0 ? 0 : b]);
    const auto copy = [&](const DeviceMemory& to, CUdeviceptr from, std::size_t bytes) {
      if (result == CUDA_SUCCESS)
        result = driver.cuMemcpyDtoDAsync(to.address() + b * bytes, from + row * bytes, bytes, stream);
    };
    copy(k_, k, k_bytes_);
    copy(v_, v, v_bytes_);
  }
  if (status.ok()) status = driver.error("cuMemcpyDtoDAsync", result);
  k_strides_ = {layout.k_strides.row, layout.k_strides.row, layout.k_strides.head};
  v_strides_ = {layout.v_strides.row, layout.v_strides.row, layout.v_strides.head};
  append_.rows = p.batch;
  append_.count = 1;
  append_.rotary_dim = 2 * pairs;
  append_.rotary_len = 1;
  append_.advances = p.mask != Mask::kNone;
  return status.ok() ? driver.error("cuStreamSynchronize", driver.cuStreamSynchronize(stream)) : status;
}

Call NewTokensRun::call(const Call& plain) const {
  Call c = plain;
  c.append = append_;
  c.set(Role::kNewK, k_.as<void>(), k_strides_);
  c.set(Role::kNewV, v_.as<void>(), v_strides_);
  c.place(Role::kCos, cos_.as<void>());
  c.place(Role::kSin, sin_.as<void>());
  c.place(Role::kKvLengths, cached_.as<void>());
  if (c.has(Role::kPageTable)) c.place(Role::kPageTable, table_.as<void>());
  return c;
}

// Visits sequences whose last key nobody else reads.
template <typename Step>
Status NewTokensRun::each_own(Step step) const {
  CUresult result = CUDA_SUCCESS;
  for (std::size_t b = 0; b < lists_.own.size() && result == CUDA_SUCCESS; ++b)
    if (lists_.own[b]) result = step(b, static_cast<std::size_t>(lists_.rows[b]));
  return driver_->error("the new tokens of a trial", result);
}

Status NewTokensRun::take_out(CUdeviceptr k, CUdeviceptr v) const {
  return each_own([&](std::size_t, std::size_t row) {
    const CUresult keys = driver_->cuMemsetD8Async(k + row * k_bytes_, 0xff, k_bytes_, stream_);
    return keys != CUDA_SUCCESS ? keys : driver_->cuMemsetD8Async(v + row * v_bytes_, 0xff, v_bytes_, stream_);
  });
}

Status NewTokensRun::put_back(CUdeviceptr k, CUdeviceptr v) const {
  return each_own([&](std::size_t b, std::size_t row) {
    const CUresult keys =
        driver_->cuMemcpyDtoDAsync(k + row * k_bytes_, k_.address() + b * k_bytes_, k_bytes_, stream_);
    return keys != CUDA_SUCCESS
               ? keys
               : driver_->cuMemcpyDtoDAsync(v + row * v_bytes_, v_.address() + b * v_bytes_, v_bytes_, stream_);
  });
}

}  // namespace gqa
