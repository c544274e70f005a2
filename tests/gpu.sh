#!/usr/bin/env bash
# gpu.sh: the tests that need a GPU, on a machine that may have nothing but a GPU, a driver and Python; see
# docs/testing.md. tools/test --gpu calls it.
# Owns: running the C++ tests side by side (most of their time is compilation, on the processor's cores; a kernel that
# several tests want is compiled once, into build/gpu/kernels.db), and those of the Python package beside them; what each
# took, in build/gpu/seconds.txt.
# Never: builds the library, installs outside build/gpu, reaches a network.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/gpu.sh [PART/OF] [--help]

Runs the tests that need a GPU with what is built in build/release; prints what each took and writes that to
build/gpu/seconds.txt.

  PART/OF  only those of one part; the parts take alike long by tests/gpu_seconds.txt (1/1)

  example, after parts 1/2 and 2/2, whose seconds.txt were put aside:
    tests/gpu_parts.py merge seconds1.txt seconds2.txt >tests/gpu_seconds.txt
TEXT
}

part=${1:-1/1}
case $part in
  -h | --help) usage; exit 0 ;;
  -*) printf 'gpu: unknown option %s\n' "$part" >&2; usage >&2; exit 2 ;;
esac
(($# < 2)) || { printf 'gpu: one part at most, given: %s\n' "$*" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=build/release/tests/runtime/runtime_gpu_tests
results=build/gpu/results
jobs=$(($(nproc) / 2 > 8 ? 8 : $(nproc) / 2 + 1)) # each compiles on all cores
die() { printf 'gpu: %s\n' "$*" >&2; exit 1; }

python3 tests/gpu_parts.py part "$part" </dev/null >/dev/null || exit 2
[[ -x $program ]] || die "$program is not built; build it (tools/test --gpu-build) or copy build/release here"
"$program" --gtest_list_tests >/dev/null || die "$program does not start here; see the line above"
rm -rf "$results"
mkdir -p "$results"
export GQA_TEST_KERNELS=$PWD/build/gpu/kernels.db

# One test in a process of its own, so that a fault that takes the context with it is that test's alone.
# shellcheck disable=SC2317  # called by the shells that xargs starts
one() {
  local started=${EPOCHREALTIME/[^0-9]/} status=0 left=$3/${2//\//.} took
  "$1" --gtest_brief=1 "--gtest_filter=$2" "--gtest_output=json:$left.json" >"$left.log" 2>&1 || status=$?
  [[ -f $left.json ]] || echo failed >"$left.stage"
  if ((status)); then cat "$left.log"; fi
  took=$(((${EPOCHREALTIME/[^0-9]/} - started) / 100000)) # tenths of a second
  if ((!status)); then echo "$((took / 10)).$((took % 10)) $2" >"$left.seconds"; fi
  printf '%-8s %4d s  %s\n' "$( ((status)) && echo failed || echo ok)" $((took / 10)) "$2"
  return "$status"
}
export -f one

tests_of() { "$1" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }'; }

# This part's of the names on stdin, the longest first.
ours() { python3 tests/gpu_parts.py part "$part"; }

run_tests() { xargs -P "$1" -I '{}' bash -c 'one "$@"' one "$program" '{}' "$results"; }

has_python() { python3 -c 'import torch, numpy, pytest, pybind11, scikit_build_core' 2>/dev/null; }

# The package around what is built: only its small extension is compiled, for this Python.
package() {
  python3 -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --upgrade \
    --target build/gpu/site --config-settings=cmake.define.GQA_BUILT="$PWD/build/release" .
}

# This part's Python tests of the given marks; that there are none is no failure.
python_tests() {
  local status=0
  PATH=$PWD/build/gpu/site/bin:$PATH PYTHONPATH=$PWD/build/gpu/site python3 -m pytest tests/python -m "$1" \
    --part "$part" -q -ra --junitxml="$results/$2.xml" || status=$?
  ((status == 0 || status == 5))
}

python_beside() { package && python_tests 'gpu and not times_cpu' python; }

failed=0
python=
if has_python; then
  python_beside >build/gpu/python.log 2>&1 &
  python=$!
else
  echo "gpu: the Python tests are left out: they need torch, numpy, pytest, pybind11, scikit-build-core and CMake"
fi
# Those that take the GPU's memory, or measure how much of it is free, run alone, after all others; so do Python tests
# that time the processor, which the compilers of the others keep busy.
alone='^ShortMemory\.|Behind$'
tests_of "$program" | grep -vE "$alone" | ours | run_tests "$jobs" || failed=1
if [[ -n $python ]]; then
  wait "$python" || failed=1
  cat build/gpu/python.log
fi
tests_of "$program" | grep -E "$alone" | ours | run_tests 1 || failed=1
if [[ -n $python ]]; then python_tests 'gpu and times_cpu' python_alone || failed=1; fi
echo "gpu: seconds of each test that passed (build/gpu/seconds.txt)"
python3 tests/gpu_parts.py took "$results" | tee build/gpu/seconds.txt
exit $failed
