// args.cc: see args.h; struct_args.cc has the C structs alone. Checks run from what a tensor is (there, rank, dtype,
// device, sizes) to how tensors agree (shapes, heads) to where they lie (strides, alignment, overlap); the first that
// fails answers.
#include "runtime/api/args.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/api/c_struct.h"
#include "runtime/api/dtype.h"
#include "runtime/api/recent_calls.h"
#include "runtime/api/view.h"

namespace gqa {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

// ---- what a tensor is

std::string device_text(DLDevice device) {
  const int type = number(device.device_type);
  const std::string id = ":" + text(device.device_id);
  if (type == kDLCPU) return "the CPU";
  if (type == kDLCUDA) return "cuda" + id;
  return "DLPack device type " + text(type) + id;
}

std::string device_text(const Device& device) {
  if (device.spec().kind == DeviceKind::kHost) return "the host, which takes CPU tensors";
  for (int id = 0; id < 64; ++id) {
    if (device.owns(kDLCUDA, id)) return "cuda:" + text(id);
  }
  return "a GPU (" + device.spec().arch + ")";
}

struct Role {
  const char* name;
  int rank;
  const char* dims;
};
constexpr Role kQ = {"q", 4, "(batch, q_len, q_heads, head_dim)"};
constexpr Role kK = {"k", 4, "(batch, kv_len, kv_heads, head_dim)"};
constexpr Role kV = {"v", 4, "(batch, kv_len, kv_heads, head_dim_v)"};
constexpr Role kOut = {"out", 4, "(batch, q_len, q_heads, head_dim_v)"};
constexpr Role kLse = {"lse", 3, "(batch, q_heads, q_len)"};

Status check_present(const Role& role, const DLTensor* tensor) {
  if (tensor != nullptr && (tensor->shape != nullptr || tensor->ndim != role.rank)) return {};
  return {Code::kNullArgument, std::string(role.name) + (tensor == nullptr ? " is NULL" : "'s shape is NULL") +
                                   ", expected a DLTensor of shape " + role.dims};
}

Status check_rank(const Role& role, const DLTensor& tensor) {
  if (tensor.ndim == role.rank) return {};
  return {Code::kRank, std::string(role.name) + " has " + text(tensor.ndim) + " dimensions, expected " +
                           text(role.rank) + ": " + role.dims};
}

Status check_sizes(const Role& role, const DLTensor& tensor) {
  for (int i = 0; i < role.rank; ++i) {
    const std::int64_t size = tensor.shape[i];
    if (size >= 1 && size <= std::numeric_limits<std::int32_t>::max()) continue;
    return {Code::kSize, std::string(role.name) + "'s dimension " + text(i) + " of " + role.dims + " is " + text(size) +
                             ", expected 1 to 2147483647"};
  }
  return {};
}

Status check_tensor(const Device& device, const Role& role, const DLTensor& tensor, DLDataType expected) {
  if (Status status = check_rank(role, tensor); !status.ok()) return status;
  if (!same(tensor.dtype, expected)) {
    const char* why = role.rank == 3 ? ", expected " : ", but q is ";
    return {Code::kDtype, std::string(role.name) + " is " + dtype_text(tensor.dtype) + why + dtype_text(expected)};
  }
  if (!owned(device, tensor.device)) return check_on_device(device, role.name, tensor.device);
  return check_sizes(role, tensor);
}

// ---- how tensors agree

// Two dimensions that must be equal: "k has batch 3, but q has batch 2: they must be equal".
Status check_equal(const Role& role, std::int64_t size, const char* dim, const char* other, std::int64_t expected) {
  if (size == expected) return {};
  return {Code::kShape, std::string(role.name) + " has " + dim + " " + text(size) + ", but " + other + " has " + dim +
                            " " + text(expected) + ": they must be equal"};
}

Status check_shapes(const DLTensor& q, const DLTensor& k, const DLTensor& v, const DLTensor& out) {
  const struct {
    const Role& role;
    const DLTensor& tensor;
    int at;
    const char* dim;
    const char* other_name;
    const DLTensor& other;
  } pairs[] = {
      {kK, k, 0, "batch", "q", q},       {kV, v, 0, "batch", "q", q},     {kOut, out, 0, "batch", "q", q},
      {kV, v, 1, "kv_len", "k", k},      {kOut, out, 1, "q_len", "q", q}, {kV, v, 2, "kv_heads", "k", k},
      {kOut, out, 2, "q_heads", "q", q}, {kK, k, 3, "head_dim", "q", q},  {kOut, out, 3, "head_dim_v", "v", v}};
  for (const auto& pair : pairs) {
    Status status =
        check_equal(pair.role, pair.tensor.shape[pair.at], pair.dim, pair.other_name, pair.other.shape[pair.at]);
    if (!status.ok()) return status;
  }
  return {};
}

Status check_heads(const DLTensor& q, const DLTensor& k) {
  if (q.shape[2] % k.shape[2] == 0) return {};
  return {Code::kHeads, "k has kv_heads " + text(k.shape[2]) + ", but q has q_heads " + text(q.shape[2]) +
                            ": q_heads must be a multiple of kv_heads"};
}

Status check_lse_shape(const DLTensor& lse, const DLTensor& q) {
  Status status = check_equal(kLse, lse.shape[0], "batch", "q", q.shape[0]);
  if (status.ok()) status = check_equal(kLse, lse.shape[1], "q_heads", "q", q.shape[2]);
  if (status.ok()) status = check_equal(kLse, lse.shape[2], "q_len", "q", q.shape[1]);
  return status;
}

// ---- where tensors lie

std::string strides_text(const View& view) {
  std::string list = "(";
  for (int i = 0; i < view.rank; ++i) list += (i == 0 ? "" : ", ") + text(view.stride[i]);
  return list + ")";
}

std::string range_text(const View& view) {
  return "[" + address_text(view.first) + ", " + address_text(view.last) + ")";
}

Status read_view(const Role& role, const DLTensor& tensor, int element, View* view) {
  if (!view->read(role.name, tensor, element)) {
    return {Code::kSize, std::string(role.name) + "'s sizes times strides do not fit an address, expected sizes " +
                             role.dims + " and strides in elements"};
  }
  if (role.rank == 4 && view->last_stride != 1 && view->size[3] != 1) {
    return {Code::kStride, std::string(role.name) + "'s last stride is " + text(view->last_stride) +
                               ", expected 1: make the head dimension contiguous"};
  }
  if (tensor.data == nullptr) {
    return {Code::kNullArgument, std::string(role.name) + "'s data is NULL, expected a pointer to its elements"};
  }
  if (view->data % static_cast<std::uintptr_t>(element) == 0) return {};
  return {Code::kAlignment, std::string(role.name) + "'s data plus byte_offset is " + address_text(view->data) +
                                ", expected a multiple of " + text(element) + " bytes, the size of an element"};
}

Status check_distinct(const View& view) {
  if (view.distinct()) return {};
  return {Code::kStride,
          std::string(view.name) + " overlaps itself: strides " + strides_text(view) +
              " let two indices share an element; expected every dimension to step past the smaller ones"};
}

Status check_apart(const View& written, const View& other) {
  if (!written.touches(other)) return {};
  return {Code::kAlias, std::string(written.name) + " touches bytes " + range_text(written) + ", which overlap " +
                            other.name + "'s " + range_text(other) + ": give " + written.name + " memory of its own"};
}

struct Views {
  View q, k, v, out, lse;
};

Status check_written(const Views& views, bool lse) {
  if (Status status = check_distinct(views.out); !status.ok()) return status;
  for (const View* other : {&views.q, &views.k, &views.v}) {
    if (Status status = check_apart(views.out, *other); !status.ok()) return status;
  }
  if (!lse) return {};
  if (Status status = check_distinct(views.lse); !status.ok()) return status;
  for (const View* other : {&views.q, &views.k, &views.v, &views.out}) {
    if (Status status = check_apart(views.lse, *other); !status.ok()) return status;
  }
  return {};
}

// ---- filling the call

Status check_call(const gqa_call& call) {
  if (Status status = check_struct(call, "gqa_call"); !status.ok()) return status;
  if (!std::isfinite(call.scale) || call.scale < 0) {
    return {Code::kOption, "gqa_call.scale is " + std::to_string(call.scale) +
                               ", expected a finite number above 0, or 0 for 1/sqrt(head_dim)"};
  }
  if (call.causal != 0 && call.causal != 1) {
    return {Code::kOption, "gqa_call.causal is " + text(call.causal) + ", expected 0 or 1"};
  }
  return {};
}

Status check_all_present(const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                         const gqa_call* options) {
  Status status = check_present(kQ, q);
  if (status.ok()) status = check_present(kK, k);
  if (status.ok()) status = check_present(kV, v);
  if (status.ok()) status = check_present(kOut, out);
  if (status.ok() && options != nullptr) status = check_call(*options);
  if (status.ok() && options != nullptr && options->lse != nullptr) status = check_present(kLse, options->lse);
  return status;
}

Status check_tensors(const Device& device, const DLTensor& q, const DLTensor& k, const DLTensor& v, const DLTensor& out,
                     const DLTensor* lse, DType* dtype) {
  if (Status status = check_rank(kQ, q); !status.ok()) return status;
  if (!is_half(q.dtype, dtype)) {
    return {Code::kDtype, "q is " + dtype_text(q.dtype) + ", expected float16 or bfloat16"};
  }
  Status status = check_tensor(device, kQ, q, q.dtype);
  if (status.ok()) status = check_tensor(device, kK, k, q.dtype);
  if (status.ok()) status = check_tensor(device, kV, v, q.dtype);
  if (status.ok()) status = check_tensor(device, kOut, out, q.dtype);
  if (status.ok() && lse != nullptr) status = check_tensor(device, kLse, *lse, DLDataType{kDLFloat, 32, 1});
  if (status.ok()) status = check_shapes(q, k, v, out);
  if (status.ok()) status = check_heads(q, k);
  if (status.ok() && lse != nullptr) status = check_lse_shape(*lse, q);
  return status;
}

Status read_views(const DLTensor& q, const DLTensor& k, const DLTensor& v, const DLTensor& out, const DLTensor* lse,
                  Views* views) {
  Status status = read_view(kQ, q, 2, &views->q);
  if (status.ok()) status = read_view(kK, k, 2, &views->k);
  if (status.ok()) status = read_view(kV, v, 2, &views->v);
  if (status.ok()) status = read_view(kOut, out, 2, &views->out);
  if (status.ok() && lse != nullptr) status = read_view(kLse, *lse, 4, &views->lse);
  if (status.ok()) status = check_written(*views, lse != nullptr);
  return status;
}

void fill_problem(const Views& views, DType dtype, bool causal, bool lse, Problem* problem) {
  const auto size = [](const View& view, int at) { return static_cast<std::int32_t>(view.size[at]); };
  problem->dtype = dtype;
  problem->mask = causal ? Mask::kCausal : Mask::kNone;
  problem->lse = lse;
  problem->batch = size(views.q, 0);
  problem->q_len = size(views.q, 1);
  problem->q_heads = size(views.q, 2);
  problem->head_dim = size(views.q, 3);
  problem->kv_len = size(views.k, 1);
  problem->kv_heads = size(views.k, 2);
  problem->head_dim_v = size(views.v, 3);
  bool aligned = true, mappable = true;
  for (const View* view : {&views.q, &views.k, &views.v, &views.out}) {
    aligned = aligned && view->rows_aligned(kVectorBytes);
    mappable = mappable && view->mappable();
  }
  problem->align = aligned ? kVectorBytes : 2;
  problem->tma = aligned && mappable;
}

Strides strides(const View& view) { return {view.stride[0], view.stride[1], view.stride[2]}; }

void fill_call(const Views& views, const gqa_call* options, Call* call) {
  call->q = reinterpret_cast<const void*>(views.q.data);
  call->k = reinterpret_cast<const void*>(views.k.data);
  call->v = reinterpret_cast<const void*>(views.v.data);
  call->out = reinterpret_cast<void*>(views.out.data);
  call->q_strides = strides(views.q);
  call->k_strides = strides(views.k);
  call->v_strides = strides(views.v);
  call->out_strides = strides(views.out);
  call->lse = reinterpret_cast<float*>(views.lse.data);
  call->lse_batch_stride = views.lse.stride[0];
  call->lse_head_stride = views.lse.stride[1];
  call->lse_row_stride = views.lse.stride[2];
  const float given = options != nullptr ? options->scale : 0;
  call->scale = given != 0 ? given : 1.0f / std::sqrt(static_cast<float>(call->problem.head_dim));
  call->stream = options != nullptr ? options->stream : nullptr;
}

}  // namespace

