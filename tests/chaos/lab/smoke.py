#!/usr/bin/env python3
"""One small run over three hosts, one of which is cut off and another of whose processes is killed: part of the ordinary
tests where a laboratory is possible. usage: smoke.py"""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import lab as laboratory  # noqa: E402
from case_table import run_as_test  # noqa: E402
from chaos_run import Run, check, check_same  # noqa: E402
from lab_run import LabRun, give_inputs, make_lab  # noqa: E402

# Far, on a machine whose cores are shared; the cut host is declared dead all the same.
PATIENT = {"net.dead_after_ms": 6000, "net.lease_ms": 8000}


def smoke(folder):
    undisturbed = Run(folder, "undisturbed", num_steps=4, settings=PATIENT).start()
    check(undisturbed.wait() == 0, f"the undisturbed run failed: {undisturbed.last_words()}")
    with make_lab(folder) as lab:
        give_inputs(lab)
        run = LabRun(lab, folder, "disturbed", num_steps=4, settings=PATIENT).start()
        run.wait_for_step(1)
        run.signal("student/1", signal.SIGKILL)
        run.wait_for_step(2)
        there = run.names_on("h2")
        lab.cut("h2")
        code = run.wait()
        check(code == 0, f"exit code {code}: {run.last_words()}")
        check_same(run, undisturbed)
        moved = sorted(e["fields"]["process"] for e in run.events("process_moved"))
        check(moved == sorted(there), f"moved: {moved}, were on h2: {there}")
    return "three hosts, one kill, one cut: as undisturbed"


def main():
    if reason := laboratory.missing():
        print(f"lab smoke: skipped: {reason}\n1 passed, 0 failed")
        return 0
    return run_as_test("lab smoke", smoke)


if __name__ == "__main__":
    sys.exit(main())
