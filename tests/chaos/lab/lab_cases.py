"""What is done to runs over several hosts, one function a case: returns what was observed, raises ChaosError when a guarantee
is broken. A case may leave its laboratory broken (`is_last`): the next one gets a new one."""

import re
import signal
import subprocess
import time

from chaos_run import DEAD_AFTER_MS, check, check_same
from lab_run import LabRun, give_inputs, make_lab

SEEN = DEAD_AFTER_MS / 1000 + 0.5
AS_BEFORE = "metrics, weights and accounts as undisturbed"


def guarantee(text, is_last=False):
    def mark(case):
        case.guarantee, case.is_last = text, is_last
        return case
    return mark


def finish(run, undisturbed):
    code = run.wait()
    check(code == 0, f"exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)


def first_notice(run, names, moment):
    """Seconds to the first event that tells of the end of one of `names`."""
    times = [e["time"] - moment for e in run.events("process_ended")
             if e["fields"]["process"] in names and e["time"] >= moment - 0.01]
    check(times, f"no event tells that any of {', '.join(names)} ended")
    check(min(times) <= SEEN, f"noticed after {min(times):.2f} s")
    return min(times)


def check_nobody_died(run):
    ended = [e["fields"]["process"] for e in run.events("process_ended")]
    check(not ended, f"declared dead: {', '.join(ended)}")


@guarantee("RL-6 RL-7")
def three_hosts(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "three_hosts").start()
    finish(run, undisturbed)
    check_nobody_died(run)
    return f"the bits of the run on one host; {AS_BEFORE}"


@guarantee("CL-1 CL-4 RL-2 RL-7", is_last=True)
def node_death(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "node_death").start()
    run.wait_for_step(2)
    time.sleep(rng.random() * 0.3)
    names, moment = run.names_on("h2"), time.time()
    lab.kill("h2")
    finish(run, undisturbed)
    late = first_notice(run, names, moment)
    moved = [e["fields"]["process"] for e in run.events("process_moved")]
    check(sorted(moved) == sorted(names), f"moved: {moved}, were there: {names}")
    return f"{', '.join(names)}: noticed after {late:.2f} s, moved to h3; {AS_BEFORE}"


@guarantee("CL-1 CL-4 RL-2 RL-7")
def agent_death(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "agent_death").start()
    run.wait_for_step(2)
    names, moment = run.names_on("h2"), time.time()
    [agent] = [pid for pid in lab.pids("h2") if "memopd-agent" in open(f"/proc/{pid}/cmdline").read()
               and "sh" not in open(f"/proc/{pid}/comm").read()]
    subprocess.run(["kill", "-9", str(agent)], check=True)
    finish(run, undisturbed)
    return f"its {len(names)} workers ended with it, noticed after {first_notice(run, names, moment):.2f} s; {AS_BEFORE}"


@guarantee("CL-1 CL-4 RL-2 RL-7")
def worker_death(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "worker_death").start()
    run.wait_for_step(2)
    moment = run.signal("student/1", signal.SIGKILL)
    finish(run, undisturbed)
    late = run.noticed_after("student/1", moment)
    check(late <= SEEN, f"noticed after {late:.2f} s")
    return f"student/1 on another host: noticed after {late * 1000:.0f} ms; {AS_BEFORE}"


@guarantee("CL-1 CL-4 RL-2 RL-7")
def cut(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "cut").start()
    run.wait_for_step(2)
    names, moment = run.names_on("h2"), time.time()
    lab.cut("h2")
    left = run.leftovers(hosts=["h2"])
    gone_s = time.time() - moment
    check(not left, f"behind the cut there still runs after 10 s: {', '.join(left)}")
    finish(run, undisturbed)
    lab.heal("h2")
    return (f"{', '.join(names)}: noticed after {first_notice(run, names, moment):.2f} s, moved; behind the cut everything "
            f"had ended after {gone_s:.1f} s; {AS_BEFORE}")


@guarantee("CL-1 RL-7")
def cut_and_healed(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "cut_and_healed").start()
    run.wait_for_step(2)
    lab.cut("h2")
    time.sleep(0.7)
    lab.heal("h2")
    finish(run, undisturbed)
    check_nobody_died(run)
    return f"cut for 0.7 s: late, nobody was declared dead; {AS_BEFORE}"


def bad_link(name, spoil, what):
    @guarantee("CL-1 RL-7")
    def case(lab, folder, undisturbed, rng):
        run = LabRun(lab, folder, name)
        spoil(lab)
        finish(run.start(), undisturbed)
        lab.heal("h2")
        check_nobody_died(run)
        return f"{what}: nobody was declared dead; {AS_BEFORE}"
    return case


@guarantee("CL-1 RL-7")
def slow_link(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "slow_link")
    run.start().wait_for_step(1)
    lab.slow("h2", "8mbit")
    finish(run, undisturbed)
    lab.heal("h2")
    check_nobody_died(run)
    return f"1 MB/s while weights flow to every step: nobody was declared dead; {AS_BEFORE}"


def frozen(seconds):
    @guarantee("CL-1 CL-4 RL-7")
    def case(lab, folder, undisturbed, rng):
        run = LabRun(lab, folder, f"frozen_{seconds}").start()
        run.wait_for_step(2)
        names, moment = run.names_on("h2"), time.time()
        lab.freeze("h2")
        time.sleep(seconds)
        lab.thaw("h2")
        finish(run, undisturbed)
        if seconds < DEAD_AFTER_MS / 1000:
            check_nobody_died(run)
            return f"late, nobody was declared dead; {AS_BEFORE}"
        return (f"declared dead after {first_notice(run, names, moment):.2f} s, moved; what had been frozen ended once it "
                f"could; {AS_BEFORE}")
    return case


@guarantee("CL-3 CL-4 RL-2")
def launcher_death(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "launcher_death").start()
    run.wait_for_step(5)
    began = time.monotonic()
    run.kill()
    left = run.leftovers()
    gone_s = time.monotonic() - began
    check(not left, f"left behind: {', '.join(left)}")
    finish(run.start(resume=True), undisturbed)
    return f"0 processes left on all hosts after {gone_s:.1f} s; --resume: {AS_BEFORE}"


@guarantee("CL-4", is_last=True)
def head_death(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "head_death").start()
    run.wait_for_step(2)
    began = time.monotonic()
    lab.kill("h1")
    left = run.leftovers(hosts=["h2", "h3"])
    check(not left, f"left behind: {', '.join(left)}")
    return f"the launcher's host dies: 0 processes left on the others after {time.monotonic() - began:.1f} s"


@guarantee("CL-3 CL-4")
def interrupt(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "interrupt").start()
    run.wait_for_step(4)
    subprocess.run(["kill", "-INT", str(run.launcher_pid())], check=True)
    code = run.wait()
    left = run.leftovers()
    check(not left, f"left behind: {', '.join(left)}")
    check(code == 130, f"exit code {code}")
    finish(run.start(resume=True), undisturbed)
    return f"exit code 130, 0 processes left on all hosts; --resume: {AS_BEFORE}"


@guarantee("bad input")
def node_missing(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "node_missing", nodes="h1,h2,h9")
    result = subprocess.run(run.command(), capture_output=True, text=True, timeout=60)
    check(result.returncode == 4, f"exit code {result.returncode}: {result.stderr}")
    check("node h9: " in result.stderr and "h9" in result.stderr, result.stderr)
    check(not run.path.exists(), "a run folder was made")
    return f"exit code 4: {result.stderr.strip().splitlines()[-1]}"


@guarantee("L14")
def infeasible(lab, folder, undisturbed, rng):
    run = LabRun(lab, folder, "infeasible", settings={"role.1.memory_gib": 100000})
    result = subprocess.run(run.command(), capture_output=True, text=True, timeout=60)
    check(result.returncode == 3, f"exit code {result.returncode}: {result.stderr}")
    check("student/0" in result.stderr and "h2 lacks" in result.stderr and "h3 lacks" in result.stderr, result.stderr)
    return "exit code 3, naming what each of the three hosts lacks"


@guarantee("L07")
def pushed(lab, folder, undisturbed, rng):
    with make_lab(folder, hide_on=["h3"]) as bare:
        give_inputs(bare)
        run = LabRun(bare, folder, "pushed")
        result = subprocess.run(run.command(), capture_output=True, text=True, timeout=60)
        check(result.returncode == 4 and "--push" in result.stderr, f"{result.returncode}: {result.stderr}")
        finish(run.start(options=["--push"]), undisturbed)
    return f"h3 has nothing of ours: exit code 4 names --push; with it {AS_BEFORE}"


@guarantee("launcher checklist 8")
def two_runs(lab, folder, undisturbed, rng):
    runs = [LabRun(lab, folder, name).start() for name in ("two_a", "two_b")]
    codes = [run.wait() for run in runs]
    check(codes == [0, 0], f"exit codes {codes}: {runs[0].last_words()} / {runs[1].last_words()}")
    for run in runs:
        check_same(run, undisturbed)
    return f"at once on the same hosts: both {AS_BEFORE}"


@guarantee("SE-1", is_last=True)
def stranger(lab, folder, undisturbed, rng):
    with make_lab(folder, num_hosts=4) as four:
        give_inputs(four)
        run = LabRun(four, folder, "stranger").start()
        run.wait_for_step(2)
        num_ports = 0
        for name in ("h1", "h2", "h3"):
            listing = four.run(name, ["ss", "-Htln"]).stdout
            ports = [int(port) for port in re.findall(r"(?:10\.77\.0\.\d+|\*|0\.0\.0\.0):(\d+) ", listing) if port != "22"]
            check(ports, f"{name} listens nowhere: {listing}")
            num_ports += len(ports)
            for port in ports:
                attack = ("import socket,sys,os\n"
                          "for text in (b'GET / HTTP/1.0\\r\\n\\r\\n', b'\\xff\\0\\0\\0\\0\\0\\0\\0\\1\\x7f', os.urandom(65536), b''):\n"
                          f" s=socket.create_connection(('{four.hosts[name].address}',{port}),2); s.settimeout(0.3)\n"
                          " try: s.sendall(text); s.recv(100)\n except OSError: pass\n s.close()\n")
                four.run("h4", ["python3", "-c", attack])
        finish(run, undisturbed)
        check_nobody_died(run)
    return f"a fourth host speaks to all {num_ports} tcp ports of the run: {AS_BEFORE}"


CASES = {
    "three hosts": three_hosts, "kill a worker elsewhere": worker_death, "kill an agent": agent_death,
    "cut a link": cut, "cut for 0.7 s": cut_and_healed, "1 % loss": bad_link("loss", lambda lab: lab.lose("h2", 1), "1 % of packets lost each way"),
    "200 ms round trip": bad_link("delay", lambda lab: lab.delay("h2", 100), "200 ms a round trip"),
    "slow link": slow_link, "a host frozen 1 s": frozen(1), "a host frozen 10 s": frozen(10),
    "kill the launcher, then --resume": launcher_death, "Ctrl-C, then --resume": interrupt, "a host that is none": node_missing,
    "a plan without room": infeasible, "two runs at once": two_runs, "push to a bare host": pushed,
    "strangers on the network": stranger, "kill a host": node_death, "kill the head's host": head_death,
}
