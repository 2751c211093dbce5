#!/usr/bin/env python3
"""Learner ranks in processes of their own learn what ranks in one process do. usage: ranks.py"""

import sys

from case_table import run_as_test
from chaos_run import Run, check, check_same

# Far: on a busy machine late is not dead.
PATIENT = {"net.dead_after_ms": 20000, "net.lease_ms": 40000, "learner.num_ranks": 2, "checkpoint.every": 0}
LEARNER = "role.6.process"  # of configs/quickstart_processes.toml


def ranks(folder):
    together = Run(folder, "together", num_steps=3, settings={**PATIENT, LEARNER: "learners"}).start()
    check(together.wait() == 0, f"ranks in one process failed: {together.last_words()}")
    apart = Run(folder, "apart", num_steps=3, settings={**PATIENT, LEARNER: "own"}).start()
    check(apart.wait() == 0, f"ranks in two processes failed: {apart.last_words()}")
    names = {name for name in apart.seen.values() if name.startswith("learner")}
    check(names == {"learner/0", "learner/1"}, f"not two processes of learners but {sorted(names)}")
    check_same(apart, together)
    return "two processes ended with the weights of one"


if __name__ == "__main__":
    sys.exit(run_as_test("ranks", ranks))
