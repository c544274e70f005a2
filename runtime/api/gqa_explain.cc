// gqa_explain.cc: gqa_explain, see gqa.h.
// Owns: what stands in for an output that is not given; of a call that is refused, which changes would have it served.
// Never: tunes, compiles or launches; reads a tensor. Threads: as gqa.h promises; the texts are each thread's own.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/api/args/args.h"
#include "runtime/api/c_api.h"
#include "runtime/api/gqa.h"
#include "runtime/api/handle.h"
#include "runtime/api/tensors/dtype.h"
#include "runtime/session/explanation.h"

namespace {

using gqa::Code;
using gqa::Explanation;
using gqa::guarded;
using gqa::Status;

constexpr int kMostRank = 4;
constexpr std::int64_t kMostHeadDim = 256;

// The smallest from `dim` on that there are kernels of; 0: none.
std::int64_t served_head_dim(std::int64_t dim) {
  gqa::Problem problem;
  for (; dim > 0 && dim <= kMostHeadDim; ++dim)
    if (gqa::parse("hq=1,sq=1,d=" + std::to_string(dim), &problem).ok()) return dim;
  return 0;
}

// A tensor's description, which may be changed: nothing reads its elements.
class Described {
 public:
  Described(const DLTensor& given, int number) : number_(number) { set(given); }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  void set(const DLTensor& given) {
    tensor_ = given;
    known_ = given.ndim >= 1 && given.ndim <= kMostRank && given.shape != nullptr;
    if (!known_) return;
    std::copy(given.shape, given.shape + given.ndim, shape_.begin());
    tensor_.shape = shape_.data();
  }
  bool known() const { return known_; }
  const DLTensor* get() const { return &tensor_; }
  std::int64_t& size(int from_the_end) { return shape_[static_cast<std::size_t>(tensor_.ndim - from_the_end)]; }
  DLDataType& dtype() { return tensor_.dtype; }
  // Somewhere that no other is, aligned and without gaps.
  void make_compact() {
    constexpr std::uintptr_t kApart = std::uintptr_t{1} << 48;
    tensor_.data = reinterpret_cast<void*>(kApart * static_cast<std::uintptr_t>(number_));
    tensor_.byte_offset = 0;
    tensor_.strides = nullptr;
  }

 private:
  DLTensor tensor_;
  int number_;
  std::array<std::int64_t, kMostRank> shape_{};
  bool known_ = false;
};

// A call whose tensors may be changed until it is served.
class Changeable {
 public:
  Changeable(const DLTensor& q, const DLTensor& k, const DLTensor& v, const DLTensor* out, const gqa_call* call)
      : q_(q, 1), k_(k, 2), v_(v, 3), out_(out != nullptr ? *out : q, 4) {
    call_.size = sizeof(call_);
    if (call != nullptr) std::memcpy(&call_, call, std::min(call->size, sizeof(call_)));
    if (out == nullptr && known()) follow();
  }
  bool known() const { return q_.known() && k_.known() && v_.known() && out_.known(); }
  Status check(const gqa::Device& device, gqa::Call* made) const {
    return gqa::make_call(device, q_.get(), k_.get(), v_.get(), out_.get(), &call_, made);
  }
  // What to change where the call was refused so; "": nothing that is known.
  std::string change(Code code) {
    switch (code) {
      case Code::kDtype:
        return cast();
      case Code::kHeadDim:
        return pad();
      case Code::kHeads:
        return repeat_heads();
      case Code::kStride:
      case Code::kAlignment:
      case Code::kAlias:
        return copy();
      case Code::kOption:
        return fold_scale();
      default:
        return "";
    }
  }

