#!/usr/bin/env python3
"""Applies each tests/mutants/<name>.patch to a copy of the tree and demands that the test it names fails.

usage: mutants.py [NAME]...     (default: all)

A patch starts with lines `# test: <program> [tag]`. In the untouched copy that program must pass with at least one test
of that tag; with the patch it must fail. The copy, build/mutants, holds the tree as it lies here, committed or not, and
is kept, so that a second run compiles little. The last line is `N passed, M failed`.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lint"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import sources  # noqa: E402
from count_cases import cases_of  # noqa: E402

TEST_LINE = re.compile(r"^# test: (\w+) (\[\S+\])\s*$", re.MULTILINE)
TEST_TIMEOUT_S = 300


class Problem(Exception):
    """Why a mutant says nothing about the tests."""


@dataclass(frozen=True)
class Mutant:
    name: str
    patch: Path
    tests: tuple[tuple[str, str], ...]  # (program, tag)


class Copy:
    """A second tree with its own build folder."""

    def __init__(self, root: Path):
        self.root = root
        self.tree = root / "build" / "mutants"
        self.build = self.tree / "build" / "dev"

    def refresh(self) -> None:
        """Makes the copy equal to the tree; files that are equal keep their time, so nothing is rebuilt for them."""
        wanted = set(sources.project_files(self.root))
        self.tree.mkdir(parents=True, exist_ok=True)
        for folder, names, files in os.walk(self.tree):
            here = Path(folder)
            if here == self.tree:
                names[:] = [name for name in names if name not in ("build", ".deps")]
            for name in files:
                if str((here / name).relative_to(self.tree)) not in wanted:
                    (here / name).unlink()
        for path in wanted:
            source, target = self.root / path, self.tree / path
            content = source.read_bytes()
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                shutil.copymode(source, target)
        link = self.tree / ".deps"
        if not link.is_symlink():
            link.symlink_to(self.root / ".deps")

    def configure(self) -> None:
        if not (self.build / "build.ninja").is_file():
            run(["cmake", "-S", str(self.tree), "-B", str(self.build), "-G", "Ninja",
                 "-C", str(self.tree / "tools/cmake/presets/dev.cmake")], "cmake could not configure the copy")

    def make(self, programs: list[str]) -> None:
        run(["ninja", "-C", str(self.build), "-j", str(len(os.sched_getaffinity(0))), *programs], "it does not build")

    def apply(self, patch: Path) -> None:
        run(["patch", "-p1", "--batch", "--forward", "--no-backup-if-mismatch", "-r", "-", "-d", str(self.tree),
             "-i", str(patch)], "the patch does not apply")

    def test(self, program: str, tag: str) -> tuple[bool, str]:
        """Whether the program passed, and its output. Never coming back is not passing."""
        try:
            result = subprocess.run([str(self.build / "bin" / program), tag], cwd=self.build, capture_output=True,
                                    text=True, errors="replace", timeout=TEST_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return False, f"no end after {TEST_TIMEOUT_S} s"
        return result.returncode == 0, result.stdout + result.stderr


def run(command: list[str], complaint: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if result.returncode:
        tail = "\n".join("    " + line for line in (result.stdout + result.stderr).strip().splitlines()[-12:])
        raise Problem(f"{complaint}\n{tail}")


def read_mutants(folder: Path, names: list[str]) -> list[Mutant]:
    mutants = []
    for patch in sorted(folder.glob("*.patch")):
        if names and patch.stem not in names:
            continue
        tests = tuple(TEST_LINE.findall(patch.read_text(encoding="utf-8").split("\n--- ")[0]))
        mutants.append(Mutant(patch.stem, patch, tests))
    unknown = sorted(set(names) - {mutant.name for mutant in mutants})
    if unknown:
        raise Problem(f"no tests/mutants/{unknown[0]}.patch")
    return mutants


def untouched_passes(copy: Copy, mutant: Mutant) -> None:
    if not mutant.tests:
        raise Problem("it has no line '# test: <program> [tag]'")
    copy.make(sorted({program for program, _ in mutant.tests}))
    for program, tag in mutant.tests:
        passed, output = copy.test(program, tag)
        if not passed:
            raise Problem(f"{program} {tag} fails without the patch")
        if (cases_of(output) or (0, 0))[0] == 0:
            raise Problem(f"{program} has no test tagged {tag}")


def is_noticed(copy: Copy, mutant: Mutant) -> list[str]:
    """The tests that pass in spite of the patch."""
    copy.apply(mutant.patch)
    copy.make(sorted({program for program, _ in mutant.tests}))
    return [f"{program} {tag}" for program, tag in mutant.tests if copy.test(program, tag)[0]]


def main(names: list[str]) -> int:
    root = Path(__file__).resolve().parents[2]
    copy = Copy(root)
    passed = failed = 0
    try:
        mutants = read_mutants(root / "tests" / "mutants", names)
        copy.refresh()
        copy.configure()
    except Problem as problem:
        print(f"mutants: error: {problem}")
        print("0 passed, 1 failed")
        return 1
    width = max((len(mutant.name) for mutant in mutants), default=0)
    for mutant in mutants:
        started = time.monotonic()
        try:
            copy.refresh()
            untouched_passes(copy, mutant)
            survivors = is_noticed(copy, mutant)
            verdict = "survives " + ", ".join(survivors) if survivors else "noticed"
        except Problem as problem:
            survivors, verdict = ["problem"], f"error: {problem}"
        failed += bool(survivors)
        passed += not survivors
        tests = " ".join(f"{program} {tag}" for program, tag in mutant.tests)
        print(f"{mutant.name:{width}}  {time.monotonic() - started:5.0f} s  {tests}  {verdict}", flush=True)
    copy.refresh()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
