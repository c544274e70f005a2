#!/usr/bin/env bash
# doors.sh: the Python tests that need PyTorch, where PyTorch is and no GPU; the stage doors of tools/test.
# Owns: build/doors, a venv with the versions of tests/python/doors.txt, and which files are run in it.
# Never: skips a test for want of PyTorch (there it fails: GQA_REQUIRE_TORCH); uses a GPU; builds the library.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/doors.sh [--install | RESULTS.xml] [--help]

Runs those files of tests/python that leave tests out where PyTorch is missing, and README's example with PyTorch, with the
PyTorch, transformers and diffusers of tests/python/doors.txt, on the package around what build/release has. Tests that
need a GPU are skipped by name.

  --install    no more than make build/doors as doors.txt says: at once where it is so already, else 2.5 GB to download
               and 4 GB on the disk
  RESULTS.xml  where the results go, as pytest's --junitxml writes them (build/doors.xml)

  example: tests/doors.sh --install && tests/doors.sh build/results/doors.xml
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=build/doors
list=tests/python/doors.txt
python=$venv/bin/python
die() { printf 'doors: %s\n' "$*" >&2; exit 1; }

# What the venv is made of; pip knows nothing of a list.
made_of() { python3 --version; cat "$list"; }

# Nothing is kept in pip's cache, which would double what is written, nor compiled, of which little is ever imported.
install() {
  local started=$SECONDS
  if made_of | cmp -s - "$venv/made_of"; then return 0; fi
  python3 -m venv --clear "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps -r "$list"
  made_of >"$venv/made_of"
  printf 'doors: installed in %d s, %d MB\n' $((SECONDS - started)) "$(du -sm "$venv" | cut -f 1)"
}

package() {
  [[ -f build/release/libgqa.so && -x build/release/gqa-cache ]] || die "build/release has no libgqa.so and gqa-cache"
  "$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps --no-build-isolation \
    --config-settings=cmake.define.GQA_BUILT="$PWD/build/release" .
}

run_tests() {
  local files
  mapfile -t files < <(grep -rlE --include='test_*.py' 'importorskip\("(torch|gqa\.bench)' tests/python | LC_ALL=C sort)
  ((${#files[@]})) || die "no file of tests/python asks for PyTorch"
  CUDA_VISIBLE_DEVICES=-1 GQA_REQUIRE_TORCH=1 "$python" -m pytest "${files[@]}" -ra --junitxml="$1"
  CUDA_VISIBLE_DEVICES=-1 "$python" tests/readme.py torch "$python" .
}

results=build/doors.xml
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  --install) only_install=1 ;;
  -*) printf 'doors: unknown option %s\n' "$1" >&2; usage >&2; exit 2 ;;
  ?*) results=$1 ;;
esac
(($# < 2)) || { printf 'doors: one argument at most, given: %s\n' "$*" >&2; exit 2; }
install
[[ -z ${only_install:-} ]] || exit 0
package
run_tests "$results"
