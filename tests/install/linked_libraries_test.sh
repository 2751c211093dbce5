#!/usr/bin/env bash
# What the programs of a build load: everything is found, nothing comes from a CUDA folder of the machine, no Python.
#
# usage: linked_libraries_test.sh BUILD_FOLDER LIBTORCH_FOLDER
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/install/cases.sh
source "$here/cases.sh"
bin=$1/bin
libtorch=$(realpath "$2")
cuda_library='(^|/)lib(cu[a-z]+|nv[a-z]+|nccl|cudart|cupti|torch_cuda|c10_cuda)[-.][^/]*$|/cuda[^/]*/|/nvidia/'

libraries_of() { env -u LD_LIBRARY_PATH -u LD_PRELOAD ldd "$1" 2>&1; }

everything_is_found() {
  expect_equal "$(libraries_of "$program" | grep -F 'not found')" ""
}

cuda_comes_from_the_project() {
  local path strangers=""
  while read -r path; do
    [[ $(realpath "$path") == "$libtorch"/* ]] || strangers+="$path "
  done < <(libraries_of "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -E "$cuda_library")
  expect_equal "$strangers" ""
}

python_is_not_loaded() {
  expect_equal "$(libraries_of "$program" | grep -E 'libpython|libtorch_python')" ""
}

the_shipped_programs_exist() {
  for name in memopd memopd-cluster; do
    [[ -x $bin/$name ]] || {
      echo "  $bin/$name is missing"
      exit 1
    }
  done
}

run_case "memopd and memopd-cluster are built" the_shipped_programs_exist
for program in "$bin"/*; do
  [[ -f $program && -x $program ]] || continue
  name=$(basename "$program")
  run_case "$name finds every library" everything_is_found
  run_case "$name takes CUDA libraries from the project's folder only" cuda_comes_from_the_project
  run_case "$name loads no Python" python_is_not_loaded
done
finish_cases
