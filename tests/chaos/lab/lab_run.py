"""Runs over the hosts of a laboratory: the launcher on h1, everything else where the configuration puts it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chaos_run import BIN, ROOT, Run, check  # noqa: E402
from lab import Lab  # noqa: E402

WORK = "/root/work"
INPUTS = ("configs", "envs/atlas/teacher")


def make_lab(folder, num_hosts=3, hide_on=()):
    """Hosts that have the programs where they are here, read-only, and nothing else of the project; h1 keeps its runs in
    `folder`, so that they can be read when h1 is gone."""
    # Under each name that a program may look for its libraries by.
    libraries = os.environ.get("MEMOPD_LIBTORCH_ROOT") or str(ROOT / ".deps")
    shown = sorted({str(BIN), libraries, os.path.realpath(libraries)})
    return Lab(num_hosts, shown=shown, hidden=["/" + ROOT.parts[1]], hide_on=hide_on,
               own={"h1": {WORK + "/runs": str(folder)}})


def give_inputs(lab):
    for path in INPUTS:
        lab.copy_in("h1", str(ROOT / path), f"{WORK}/{path}")


class LabRun(Run):
    def __init__(self, lab, folder, name, num_steps=9, settings=None, nodes="h1,h2,h3"):
        super().__init__(folder, name, num_steps, settings)
        self.settings["run.directory"] = "runs"
        self.lab, self.nodes = lab, nodes

    def command(self, resume=False, options=()):
        command = [str(BIN / "memopd-cluster"), "launch"]
        command += ["--resume", f"runs/{self.path.name}"] if resume else ["configs/cluster.toml", "--nodes", self.nodes]
        for key, value in self.settings.items() if not resume else ():
            command += ["--set", f"{key}={value}"]
        return self.lab.command("h1", [*command, *options], WORK)

    def start(self, resume=False, options=()):
        self.output = open(f"{self.path}.out", "a")
        self.launcher = subprocess.Popen(self.command(resume, options), stdout=self.output, stderr=subprocess.STDOUT,
                                         stdin=subprocess.DEVNULL, start_new_session=True)
        threading.Thread(target=self._look, args=(self.launcher,), daemon=True).start()
        return self

    def outside(self, process):
        pid = self.lab.outside_pid(process["host"], process["pid"])
        check(pid is not None, f"{process['name']} is not on {process['host']}")
        return pid

    def signal(self, name, number):
        process = self.process(name)
        check(process is not None, f"no process {name} is recorded")
        pid = self.outside(process)
        moment = time.time()
        os.kill(pid, number)
        return moment

    def launcher_pid(self):
        recorded = json.loads((self.path / "processes.json").read_text())["launcher"]
        return self.lab.outside_pid("h1", recorded["pid"])

    def kill(self):
        if self.launcher is not None and self.launcher.poll() is None:
            pid = self.launcher_pid()
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            self.launcher.wait()

    def node_of(self, name):
        return self.process(name)["node"]

    def names_on(self, node):
        return [p["name"] for p in self.processes() if p["node"] == node and not p["name"].startswith("agent/")]

    def leftovers(self, seconds=10, hosts=None):
        """Whatever still runs on the hosts so long after the end (CL-4)."""
        end = time.monotonic() + seconds
        while True:
            alive = [f"{host}: {words(pid)}" for host in hosts or self.lab.hosts for pid in self.lab.pids(host)]
            alive = [text for text in alive if not text.endswith(": ")]
            if not alive or time.monotonic() > end:
                return alive
            time.sleep(0.05)


def words(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:80]
    except OSError:
        return ""
