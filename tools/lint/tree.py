#!/usr/bin/env python3
"""Checks the names and sizes of the project's files, and lists the user pains that no test carries.

usage: tree.py

Errors: a top-level entry beyond the agreed ones; a file or type whose name says nothing; a header or source above
MAX_LINES. Warnings: a header above 150 or a source above 400 lines without a comment line `// Length: <reason>`.
Exit 1 on errors.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import sources  # noqa: E402

TOP_LEVEL = {"CMakeLists.txt", "actors", "runtime", "policies", "envs", "configs", "tests", "tools", "README.md"}
EMPTY_WORDS = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}
TYPE_NAME = re.compile(r"^[ \t]*(?:template <.*> )?(?:class|struct|union|enum(?: class)?|namespace|using|concept) (\w+)",
                       re.MULTILINE)
LINE_LIMITS = {".hpp": 150, ".cpp": 400}
MAX_LINES = 600
LENGTH_REASON = re.compile(r"^// Length: \S", re.MULTILINE)
PAIN_TAG = re.compile(r"\[pain:([TL]\d\d)\]")
PAINS = [f"T{number:02}" for number in range(1, 33)] + [f"L{number:02}" for number in range(1, 19)]


def words(name: str) -> list[str]:
    """The lower-case words of a snake_case or PascalCase name."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def check_top_level(paths: list[str]) -> list[str]:
    entries = {path.split("/")[0] for path in paths}
    return [f"{entry}: not an agreed top-level entry ({', '.join(sorted(TOP_LEVEL))}, dot-files)"
            for entry in sorted(entries) if entry not in TOP_LEVEL and not entry.startswith(".")]


def check_names(paths: list[str], texts: dict[str, str]) -> list[str]:
    """Any word of a file or folder name counts; of a type's name the last one, which says what it is."""
    problems = [f"{path}: a file name says what it holds, not '{word}'"
                for path in paths for word in sorted(EMPTY_WORDS.intersection(words(path)))]
    for path, text in sorted(texts.items()):
        for name in TYPE_NAME.findall(text):
            last = (words(name) or [""])[-1]
            if last in EMPTY_WORDS:
                problems.append(f"{path}: {name}: a type's name says what it is, not '{last}'")
    return problems


def check_sizes(texts: dict[str, str]) -> tuple[list[str], list[str]]:
    """Errors and warnings."""
    errors, warnings = [], []
    for path, text in sorted(texts.items()):
        count = text.count("\n")
        limit = LINE_LIMITS[Path(path).suffix]
        if count > MAX_LINES:
            errors.append(f"{path}: {count} lines exceed {MAX_LINES}")
        elif count > limit and not LENGTH_REASON.search(text):
            warnings.append(f"{path}: {count} lines exceed {limit} without a line '// Length: <reason>'")
    return errors, warnings


def untested_pains(texts: dict[str, str]) -> list[str]:
    tagged = {tag for path, text in texts.items() if path.endswith("_test.cpp") for tag in PAIN_TAG.findall(text)}
    return [pain for pain in PAINS if pain not in tagged]


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    paths = sources.project_files(root)
    texts = {path: (root / path).read_text(encoding="utf-8") for path in sources.cpp_files(root)}
    size_errors, warnings = check_sizes(texts)
    errors = check_top_level(paths) + check_names(paths, texts) + size_errors
    for error in errors:
        print(f"tree: {error}")
    for warning in warnings:
        print(f"tree: warning: {warning}")
    missing = untested_pains({path: text for path, text in texts.items() if path.startswith("tests/")})
    print(f"tree: {len(PAINS) - len(missing)} of {len(PAINS)} user pains carried by a test; not yet: "
          f"{' '.join(missing) or 'none'}")
    print(f"tree: {len(paths)} files, {len(errors)} errors, {len(warnings)} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
