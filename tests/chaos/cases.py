"""What is done to runs, one function a case: returns what was observed, raises ChaosError when a guarantee is broken."""

import os
import random
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from chaos_run import DEAD_AFTER_MS, Run, check, check_same, rss_bytes, start_ticks

WORKERS = ("env/0", "student/0", "teacher/0", "retriever/0", "align_pack/0")


def kill_worker(name):
    def case(folder, undisturbed, rng):
        run = Run(folder, "kill_" + name.split("/")[0]).start()
        run.wait_for_step(2)
        time.sleep(rng.random() * 0.3)
        moment = run.signal(name, signal.SIGKILL)
        code = run.wait()
        check(code == 0, f"exit code {code}: {run.last_words()}")
        check_same(run, undisturbed)
        late = run.noticed_after(name, moment)
        check(late <= DEAD_AFTER_MS / 1000 + 0.5, f"noticed after {late:.2f} s")
        return f"noticed after {late * 1000:.0f} ms; metrics, weights and accounts as undisturbed"
    case.guarantee = "CL-1 RL-2 RL-7 CL-4"
    return case


def kill_learner(folder, undisturbed, rng):
    run = Run(folder, "kill_learner").start()
    run.wait_for_step(5)
    time.sleep(rng.random() * 0.3)
    moment = run.signal("learner/0", signal.SIGKILL)
    code = run.wait()
    check(code == 0, f"exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)
    check(run.events("learner_lost"), "no event learner_lost")
    back = run.events("learner_lost")[0]["fields"]["checkpoint"]
    return f"noticed after {run.noticed_after('learner/0', moment) * 1000:.0f} ms; went back to {Path(back).name}; " \
           "metrics, weights and accounts as undisturbed"


kill_learner.guarantee = "CL-1 CL-3 RL-2 CL-4"


def kill_agent(folder, undisturbed, rng):
    run = Run(folder, "kill_agent").start()
    run.wait_for_step(4)
    old = [(p["pid"], p["start_ticks"]) for p in run.processes() if not p["name"].startswith("agent/")]
    run.signal("agent/local", signal.SIGKILL)
    end = time.monotonic() + 10
    while any(start_ticks(pid) == ticks for pid, ticks in old):
        check(time.monotonic() < end, "workers outlive their agent by 10 s")
        time.sleep(0.01)
    code = run.wait()
    check(code == 0, f"exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)
    return f"its {len(old)} workers ended with it, all came back; metrics, weights and accounts as undisturbed"


kill_agent.guarantee = "CL-4 CL-3 RL-2"


def kill_launcher(folder, undisturbed, rng):
    run = Run(folder, "kill_launcher").start()
    run.wait_for_step(5)
    began = time.monotonic()
    run.kill()
    alive = run.leftovers()
    gone_s = time.monotonic() - began
    check(not alive, f"left behind: {', '.join(alive)}")
    code = run.start(resume=True).wait()
    check(code == 0, f"resume: exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)
    return f"0 processes left after {gone_s:.1f} s; --resume ended with the same metrics, weights and accounts"


kill_launcher.guarantee = "CL-4 CL-3 RL-2"


def freeze_worker(seconds):
    def case(folder, undisturbed, rng):
        run = Run(folder, f"freeze_student_{seconds}").start()
        run.wait_for_step(2)
        before = run.process("student/0")
        moment = run.signal("student/0", signal.SIGSTOP)
        time.sleep(seconds)
        if start_ticks(before["pid"]) == before["start_ticks"]:
            os.kill(before["pid"], signal.SIGCONT)
        code = run.wait()
        check(code == 0, f"exit code {code}: {run.last_words()}")
        check_same(run, undisturbed)
        ended = [e for e in run.events("process_ended") if e["fields"]["process"] == "student/0"]
        if seconds * 1000 < DEAD_AFTER_MS:
            check(not ended, f"declared dead after {seconds} s: {ended}")
            return f"{'suspect, then ' if 'student/0' in run.suspects else ''}running again; not restarted; as undisturbed"
        check(ended, "was not declared dead")
        late = ended[0]["time"] - moment
        check(late <= DEAD_AFTER_MS / 1000 + 0.5, f"declared dead after {late:.2f} s")
        return f"declared dead after {late:.2f} s ({ended[0]['fields']['cause']}), replaced; as undisturbed"
    case.guarantee = "CL-1 RL-7"
    return case


def freeze_agent(folder, undisturbed, rng):
    run = Run(folder, "freeze_agent").start()
    run.wait_for_step(2)
    run.signal("agent/local", signal.SIGSTOP)
    code = run.wait()
    check(code == 0, f"exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)
    ended = run.events("agent_ended")
    check(ended, "no event agent_ended")
    return f"{ended[0]['fields']['cause']}; everything there started again; as undisturbed"


freeze_agent.guarantee = "CL-1 CL-3 CL-4"


def full_disk(folder, undisturbed, rng):
    place = Path(folder) / "small_disk"
    place.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "none", str(place)], capture_output=True)
    if mounted.returncode != 0:
        return "skipped: mounting a small file system is not allowed here"
    try:
        run = Run(place, "full", num_steps=50, settings={"run.directory": str(place)})
        run.path = place / "full"
        code = run.start().wait()
        words = run.last_words()
        alive = run.leftovers()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    check(code != 0, "a full disk went unnoticed")
    check("o space left" in words, f"the error does not say what is wrong: {words}")
    check(not alive, f"left behind: {', '.join(alive)}")
    return f"exit code {code}: {words.split('memopd: ')[-1][:160]}"


full_disk.guarantee = "CL-1 CL-4 RL-1"


def listening_ports(pid):
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(fd))
        except OSError:
            pass
    ports = []
    for line in Path("/proc/net/tcp").read_text().split("\n")[1:-1]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            ports.append(int(fields[1].split(":")[1], 16))
    return ports


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)


