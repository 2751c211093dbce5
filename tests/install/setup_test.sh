#!/usr/bin/env bash
# tools/setup: does nothing when nothing is missing, says exactly what is missing, survives an interrupted run.
#
# usage: setup_test.sh BUILD_FOLDER LIBTORCH_FOLDER
# apt-get, dpkg-query and pip are replaced by scripts that write down how they were called; nothing is installed.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/install/cases.sh
source "$here/cases.sh"
root=$(cd "$here/../.." && pwd)
libtorch=$(realpath "$2")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/memopd-setup-test.XXXXXX")
chmod 755 "$scratch"
trap 'rm -rf "$scratch"' EXIT

# A copy of the scripts with its own, empty .deps, and a folder of replaced commands first in PATH.
new_project() {
  project=$(mktemp -d "$scratch/project.XXXXXX")
  chmod 755 "$project"
  mkdir -p "$project/tools" "$project/fake"
  cp "$root/tools/setup" "$root/tools/versions.env" "$project/tools/"
  calls=$project/calls
  : >"$calls"
  fake apt-get 'echo "apt-get $*" >>"$(dirname "$0")/../calls"'
  fake dpkg-query "cat \"\$(dirname \"\$0\")/../installed\""
  installed
}

fake() {
  printf '#!/bin/bash\n%s\n' "$2" >"$project/fake/$1"
  chmod 755 "$project/fake/$1"
}

# What the replaced dpkg-query reports: every pinned package but those named.
installed() {
  local entry name
  (
    # shellcheck source=tools/versions.env
    source "$root/tools/versions.env"
    for entry in "${MEMOPD_APT_PACKAGES[@]}"; do
      name=${entry%%=*}
      [[ " $* " == *" $name "* ]] || echo "$name installed ${entry#*=}-1"
    done
  ) >"$project/installed"
}

setup() { PATH="$project/fake:$PATH" "$project/tools/setup" "$@" 2>&1; }
setup_with_torch() { MEMOPD_LIBTORCH_ROOT=$libtorch setup; }

# Runs a command as a user that owns nothing.
as_nobody() {
  if ((EUID != 0)); then
    "$@"
  else
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
  fi
}

need_root() { ((EUID == 0)) || skip "needs root"; }
need_nobody() {
  as_nobody test -r "$libtorch/torch/lib/libtorch_cpu.so" 2>/dev/null || skip "other users cannot read $libtorch"
}

