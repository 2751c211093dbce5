"""A training run in real processes, and what a test wants to do to it and know of it.

Runs are deterministic and small: the quickstart's roles in processes of their own, the shipped teacher as the student it
starts from, short intervals of silence. Only processes that the run recorded, or that this script started, are signalled.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MEMOPD_BIN", ROOT / "build/dev/bin"))
HEARTBEAT_MS, DEAD_AFTER_MS, LEASE_MS = 100, 1500, 3000
SETTINGS = {
    "student.model": "envs/atlas/teacher", "run.deterministic": "true", "learner.num_threads": 1,
    "learner.tasks_per_step": 16, "eval.every": 0, "eval.teacher": "false", "checkpoint.every": 3,
    "eval.splits.0.num_tasks": 8, "eval.splits.1.num_tasks": 8, "eval.splits.2.num_tasks": 8,
    "net.heartbeat_ms": HEARTBEAT_MS, "net.dead_after_ms": DEAD_AFTER_MS, "net.lease_ms": LEASE_MS,
}


class ChaosError(Exception):
    """What a run did is not what it guarantees."""


def check(condition, text):
    if not condition:
        raise ChaosError(text)


def start_ticks(pid):
    """Field 22 of /proc/PID/stat; 0 when there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def rss_bytes(pid):
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def read_lines(path):
    if not path.exists():
        return []
    lines = []
    for line in path.read_text().split("\n")[:-1]:
        lines.append(json.loads(line))
    return lines


class Run:
    def __init__(self, folder, name, num_steps=9, settings=None):
        self.path = Path(folder) / name
        self.settings = {**SETTINGS, "run.name": name, "run.directory": str(folder), "run.num_steps": num_steps,
                         **(settings or {})}
        self.seen = {}  # (pid, start_ticks) -> name of every process the run has recorded
        self.suspects = set()
        self.launcher = None

    def start(self, resume=False):
        command = [str(BIN / "memopd-cluster"), "launch"]
        command += ["--resume", str(self.path)] if resume else ["configs/quickstart_processes.toml"]
        for key, value in self.settings.items() if not resume else ():
            command += ["--set", f"{key}={value}"]
        self.output = open(f"{self.path}.out", "a")
        self.launcher = subprocess.Popen(command, cwd=ROOT, stdout=self.output, stderr=subprocess.STDOUT,
                                         stdin=subprocess.DEVNULL, start_new_session=True)
        threading.Thread(target=self._look, args=(self.launcher,), daemon=True).start()
        return self

    def _look(self, launcher):
        while launcher.poll() is None:
            for process in self.processes():
                self.seen[(process["pid"], process["start_ticks"])] = process["name"]
                if process["state"] == "suspect":
                    self.suspects.add(process["name"])
            time.sleep(0.05)

    def processes(self):
        try:
            return [p for p in json.loads((self.path / "processes.json").read_text())["processes"] if p["pid"] > 0]
        except (OSError, ValueError):
            return []

    def process(self, name):
        return next((p for p in self.processes() if p["name"] == name), None)

    def events(self, name=None):
        return [e for e in read_lines(self.path / "events.jsonl") if name is None or e["name"] == name]

    def wait_for(self, condition, what, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            check(time.monotonic() < end, f"{what}: not within {seconds} s")
            check(self.launcher.poll() is None, f"{what}: the run ended before, {self.last_words()}")
            time.sleep(0.02)

    def wait_for_step(self, step):
        self.wait_for(lambda: len(self.events("step_done")) >= step, f"step {step}")

    def signal(self, name, number):
        """Signals one recorded process. @return the moment, in Unix seconds"""
        process = self.process(name)
        check(process is not None, f"no process {name} is recorded")
        check(start_ticks(process["pid"]) == process["start_ticks"], f"{name} is not the process that was recorded")
        moment = time.time()
        os.kill(process["pid"], number)
        return moment

    def wait(self, seconds=180):
        try:
            return self.launcher.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ChaosError(f"the run did not end within {seconds} s: {self.last_words()}") from None
        finally:
            self.output.flush()

    def kill(self):
        if self.launcher is not None and self.launcher.poll() is None:
            os.kill(self.launcher.pid, signal.SIGKILL)
            self.launcher.wait()

    def last_words(self):
        text = Path(f"{self.path}.out").read_text()
        return " | ".join(text.strip().split("\n")[-3:])

    def leftovers(self, seconds=10):
        """Recorded processes that still live so long after the end (CL-4)."""
        end = time.monotonic() + seconds
        while True:
            alive = [f"{name} ({pid})" for (pid, ticks), name in self.seen.items() if start_ticks(pid) == ticks]
            if not alive or time.monotonic() > end:
                return alive
            time.sleep(0.05)

    def metrics(self):
        """What must not depend on time, load or deaths: step -> metric -> value."""
        result = {}
        for record in read_lines(self.path / "metrics.jsonl"):
            values = {k: v for k, v in record.items() if not re.match(r"time($|/)|load/|step$", k)}
            result.setdefault(record["step"], {}).update(values)
        return result

    def weights(self):
        """Hash of the newest checkpoint's policy."""
        folders = sorted((self.path / "checkpoints").glob("step-*"), key=lambda p: int(p.name.split("-")[1]))
        check(folders, "no checkpoint")
        data = (folders[-1] / "policy/model.safetensors").read_bytes()
        return f"{folders[-1].name} {hashlib.sha256(data).hexdigest()[:16]}"

    def verdict(self):
        return json.loads((self.path / "summary.json").read_text())

    def check_accounts(self):
        """RL-2, from the ledger alone."""
        stats = subprocess.run([str(BIN / "memopd"), "ledger", "stats", str(self.path)], cwd=ROOT, text=True,
                               capture_output=True)
        check(stats.returncode == 0, f"the ledger's accounts do not balance: {stats.stdout}{stats.stderr}")

    def noticed_after(self, process, moment):
        """Seconds from `moment` to the event that tells of the process's end (CL-1)."""
        for event in self.events("process_ended"):
            if event["fields"]["process"] == process and event["time"] >= moment - 0.01:
                return event["time"] - moment
        raise ChaosError(f"no event tells that {process} ended")


def check_same(run, undisturbed, with_metrics=True):
    """The run ended as if nothing had happened: RL-6, RL-7, CL-3, CL-4, RL-2."""
    check(run.verdict()["verdict"] == "completed", f"verdict {run.verdict()['verdict']}: {run.last_words()}")
    run.check_accounts()
    alive = run.leftovers()
    check(not alive, f"left behind: {', '.join(alive)}")
    check(run.weights() == undisturbed.weights(), f"final weights {run.weights()}, undisturbed {undisturbed.weights()}")
    if with_metrics:
        mine, theirs = run.metrics(), undisturbed.metrics()
        different = sorted({name for step in theirs for name in theirs[step]
                            if mine.get(step, {}).get(name) != theirs[step][name]})
        check(not different and mine.keys() == theirs.keys(), f"metrics differ: {', '.join(different[:5])}")
