#!/usr/bin/env python3
"""Counts the test cases behind a JUnit file of ctest.

usage: count_cases.py FILE     prints "PASSED FAILED"

ctest knows programs; a Catch2 program, a Python unittest or a shell test says in its last lines how many cases it ran.
A program that failed without saying so (a crash, a time-out, one that could not be started) counts as one failed case.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

CATCH_PASSED = re.compile(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)", re.MULTILINE)
CATCH_WITHOUT_ASSERTIONS = re.compile(r"^test cases: (\d+)", re.MULTILINE)
CATCH_MIXED = re.compile(r"^test cases: +(\d+) \|", re.MULTILINE)
CATCH_FAILED = re.compile(r"^test cases: .*?(\d+) failed", re.MULTILINE)
CATCH_NONE = re.compile(r"^No tests ran", re.MULTILINE)
PYTHON_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
PYTHON_FAILED = re.compile(r"^FAILED \((?:failures=(\d+))?(?:, )?(?:errors=(\d+))?", re.MULTILINE)
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed", re.MULTILINE)


def cases_of(output: str) -> tuple[int, int] | None:
    """Passed and failed cases that a program's output states; None when it states nothing."""
    plain = PLAIN.findall(output)
    if plain:
        return int(plain[-1][0]), int(plain[-1][1])
    ran = PYTHON_RAN.search(output)
    if ran:
        failed = PYTHON_FAILED.search(output)
        count = min(int(ran.group(1)), sum(int(number or 0) for number in failed.groups())) if failed else 0
        return int(ran.group(1)) - count, count
    passed = CATCH_PASSED.search(output)
    if passed:
        return int(passed.group(1)), 0
    mixed = CATCH_MIXED.search(output)
    if mixed:
        failed = CATCH_FAILED.search(output)
        count = int(failed.group(1)) if failed else 0
        return int(mixed.group(1)) - count, count
    if CATCH_NONE.search(output):
        return 0, 0
    bare = CATCH_WITHOUT_ASSERTIONS.search(output)
    return (int(bare.group(1)), 0) if bare else None


def count(programs: list[tuple[bool, str]]) -> tuple[int, int]:
    """Sums over programs given as (succeeded, output)."""
    passed = failed = 0
    for succeeded, output in programs:
        stated = cases_of(output)
        program_passed, program_failed = stated if stated else (int(succeeded), 0)
        if not succeeded and program_failed == 0:
            program_failed = 1
        passed += program_passed
        failed += program_failed
    return passed, failed


def main(arguments: list[str]) -> int:
    tree = ElementTree.parse(arguments[0])
    programs = [(case.get("status") == "run" and case.find("failure") is None,
                 "".join(case.findtext("system-out") or "")) for case in tree.iter("testcase")]
    print(*count(programs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
