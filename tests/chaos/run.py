#!/usr/bin/env python3
"""Kills, freezes and attacks real runs and says what was observed.

usage: run.py [--seed N] [--write] [CASE]...    (default: every case; --list names them)

--write replaces the table in README.md. Exit 1 when a guarantee was broken.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from case_table import choose, write_table
from cases import CASES, seeded
from chaos_run import ChaosError, Run, check


def main():
    arguments = choose(__doc__, CASES)
    folder = Path(tempfile.mkdtemp(prefix="memopd-chaos-"))
    began = time.monotonic()
    undisturbed = Run(folder, "undisturbed").start()
    check(undisturbed.wait() == 0, f"the undisturbed run failed: {undisturbed.last_words()}")
    print(f"undisturbed: {time.monotonic() - began:.0f} s, {undisturbed.weights()}", flush=True)
    rows, num_broken = [], 0
    for name in arguments.cases:
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
        write_table(rows, "table")
    if num_broken == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"runs are kept in {folder}")
    print(f"{len(rows)} cases, {num_broken} broken, seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    return 1 if num_broken else 0


if __name__ == "__main__":
    sys.exit(main())
