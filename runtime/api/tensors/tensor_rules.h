// tensor_rules.h: the rules that one DLTensor obeys, whatever call it is of.
// Owns: what a tensor is (there, rank, dtype, device, sizes), how a size agrees with another tensor's, where a tensor
// lies (strides, alignment, overlap), and the message of each refusal.
// Never: knows a call; operands.h and args.cc do. Nothing is allocated or formatted unless it is refused.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/api/gqa.h"
#include "runtime/call/roles.h"
#include "runtime/call/view.h"
#include "runtime/device.h"
#include "search/status.h"

namespace gqa {

// How messages call a tensor, and the form that it should have.
struct Expected {
  const char* name;
  const Form& form;
};

Status check_present(const Expected& expected, const DLTensor* tensor);
Status check_rank(const Expected& expected, const DLTensor& tensor);
// Rank, dtype, device and sizes; `why` begins what is said of the dtype expected. rowless: what counts rows may be 0.
Status check_tensor(const Device& device, const Expected& expected, const DLTensor& tensor, DLDataType dtype,
                    const char* why = ", expected ", bool rowless = false);

// Two dimensions that must be equal: "k has batch 3, but q has batch 2: they must be equal".
Status check_equal(const char* name, std::int64_t size, const char* dim, const char* other, std::int64_t expected);

// Reads a tensor that check_tensor() let pass.
Status read_view(const Expected& expected, const DLTensor& tensor, View* view);
Status check_distinct(const View& view);
Status check_apart(const View& written, const View& other);

bool owned(const Device& device, DLDevice given);
// kDevice unless the device may use such a tensor; `name` begins the message.
Status check_on_device(const Device& device, const std::string& name, DLDevice given);

std::string address_text(std::uintptr_t address);  // as 0x7f00

// Whether a factor or a bound, which 0 leaves out, is 0, or finite, positive and no smaller than kernels know it: they
// take subnormal numbers for 0.
bool is_zero_or_normal(float number);
std::string float_text(float number);  // as 1e-20

}  // namespace gqa
