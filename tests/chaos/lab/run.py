#!/usr/bin/env python3
"""Runs over three hosts of a laboratory, killed, cut, slowed and attacked; says what was observed. Needs root.

usage: run.py [--seed N] [--write] [CASE]...    (default: every case; --list names them)

--write replaces the table in tests/chaos/README.md. Exit 1 when a guarantee was broken, 0 with a reason when there can be no
laboratory here.
"""

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab as laboratory  # noqa: E402
from case_table import choose, write_table  # noqa: E402
from chaos_run import ChaosError, Run, check  # noqa: E402
from lab_cases import CASES  # noqa: E402
from lab_run import give_inputs, make_lab  # noqa: E402


class Labs:
    """One laboratory for as many cases as leave it whole."""

    def __init__(self, folder):
        self.folder, self.lab = folder, None

    def get(self):
        if self.lab is None:
            self.lab = make_lab(self.folder)
            self.lab.__enter__()
            give_inputs(self.lab)
        return self.lab

    def close(self):
        if self.lab is not None:
            self.lab.close()
        self.lab = None


def run_case(labs, name, undisturbed, seed):
    case = CASES[name]
    try:
        observed = case(labs.get(), labs.folder, undisturbed, random.Random(f"{seed}/{name}"))
        is_broken = False
    except (ChaosError, OSError, RuntimeError) as error:
        observed, is_broken = f"BROKEN: {error}", True
    if is_broken or case.is_last:
        labs.close()
    return observed.replace(str(labs.folder), "RUNS"), is_broken


def main():
    arguments = choose(__doc__, CASES)
    if reason := laboratory.missing():
        print(f"lab: skipped: {reason}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="memopd-lab-"))
    began = time.monotonic()
    undisturbed = Run(folder, "undisturbed").start()
    check(undisturbed.wait() == 0, f"the undisturbed run failed: {undisturbed.last_words()}")
    print(f"undisturbed, on this host: {time.monotonic() - began:.0f} s, {undisturbed.weights()}", flush=True)
    rows, num_broken, labs = [], 0, Labs(folder)
    try:
        for name in arguments.cases:
            observed, is_broken = run_case(labs, name, undisturbed, arguments.seed)
            num_broken += is_broken
            rows.append((name, CASES[name].guarantee, observed))
            print(f"{name}: {observed}", flush=True)
    finally:
        labs.close()
    if arguments.write:
        write_table(rows, "lab table")
    if num_broken == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"runs are kept in {folder}")
    print(f"{len(rows)} cases, {num_broken} broken, seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    return 1 if num_broken else 0


if __name__ == "__main__":
    sys.exit(main())
