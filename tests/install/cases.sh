# Sourced by the shell tests of this folder: run_case NAME FUNCTION counts, finish_cases prints and exits.
# A case is a function; its first failing `expect_*` ends it. A case that cannot run here calls skip REASON.
# shellcheck shell=bash
passed=0
failed=0

run_case() {
  local name=$1 output rc
  output=$("$2" 2>&1)
  rc=$?
  case $rc in
    0) passed=$((passed + 1)) ;;
    77) printf 'skipped: %s: %s\n' "$name" "$output" ;;
    *)
      failed=$((failed + 1))
      printf 'FAILED: %s\n%s\n' "$name" "$output"
      ;;
  esac
}

skip() {
  echo "$*"
  exit 77
}

expect_equal() {
  [[ $1 == "$2" ]] || {
    printf '  expected: %s\n  found:    %s\n' "$2" "$1"
    exit 1
  }
}

expect_contains() {
  [[ $1 == *"$2"* ]] || {
    printf '  expected to contain: %s\n  found: %s\n' "$2" "$1"
    exit 1
  }
}

finish_cases() {
  echo "$passed passed, $failed failed"
  exit $((failed > 0 ? 1 : 0))
}
