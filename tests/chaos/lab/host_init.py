"""Process 1 of a host of the laboratory: makes its file system, starts sshd, reaps orphans, ends with its lifeline.

Run inside the host's namespaces (lab.py starts it) with a JSON plan as its only argument; says "ready" on standard output.
Standard input is the lifeline: at its end the host ends, and with process 1 everything in it.
"""
import json
import os
import selectors
import signal
import subprocess
import sys


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def mount_private(path, mode="755"):
    os.makedirs(path, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"mode={mode}", "lab", path)


def make_file_system(plan):
    """Private /tmp, /dev/shm, /run, home; hidden folders are empty but for what is shown, which is read-only."""
    mount_private("/run")
    os.makedirs("/run/lab/shown")
    for index, path in enumerate(plan["shown"]):
        aside = f"/run/lab/shown/{index}"
        os.makedirs(aside)
        run("mount", "--bind", path, aside)
        run("mount", "-o", "remount,bind,ro", aside)
    for index, path in enumerate(plan["own"].values()):
        aside = f"/run/lab/own/{index}"
        os.makedirs(aside)
        run("mount", "--bind", path, aside)
    for path, mode in (("/tmp", "1777"), ("/dev/shm", "1777"), (plan["home"], "700")):
        mount_private(path, mode)
    for path in plan["hidden"]:
        mount_private(path)
    for index, path in enumerate(plan["shown"]):
        os.makedirs(path, exist_ok=True)
        run("mount", "--move", f"/run/lab/shown/{index}", path)
    for index, path in enumerate(plan["own"]):
        os.makedirs(path, exist_ok=True)
        run("mount", "--move", f"/run/lab/own/{index}", path)
    with open("/run/lab/hosts", "w", encoding="utf-8") as file:
        file.write("127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in plan["addresses"].items()))
    run("mount", "--bind", "/run/lab/hosts", "/etc/hosts")


def write(path, text, mode=0o600):
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)


def start_sshd(plan):
    """An sshd with the laboratory's keys and a configuration of its own; the system's files stay as they are."""
    os.makedirs("/run/sshd")
    ssh = plan["home"] + "/.ssh"
    os.makedirs(ssh, mode=0o700)
    write(ssh + "/id_ed25519", plan["private_key"])
    write(ssh + "/authorized_keys", plan["public_key"])
    known = "".join(f"{name},{ip} {plan['public_key']}" for name, ip in plan["addresses"].items())
    write(ssh + "/known_hosts", known)
    write("/run/lab/host_key", plan["private_key"])
    write("/run/lab/sshd_config", "\n".join([
        "HostKey /run/lab/host_key", f"AuthorizedKeysFile {ssh}/authorized_keys", "PidFile /run/lab/sshd.pid",
        f"ListenAddress {plan['addresses'][plan['name']]}", "Port 22", "UsePAM no", "StrictModes no",
        "PasswordAuthentication no", "PermitRootLogin prohibit-password", "PrintMotd no", "UseDNS no",
        "MaxStartups 100", "LogLevel ERROR"]) + "\n")
    subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", "/run/lab/sshd_config"], stdin=subprocess.DEVNULL,
                     stdout=subprocess.DEVNULL)


def wait_for_end():
    """Reaps whatever becomes an orphan, until the lifeline ends."""
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(wake, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if not os.read(key.fd, 4096) and key.fd == 0:
                return
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break


def main():
    plan = json.loads(sys.argv[1])
    subprocess.run(["hostname", plan["name"]], check=True)
    make_file_system(plan)
    run("ip", "link", "set", "lo", "up")
    sys.stdin.readline()  # the network is there
    start_sshd(plan)
    os.chdir(plan["home"])
    print("ready", flush=True)
    wait_for_end()


main()
