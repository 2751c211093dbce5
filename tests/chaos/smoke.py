#!/usr/bin/env python3
"""One small run whose env and align_pack are killed: part of the ordinary tests. usage: smoke.py"""

import signal
import sys

from case_table import run_as_test
from chaos_run import Run, check, check_same


# Far: on a busy machine late is not dead.
PATIENT = {"net.dead_after_ms": 20000, "net.lease_ms": 40000}


def smoke(folder):
    undisturbed = Run(folder, "undisturbed", num_steps=4, settings=PATIENT).start()
    check(undisturbed.wait() == 0, f"the undisturbed run failed: {undisturbed.last_words()}")
    run = Run(folder, "killed", num_steps=4, settings=PATIENT).start()
    run.wait_for_step(1)
    run.signal("env/0", signal.SIGKILL)
    run.wait_for_step(2)
    run.signal("align_pack/0", signal.SIGKILL)
    code = run.wait()
    check(code == 0, f"exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)
    check(len(run.events("process_ended")) == 2, f"not two deaths but {run.events('process_ended')}")
    return "a run with two kills ended as the undisturbed one"


if __name__ == "__main__":
    sys.exit(run_as_test("smoke", smoke))
