#!/usr/bin/env python3
"""Checks from the compiler's dependency files who includes whom.

usage: layers.py [BUILD_FOLDER]     (default build/dev; it must have been built with ninja)

For every translation unit: each project header it saw, directly or through others, is of a layer that its own layer may
include; each third-party header belongs to a library that its layer may see; none saw both LibTorch and CAF. For every
file: its own #include lines name only libraries that its layer owns. Every source is in some target. layer_rules.py
holds the table. Exit 1 when something is reported.
"""

import os
import re
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import layer_rules as rules  # noqa: E402
import sources  # noqa: E402

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
DEPS_HEAD = re.compile(r"^(\S.*): #deps \d+, deps mtime \d+ \((\w+)\)$")
SHOWN_FROM_ONE_PLACE = 3  # further units that see the same header along the same way are only counted


@dataclass(frozen=True)
class Unit:
    """One translation unit: project paths are relative to the root, others absolute."""
    source: str
    project: frozenset[str]
    outside: frozenset[str]


def parse_deps(listing: str, root: str, build: str) -> list[Unit]:
    """Units of `ninja -t deps`. Generated code and outdated entries are left out."""
    units = []
    paths: list[str] = []

    def finish():
        if not paths:
            return
        inside = [os.path.relpath(path, root) for path in paths if path.startswith(root + os.sep)]
        inside = [path for path in inside if not path.startswith(("build" + os.sep, ".deps" + os.sep))]
        cpp = [path for path in inside if path.endswith((".cpp", ".cu"))]
        if cpp:
            outside = frozenset(path for path in paths if library_path(path, root))
            units.append(Unit(cpp[0], frozenset(inside), outside))

    valid = False
    for line in listing.splitlines():
        head = DEPS_HEAD.match(line)
        if head:
            finish()
            paths = []
            valid = head.group(2) == "VALID"
        elif valid and line.startswith("    "):
            paths.append(os.path.normpath(os.path.join(build, line.strip())))
    finish()
    return units


def library_path(path: str, root: str) -> bool:
    return not path.startswith(root + os.sep) or path.startswith(os.path.join(root, ".deps") + os.sep)


def includes_of(text: str) -> tuple[list[str], list[str]]:
    """The project files and the system headers that the #include lines of `text` name."""
    found = INCLUDE.findall(text)
    return [quoted for quoted, _ in found if quoted], [angled for _, angled in found if angled]


def way(graph: dict[str, list[str]], source: str, wanted: str) -> list[str]:
    """The shortest chain of includes from `source` to `wanted`, both included; empty when the texts show none."""
    before = {source: ""}
    queue = deque([source])
    while queue:
        at = queue.popleft()
        if at == wanted:
            chain = [at]
            while before[chain[-1]]:
                chain.append(before[chain[-1]])
            return chain[::-1]
        for target in graph.get(at, []):
            if target not in before:
                before[target] = at
                queue.append(target)
    return []


def check_files(texts: dict[str, str]) -> list[str]:
    """Violations in the #include lines of single files; `texts` maps project paths to contents."""
    problems = []
    for path, text in sorted(texts.items()):
        layer = rules.layer_of(path)
        quoted, angled = includes_of(text)
        for target in quoted:
            if target not in texts:
                continue
            if not rules.may_include(layer, rules.layer_of(target)):
                problems.append(f"{path} includes {target}: {layer} may not include {rules.layer_of(target)}")
        for header in quoted + angled:
            library = rules.library_of_header(header) if header not in texts else None
            if library and not rules.may_own(layer, library):
                problems.append(f"{path} includes <{header}>: {library.name} belongs to {', '.join(library.owners)}")
            elif not library and layer in rules.STANDARD_ONLY and header in angled:
                if not rules.STANDARD_HEADER.match(header):
                    problems.append(f"{path} includes <{header}>: {layer} includes the standard library only")
    return problems


def check_unit(unit: Unit, graph: dict[str, list[str]], named: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Violations of one unit as (cause, message); equal causes of several units are one finding.

    `named` maps a project file to the third-party libraries that its own #include lines name.
    """
    problems = []
    layer = rules.layer_of(unit.source)
    for header in sorted(unit.project):
        other = rules.layer_of(header)
        if not rules.may_include(layer, other):
            chain = way(graph, unit.source, header)
            if len(chain) != 2:  # a direct include is a finding of check_files
                through = " > ".join(chain[1:]) or header
                problems.append((f"{layer} {through}", f"{unit.source} sees {header}: {layer} may not include {other}"
                                                       f" (through {through})"))
    libraries = {library.name: library for library in map(rules.library_of_path, unit.outside) if library}
    for name, library in sorted(libraries.items()):
        if not rules.may_see(layer, library):
            carriers = sorted(path for path in unit.project if name in named.get(path, ()))
            if unit.source not in carriers:
                through = ", ".join(carriers) or "another library"
                problems.append((f"{layer} {name} {through}",
                                 f"{unit.source} sees {name} (through {through}): {layer} may not"))
    if "LibTorch" in libraries and "CAF" in libraries:
        problems.append((unit.source, f"{unit.source} sees both LibTorch and CAF"))
    return problems


def check(units: list[Unit], texts: dict[str, str]) -> list[str]:
    graph = {path: [target for target in includes_of(text)[0] if target in texts] for path, text in texts.items()}
    named = {path: {library.name for header in sum(includes_of(text), [])
                    if (library := rules.library_of_header(header))} for path, text in texts.items()}
    problems = check_files(texts)
    seen: dict[str, int] = {}
    for unit in sorted(units, key=lambda unit: unit.source):
        for cause, message in check_unit(unit, graph, named):
            seen[cause] = seen.get(cause, 0) + 1
            if seen[cause] <= SHOWN_FROM_ONE_PLACE:
                problems.append(message)
    problems += [f"{count - SHOWN_FROM_ONE_PLACE} more units as: {cause}"
                 for cause, count in seen.items() if count > SHOWN_FROM_ONE_PLACE]
    built = {unit.source for unit in units}
    problems += [f"{path} is in no target that was built" for path in sorted(texts)
                 if path.endswith(".cpp") and path not in built]
    return problems


def main(arguments: list[str]) -> int:
    root = Path(__file__).resolve().parents[2]
    build = (Path(arguments[0]) if arguments else root / "build" / "dev").resolve()
    if not (build / "build.ninja").is_file():
        print(f"layers: error: {build} holds no ninja build; run tools/build", file=sys.stderr)
        return 2
    listing = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], check=True, capture_output=True, text=True)
    texts = {path: (root / path).read_text(encoding="utf-8") for path in sources.cpp_files(root)}
    units = [unit for unit in parse_deps(listing.stdout, str(root), str(build)) if unit.source in texts]
    problems = check(units, texts)
    for problem in problems:
        print(f"layers: {problem}")
    print(f"layers: {len(units)} units, {len(texts)} files, {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
