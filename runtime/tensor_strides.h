// tensor_strides.h: strides as kernels take them.
// Owns: the conversion of the runtime's Strides into the device's TensorStrides.
// Threads: a pure function.
#pragma once

#include "jit/device/attention/common/params.h"
#include "runtime/program.h"

namespace gqa {

inline TensorStrides tensor_strides(const Strides& s) { return {s.batch, s.row, s.head}; }

}  // namespace gqa
