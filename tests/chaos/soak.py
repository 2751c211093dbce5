#!/usr/bin/env python3
"""Many random kills over one deterministic run: it ends with the weights and metrics of the undisturbed one.

usage: soak.py [--kills N] [--seed S] [--steps T]

The roles and the pauses are drawn from the seed; a failing seed replays as far as the machine's timing allows.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from chaos_run import ChaosError, Run, check, check_same

VICTIMS = ("env/0", "env/1", "student/0", "student/1", "teacher/0", "retriever/0", "align_pack/0", "learner/0")
MANY_RESTARTS = {f"role.{index}.max_restarts": 100000 for index in range(7)}


def is_whole(run):
    names = {p["name"]: p["state"] for p in run.processes()}
    return all(names.get(victim) == "running" for victim in VICTIMS)


def soak(folder, num_kills, seed, steps):
    undisturbed = Run(folder, "undisturbed", num_steps=steps).start()
    check(undisturbed.wait(1200) == 0, f"the undisturbed run failed: {undisturbed.last_words()}")
    print(f"undisturbed: {undisturbed.weights()}", flush=True)
    rng = random.Random(seed)
    run = Run(folder, "soak", num_steps=steps, settings=MANY_RESTARTS).start()
    run.wait_for_step(1)
    killed = Counter()
    while sum(killed.values()) < num_kills:
        run.wait_for(lambda: is_whole(run), "all processes running")
        time.sleep(rng.uniform(0.05, 1.0))
        victim = rng.choice(VICTIMS)
        if run.launcher.poll() is not None:
            break
        try:
            run.signal(victim, signal.SIGKILL)
        except (ChaosError, ProcessLookupError):
            continue  # it is on its way from one process to the next
        killed[victim.split("/")[0]] += 1
        if sum(killed.values()) % 10 == 0:
            print(f"{sum(killed.values())} kills, step {len(run.events('step_done'))}", flush=True)
    code = run.wait(1200)
    check(code == 0, f"exit code {code}: {run.last_words()}")
    check(sum(killed.values()) == num_kills, f"the run ended after {sum(killed.values())} kills: give it more --steps")
    check_same(run, undisturbed)
    back = len(run.events("learner_lost"))
    kinds = ", ".join(f"{role} {count}" for role, count in sorted(killed.items()))
    return f"{num_kills} kills ({kinds}), {back} times back to a checkpoint; {run.weights()}; metrics, weights and " \
           "accounts as undisturbed; 0 processes left"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="memopd-soak-"))
    began = time.monotonic()
    try:
        print(soak(folder, arguments.kills, arguments.seed, arguments.steps))
    except ChaosError as error:
        print(f"soak, seed {arguments.seed}: BROKEN: {error}\nruns are kept in {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    print(f"seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
