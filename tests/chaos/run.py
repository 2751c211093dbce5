#!/usr/bin/env python3
"""Kills, freezes and attacks real runs and says what was observed.

usage: run.py [--seed N] [--write] [CASE]...    (default: every case; --list names them)

--write replaces the table in README.md. Exit 1 when a guarantee was broken.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from cases import CASES, seeded
from chaos_run import ChaosError, Run, check

README = Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def write_table(rows):
    text = README.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    lines = ["", "| case | guarantee | observed |", "|---|---|---|"]
    lines += [f"| {name} | {guarantee} | {observed} |" for name, guarantee, observed in rows]
    README.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(CASES))
        return 0
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        print(f"chaos: no case named {unknown[0]!r}; --list names them", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="memopd-chaos-"))
    began = time.monotonic()
    undisturbed = Run(folder, "undisturbed").start()
    check(undisturbed.wait() == 0, f"the undisturbed run failed: {undisturbed.last_words()}")
    print(f"undisturbed: {time.monotonic() - began:.0f} s, {undisturbed.weights()}", flush=True)
    rows, num_broken = [], 0
    for name in arguments.cases or CASES:
        case = CASES[name]
        try:
            observed = case(folder, undisturbed, seeded(arguments.seed, name))
        except ChaosError as error:
            observed = f"BROKEN: {error}"
            num_broken += 1
        observed = observed.replace(str(folder), "RUNS")
        rows.append((name, case.guarantee, observed))
        print(f"{name}: {observed}", flush=True)
    if arguments.write:
        write_table(rows)
    if num_broken == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"runs are kept in {folder}")
    print(f"{len(rows)} cases, {num_broken} broken, seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    return 1 if num_broken else 0


if __name__ == "__main__":
    sys.exit(main())