# pip as the wheels' installer: `broken` leaves half of the files behind and fails.
fake_pip() {
  fake python3 '
[[ $* == "-m pip --version" ]] && exit 0
echo "python3 $*" >>"$(dirname "$0")/../calls"
while [[ $1 != --target ]]; do shift; done
target=$2
mkdir -p "$target/torch/lib"
touch "$target/torch/lib/libtorch_cpu.so"
[[ '"$1"' == broken ]] && { echo "no space left on device"; exit 1; }
for wheel in "${@:3}"; do
  folder=$target/${wheel//-/_}
  folder=${folder/==/-}.dist-info
  mkdir -p "$folder" && touch "$folder/RECORD"
done'
}

does_nothing_when_nothing_is_missing() {
  new_project
  fake_pip working
  local output
  output=$(setup_with_torch) || exit 1
  expect_equal "$output" "setup: everything is in place"
  expect_equal "$(cat "$calls")" ""
  [[ ! -e $project/.deps ]]
}

works_without_root_when_nothing_is_missing() {
  need_nobody
  new_project
  local output
  output=$(PATH="$project/fake:$PATH" as_nobody env MEMOPD_LIBTORCH_ROOT="$libtorch" "$project/tools/setup" 2>&1) || {
    echo "$output"
    exit 1
  }
  expect_equal "$output" "setup: everything is in place"
}

names_the_command_when_root_is_needed() {
  need_nobody
  new_project
  installed libcaf-dev libzstd-dev
  local output
  output=$(PATH="$project/fake:$PATH" as_nobody env MEMOPD_LIBTORCH_ROOT="$libtorch" "$project/tools/setup" 2>&1)
  expect_equal "$?" 1
  expect_contains "$output" "2 Debian packages are missing and this is not root; run"
  expect_contains "$output" \
    "sudo apt-get update && sudo apt-get install -y --no-install-recommends libcaf-dev libzstd-dev"
}

installs_exactly_what_is_missing() {
  need_root
  new_project
  installed libcaf-dev libzstd-dev
  setup_with_torch >/dev/null || exit 1
  expect_equal "$(cat "$calls")" "apt-get update
apt-get install -y --no-install-recommends libcaf-dev libzstd-dev"
}

a_failing_apt_is_reported_with_its_words() {
  need_root
  new_project
  installed libcaf-dev
  fake apt-get '[[ $1 == update ]] || { echo "E: Unable to locate package libcaf-dev"; exit 100; }'
  local output
  output=$(setup_with_torch)
  expect_equal "$?" 1
  expect_contains "$output" "apt-get install -y --no-install-recommends libcaf-dev failed"
  expect_contains "$output" "E: Unable to locate package libcaf-dev"
}

another_upstream_version_is_noted() {
  new_project
  sed -i 's/^libcaf-dev installed .*/libcaf-dev installed 0.18.7-1/' "$project/installed"
  local output
  output=$(setup_with_torch) || exit 1
  expect_contains "$output" "note: libcaf-dev is 0.18.7-1; tested with 0.17.6"
}

an_interrupted_unpacking_leaves_nothing_and_the_next_run_completes() {
  new_project
  fake_pip broken
  local output
  output=$(setup)
  expect_equal "$?" 1
  expect_contains "$output" "no space left on device"
  expect_equal "$(cd "$project/.deps" && echo libtorch*)" "libtorch*"
  mkdir "$project/.deps/libtorch.partial.1"  # as a killed run leaves it

  fake_pip working
  setup >/dev/null || exit 1
  expect_equal "$(cd "$project/.deps" && echo libtorch*)" "libtorch"

  : >"$calls"
  expect_equal "$(setup)" "setup: everything is in place"
  expect_equal "$(cat "$calls")" ""
}

another_pinned_version_replaces_the_folder() {
  new_project
  fake_pip working
  setup >/dev/null || exit 1
  sed -i 's/torch==2.11.0/torch==2.99.0/' "$project/tools/versions.env"
  setup >/dev/null || exit 1
  expect_equal "$(cd "$project/.deps/libtorch" && echo torch-*)" "torch-2.99.0.dist-info"
}

check_changes_nothing() {
  new_project
  installed libcaf-dev
  fake_pip working
  local output
  output=$(setup --check)
  expect_equal "$?" 1
  expect_contains "$output" "1 Debian packages are missing"
  expect_equal "$(cat "$calls")" ""
}

an_unknown_argument_is_refused() {
  new_project
  local output
  output=$(setup --fast)
  expect_equal "$?" 1
  expect_equal "$output" "setup: error: unknown argument '--fast'; allowed: --check, --help"
}

run_case "nothing missing: nothing is done" does_nothing_when_nothing_is_missing
run_case "nothing missing: works without root" works_without_root_when_nothing_is_missing
run_case "packages missing without root: names them and the command" names_the_command_when_root_is_needed
run_case "packages missing: installs exactly these" installs_exactly_what_is_missing
run_case "apt fails: its words are shown" a_failing_apt_is_reported_with_its_words
run_case "another upstream version is noted" another_upstream_version_is_noted
run_case "interrupted: nothing half, the next run completes" \
  an_interrupted_unpacking_leaves_nothing_and_the_next_run_completes
run_case "another pinned wheel replaces the folder" another_pinned_version_replaces_the_folder
run_case "--check changes nothing" check_changes_nothing
run_case "an unknown argument is refused" an_unknown_argument_is_refused
finish_cases