Status make_call(const Device& device, const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                 const gqa_call* options, Call* call) {
  const GivenCall given = {q, k, v, out, options};
  if (find_recent_call(device, given, call)) return {};
  if (Status status = check_all_present(q, k, v, out, options); !status.ok()) return status;
  const DLTensor* lse = options != nullptr ? options->lse : nullptr;
  DType dtype{};
  if (Status status = check_tensors(device, *q, *k, *v, *out, lse, &dtype); !status.ok()) return status;
  Views views;
  if (Status status = read_views(*q, *k, *v, *out, lse, &views); !status.ok()) return status;
  fill_problem(views, dtype, options != nullptr && options->causal == 1, lse != nullptr, &call->problem);
  if (Status status = check(call->problem); !status.ok()) return status;
  fill_call(views, options, call);
  remember_call(given, *call);
  return {};
}

bool owned(const Device& device, DLDevice given) { return device.owns(number(given.device_type), given.device_id); }

Status check_on_device(const Device& device, const std::string& name, DLDevice given) {
  if (owned(device, given)) return {};
  return {Code::kDevice, name + " is on " + device_text(given) + ", but this handle is for " + device_text(device) +
                             ": move the tensor, or create a handle for its device"};
}

std::string address_text(std::uintptr_t address) {
  char buffer[24];
  std::snprintf(buffer, sizeof(buffer), "0x%llx", static_cast<unsigned long long>(address));
  return buffer;
}

}  // namespace gqa
