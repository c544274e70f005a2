#!/usr/bin/env bash
# gpu.sh: the tests that need a GPU, on a machine that may have nothing but a GPU, a driver and Python; see
# docs/benchmarking.md. tools/test --gpu calls it.
# Owns: running the C++ tests side by side (most of their time is compilation, on the processor's cores; a kernel that
# several tests want is compiled once, into build/gpu/kernels.db), and those of the Python package beside them.
# Never: builds the library, installs outside build/gpu, reaches a network.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=build/release/tests/runtime/runtime_gpu_tests
results=build/gpu/results
jobs=$(($(nproc) / 2 > 8 ? 8 : $(nproc) / 2 + 1)) # each compiles on all cores
die() { printf 'gpu: %s\n' "$*" >&2; exit 1; }

[[ -x $program ]] || die "$program is not built; build it (tools/test --gpu-build does) or copy build/release here"
"$program" --gtest_list_tests >/dev/null || die "$program does not start here; see the line above"
rm -rf "$results"
mkdir -p "$results"
export GQA_TEST_KERNELS=$PWD/build/gpu/kernels.db

# One test in a process of its own, so that a fault that takes the context with it is that test's alone.
one() {
  local started=$SECONDS status=0 left=$3/${2//\//.}
  "$1" --gtest_brief=1 "--gtest_filter=$2" "--gtest_output=json:$left.json" >"$left.log" 2>&1 || status=$?
  [[ -f $left.json ]] || echo failed >"$left.stage"
  if ((status)); then cat "$left.log"; fi
  printf '%-8s %4d s  %s\n' "$( ((status)) && echo failed || echo ok)" $((SECONDS - started)) "$2"
  return "$status"
}
export -f one

tests_of() { "$1" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }'; }

# The package around what is built: only its small extension is compiled, for this Python.
python_tests() {
  python3 -c 'import torch, numpy, pytest, pybind11, scikit_build_core' 2>/dev/null || {
    echo "gpu: the Python tests are left out: they need torch, numpy, pytest, pybind11, scikit-build-core and CMake"
    return 0
  }
  python3 -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --upgrade \
    --target build/gpu/site --config-settings=cmake.define.GQA_BUILT="$PWD/build/release" . || return 1
  PATH=$PWD/build/gpu/site/bin:$PATH PYTHONPATH=$PWD/build/gpu/site python3 -m pytest tests/python -m gpu -q -ra \
    --junitxml="$results/python.xml"
}

run_tests() { xargs -P "$1" -I '{}' bash -c 'one "$@"' one "$program" '{}' "$results"; }

failed=0
python_tests >build/gpu/python.log 2>&1 &
python=$!
# The longest stand last in the program, and start first. Those that take the GPU's memory, or measure how much of it is
# free, run alone, after all others.
alone='^ShortMemory\.|Behind$'
tests_of "$program" | tac | grep -vE "$alone" | run_tests "$jobs" || failed=1
wait "$python" || failed=1
cat build/gpu/python.log
tests_of "$program" | grep -E "$alone" | run_tests 1 || failed=1
exit $failed