 private:
  // The output is the query's, but for its head dimension.
  void follow() {
    out_.set(*q_.get());
    out_.size(1) = v_.size(1);
    out_.make_compact();
  }
  void compact_all() {
    for (Described* tensor : {&q_, &k_, &v_}) tensor->make_compact();
    follow();
  }
  std::string cast() {
    gqa::ElementType dtype{};
    const bool served = gqa::is_element(q_.dtype(), &dtype);
    const bool wide = q_.dtype().code == kDLFloat && q_.dtype().bits > 32;
    const DLDataType wanted = served ? q_.dtype() : wide ? gqa::kFloat32 : DLDataType{kDLBfloat, 16, 1};
    if (served && gqa::same(k_.dtype(), wanted) && gqa::same(v_.dtype(), wanted)) return "";  // of another tensor
    for (Described* tensor : {&q_, &k_, &v_}) tensor->dtype() = wanted;
    compact_all();
    return "q, k and v of " + gqa::dtype_text(wanted);
  }
  std::string pad() {
    const std::int64_t given = q_.size(1), dim = served_head_dim(given), dim_v = served_head_dim(v_.size(1));
    if (dim == 0 || dim_v == 0 || k_.size(1) != given) return "";
    if (dim == given && dim_v == v_.size(1)) return "";
    q_.size(1) = k_.size(1) = dim;
    v_.size(1) = dim_v;
    compact_all();
    return "head_dim " + std::to_string(dim) + (dim_v == dim ? "" : " and head_dim_v " + std::to_string(dim_v)) +
           ", padded with zeros, with scale 1/sqrt(" + std::to_string(given) + ")";
  }
  std::string repeat_heads() {
    const std::int64_t heads = q_.size(2);
    std::int64_t kv_heads = k_.size(2);
    while (kv_heads > 0 && kv_heads < heads && heads % kv_heads != 0) ++kv_heads;
    if (kv_heads < 1 || kv_heads > heads || kv_heads == k_.size(2)) return "";
    k_.size(2) = v_.size(2) = kv_heads;
    compact_all();
    return std::to_string(kv_heads) + " heads of keys and values, repeated";
  }
  std::string copy() {
    if (copied_) return "";
    copied_ = true;
    compact_all();
    return "contiguous tensors with memory of their own";
  }
  std::string fold_scale() {
    if (call_.softcap == 0 || call_.score_scale == nullptr || call_.bias == nullptr) return "";
    call_.score_scale = nullptr;
    return "score_scale multiplied into q";
  }

  Described q_, k_, v_, out_;
  gqa_call call_ = {};
  bool copied_ = false;
};

Explanation refused(const gqa::Device& device, const Status& status, Changeable* call) {
  constexpr int kMostChanges = 6;
  Explanation made;
  made.source = "refused";
  made.reason = status.message();
  std::string changes;
  Status now = status;
  gqa::Call served;
  for (int round = 0; round < kMostChanges && call->known() && !now.ok(); ++round) {
    const std::string change = call->change(now.code());
    if (change.empty()) return made;
    changes += (changes.empty() ? "" : "; ") + change;
    served = {};
    now = call->check(device, &served);
  }
  if (now.ok() && !changes.empty()) made.nearest = gqa::predicted(served.problem, device.spec(), changes);
  return made;
}

}  // namespace

extern "C" gqa_status gqa_explain(gqa_handle handle, const DLTensor* q, const DLTensor* k, const DLTensor* v,
                                  const DLTensor* out, const gqa_call* call, const char** text, const char** json) {
  return guarded([&]() -> Status {
    if (handle == nullptr) return gqa::null_handle();
    for (const auto& [name, tensor] : {std::pair{"q", q}, {"k", k}, {"v", v}})
      if (tensor == nullptr) return {Code::kNullArgument, std::string(name) + " is NULL, expected a tensor"};
    const gqa::Device& device = handle->session.device();
    Changeable given(*q, *k, *v, out, call);
    gqa::Call made;
    const Status status = given.check(device, &made);
    thread_local std::string as_text, as_json;
    const Explanation explanation =
        status.ok() ? gqa::explain(handle->session, made.problem) : refused(device, status, &given);
    as_text = explanation.text();
    as_json = explanation.json();
    if (text != nullptr) *text = as_text.c_str();
    if (json != nullptr) *json = as_json.c_str();
    return {};
  });
}
