// tensor_map.h: the tensor maps of a call, for kernels that load and store by TMA.
// Owns: which dimensions, strides and boxes a map has, encoding by the driver, and the maps a thread made last, each
// cached under all that it was made from, so that a model's layers find theirs (recent_maps.h).
// Never: checks alignment or strides; Problem::tma says that they will do, and the driver refuses what will not.
// Allocates and formats nothing unless it fails.
// Threads: any; the cached maps are each thread's own.
#pragma once

#include "jit/device/attention/wgmma_flash/tensor_maps.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/device.h"
#include "search/families/launch_plan.h"

namespace gqa {

// Boxes as the kernel's plan has them. Needs can_map_tensors(driver).
Status tensor_maps(const Driver& driver, const Call& call, const TensorBoxes& boxes, TensorMaps* maps);

// Ok if the driver encodes tensor maps, else what to do.
Status can_map_tensors(const Driver& driver);

}  // namespace gqa