def hostile_peer(folder, undisturbed, rng):
    run = Run(folder, "hostile", settings={"net.host": "127.0.0.1"}).start()
    run.wait_for_step(1)
    targets = [run.launcher.pid, run.process("student/0")["pid"], run.process("align_pack/0")["pid"]]
    before = {pid: rss_bytes(pid) for pid in targets}
    ports = [(pid, port) for pid in targets for port in listening_ports(pid)]
    check(ports, "no listening port found")
    worst = 0
    attacks = {"garbage": rng.randbytes(4096), "half a greeting": GREETING[:30], "2 GiB claimed": GREETING + b"\x06" +
               struct.pack(">Q", 2 << 30) + b"x" * 64, "wrong handshake": GREETING + b"\x04\xc8" + b"\x05HELLO" + bytes(194)}
    sockets = []
    for _, port in ports:
        for payload in attacks.values():
            peer = socket.create_connection(("127.0.0.1", port), timeout=5)
            peer.sendall(payload)
            sockets.append(peer)
        flood = socket.create_connection(("127.0.0.1", port), timeout=1)
        try:
            for _ in range(2000):
                flood.sendall(rng.randbytes(65536))
        except OSError:
            pass
        sockets.append(flood)
        worst = max(worst, *(rss_bytes(pid) - before[pid] for pid in targets))
    code = run.wait()
    check(code == 0, f"exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)
    check(worst < 64 << 20, f"memory grew by {worst >> 20} MiB")
    return f"{len(ports)} ports: {', '.join(attacks)}, a flood of up to 131 MB; memory grew by at most {worst / 2**20:.1f} " \
           "MiB (the run's own growth included); as undisturbed"


hostile_peer.guarantee = "SE-1 R3 R7"


def interrupt(folder, undisturbed, rng):
    """[pain:L03]"""
    run = Run(folder, "interrupt").start()
    run.wait_for_step(4)
    os.kill(run.launcher.pid, signal.SIGINT)
    code = run.wait()
    check(code == 130, f"exit code {code}: {run.last_words()}")
    check(run.verdict()["verdict"] == "stopped", f"verdict {run.verdict()['verdict']}")
    check(not run.leftovers(), f"left behind: {run.leftovers(0)}")
    stopped_at = run.weights().split()[0]
    code = run.start(resume=True).wait()
    check(code == 0, f"resume: exit code {code}: {run.last_words()}")
    check_same(run, undisturbed)
    return f"exit code 130 with checkpoint {stopped_at}; --resume ended as undisturbed"


interrupt.guarantee = "CL-3 CL-4"


def interrupt_twice(folder, undisturbed, rng):
    """[pain:L03]"""
    run = Run(folder, "interrupt_twice", num_steps=500).start()
    run.wait_for_step(1)
    os.kill(run.launcher.pid, signal.SIGINT)
    time.sleep(0.05)
    os.kill(run.launcher.pid, signal.SIGINT)
    code = run.wait(20)
    check(code == 130, f"exit code {code}: {run.last_words()}")
    alive = run.leftovers()
    check(not alive, f"left behind: {', '.join(alive)}")
    return "exit code 130 at once, 0 processes left"


interrupt_twice.guarantee = "CL-4"


def restart_storm(folder, undisturbed, rng):
    run = Run(folder, "storm", num_steps=500, settings={"role.2.max_restarts": 1}).start()
    run.wait_for_step(1)
    first = run.process("teacher/0")["pid"]
    run.signal("teacher/0", signal.SIGKILL)
    run.wait_for(lambda: (run.process("teacher/0") or {}).get("pid", first) not in (first, 0) and
                 run.process("teacher/0")["state"] == "running", "the teacher's return")
    run.signal("teacher/0", signal.SIGKILL)
    code = run.wait(60)
    check(code == 137, f"exit code {code}, expected 128 + SIGKILL: {run.last_words()}")
    check(not run.leftovers(), f"left behind: {run.leftovers(0)}")
    failure = run.verdict()["first_failure"]
    check(failure.startswith("teacher/0: "), f"first failure: {failure}")
    return f"exit code 137; first failure: {failure}"


restart_storm.guarantee = "CL-1 CL-4"


def port_taken(folder, undisturbed, rng):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = Run(folder, "port_taken", settings={"monitor.address": f"127.0.0.1:{port}"}).start()
        code = run.wait(60)
    check(code == 2, f"exit code {code}: {run.last_words()}")
    check(str(port) in run.last_words(), f"the error does not name the port: {run.last_words()}")
    return f"exit code 2: {run.last_words().split('memopd: ')[-1][:120]}"


port_taken.guarantee = "bad input"

CASES = {
    **{f"kill -9 {name.split('/')[0]}": kill_worker(name) for name in WORKERS},
    "kill -9 learner": kill_learner, "kill -9 agent": kill_agent, "kill -9 launcher, then --resume": kill_launcher,
    "SIGSTOP student 1 s": freeze_worker(1), "SIGSTOP student 10 s": freeze_worker(10),
    "SIGSTOP agent for good": freeze_agent, "Ctrl-C, then --resume": interrupt, "Ctrl-C twice": interrupt_twice,
    "restart storm": restart_storm, "strangers at every port": hostile_peer, "full disk": full_disk,
    "monitor's port taken": port_taken,
}


def seeded(seed, name):
    return random.Random(f"{seed} {name}")
