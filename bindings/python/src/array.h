// array.h: gqa.Array, host memory that speaks DLPack.
// Owns: what a call returns to callers of a framework the package does not know by name.
// Never: computes, or lives on a GPU.
// Threads: immutable but for its elements; exports keep the memory alive on their own.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "gqa.h"

namespace gqa::python {

class Array {
 public:
  Array(std::vector<int64_t> shape, int code, int bits);
  pybind11::capsule dlpack() const;
  pybind11::tuple shape() const;
  std::string dtype() const;
  static void define(pybind11::module_& module);

 private:
  std::vector<int64_t> shape_, strides_;
  DLDataType dtype_;
  std::shared_ptr<std::byte> data_;
};

}  // namespace gqa::python
