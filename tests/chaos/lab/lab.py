"""A laboratory of several hosts on one machine: namespaces, a switch between them, an sshd in each, links that can be
slowed, made lossy, delayed, cut and healed; a host that can be killed or frozen.

    with Lab(3, shown=["/path/to/the/build"]) as lab:
        lab.run("h1", ["ssh", "h2", "hostname"])
        lab.cut("h2")

LB-1  nothing is left behind: hosts end with the process that made them, however it ends; the system's network, mounts and
      files are not touched, since everything lives in namespaces.
LB-2  hosts share no file system but the system's programs and libraries and what `shown` names, read-only.
LB-3  a cut link is silent: nothing is refused, nothing arrives.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
SUBNET = "10.77.0"
NEEDED = ("ip", "nft", "tc", "unshare", "nsenter", "ssh", "ssh-keygen", "mount", "hostname")


def missing():
    """Why the laboratory cannot be made here; None when it can."""
    if os.geteuid() != 0:
        return "not root"
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    lacking += [] if os.path.exists("/usr/sbin/sshd") else ["sshd (Debian: openssh-server)"]
    if lacking:
        return "not installed: " + ", ".join(lacking)
    tried = subprocess.run(["unshare", "-n", "-p", "-m", "-i", "-u", "--fork", "ip", "link", "add", "lab0", "type", "bridge"],
                           capture_output=True, text=True)
    return None if tried.returncode == 0 else "namespaces are not allowed: " + tried.stderr.strip()


def processes_of(namespace):
    """Every process of a pid namespace, as seen from here."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{entry}/ns/pid") == namespace:
                found.append(int(entry))
        except OSError:
            pass
    return found


class Host:
    def __init__(self, name, address, process, pid):
        self.name, self.address, self.process, self.pid = name, address, process, pid
        self.namespace = os.readlink(f"/proc/{pid}/ns/pid")

    def enter(self, *namespaces):
        return ["nsenter", "-t", str(self.pid), *(namespaces or ("-n", "-p", "-m", "-i", "-u"))]


class Lab:
    def __init__(self, num_hosts=3, shown=(), hidden=(), hide_on=(), own=None):
        """shown: folders that hosts see, read-only; hidden: folders that are empty there but for those; hide_on: hosts that
        see nothing of `shown`; own: host -> {folder there: folder of this machine that is it}, writable."""
        self.num_hosts, self.shown, self.hidden, self.hide_on = num_hosts, list(shown), list(hidden), set(hide_on)
        self.own = own or {}
        self.hosts = {}
        self.switch = None
        self.relays = {}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    # -- making and ending ------------------------------------------------------------------------------------------

    def start(self):
        addresses = {f"h{i}": f"{SUBNET}.{i}" for i in range(1, self.num_hosts + 1)}
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", folder + "/key"], check=True)
            keys = {"private_key": open(folder + "/key").read(), "public_key": open(folder + "/key.pub").read()}
        self.switch = subprocess.Popen(["unshare", "-n", "--kill-child", "--fork", "cat"], stdin=subprocess.PIPE)
        self.switch_pid = self.child_of(self.switch.pid)
        self.in_switch("ip", "link", "add", "br0", "type", "bridge")
        self.in_switch("ip", "link", "set", "br0", "up")
        for name, address in addresses.items():
            plan = {"name": name, "addresses": addresses, "home": "/root", "hidden": self.hidden,
                    "shown": [] if name in self.hide_on else self.shown, "own": self.own.get(name, {}), **keys}
            process = subprocess.Popen(
                ["unshare", "-n", "-p", "-m", "-i", "-u", "--fork", "--kill-child", "--mount-proc", sys.executable,
                 FOLDER + "/host_init.py", json.dumps(plan)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                start_new_session=True)
            self.hosts[name] = Host(name, address, process, self.child_of(process.pid))
            self.connect(self.hosts[name])
        for host in self.hosts.values():
            host.process.stdin.write("network\n")
            host.process.stdin.flush()
            if host.process.stdout.readline() != "ready\n":
                raise RuntimeError(f"{host.name} did not start")
        for host in self.hosts.values():
            self.wait_for_sshd(host)

    @staticmethod
    def child_of(pid):
        """The process that `unshare --fork` made, once it is in its namespaces."""
        own = os.readlink("/proc/self/ns/net")
        for _ in range(500):
            try:
                children = open(f"/proc/{pid}/task/{pid}/children").read().split()
                if children and os.readlink(f"/proc/{children[0]}/ns/net") != own:
                    return int(children[0])
            except OSError:
                pass
            time.sleep(0.01)
        raise RuntimeError("a namespace did not come up")

    def in_switch(self, *command):
        subprocess.run(["nsenter", "-t", str(self.switch_pid), "-n", *command], check=True)

    def in_network(self, host, *command, check=True):
        return subprocess.run([*host.enter("-n"), *command], check=check, capture_output=not check)

    def connect(self, host):
        port = f"to-{host.name}"
        self.in_switch("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
        self.in_switch("ip", "link", "set", port, "master", "br0")
        self.in_switch("ip", "link", "set", port, "up")
        self.in_network(host, "ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        self.in_network(host, "ip", "link", "set", "eth0", "up")

    def wait_for_sshd(self, host):
        for _ in range(200):
            if self.run(self.first(), ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=2", host.name, "true"]).returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError(f"sshd of {host.name} does not answer")

    def first(self):
        return next(iter(self.hosts))

    def close(self):
        for relay in self.relays.values():
            relay.kill()
            relay.wait()
        for host in self.hosts.values():
            try:
                os.kill(host.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            host.process.kill()
            host.process.wait()
            host.process.stdin.close()
            host.process.stdout.close()
        if self.switch is not None:
            self.switch.kill()
            self.switch.wait()
            self.switch.stdin.close()

    # -- using ------------------------------------------------------------------------------------------------------

    def command(self, name, argv, cwd="/root"):
        """What runs `argv` on a host, for subprocess."""
        environment = [f"{key}={os.environ[key]}" for key in ("PATH", "TERM", "LANG", "LC_ALL") if key in os.environ]
        return [*self.hosts[name].enter(), "--wdns=/", "env", "-C", cwd, "-i", "HOME=/root", "USER=root", "LOGNAME=root", *environment, *argv]

    def run(self, name, argv, **options):
        options.setdefault("capture_output", True)
        options.setdefault("text", True)
        cwd = options.pop("cwd", "/root")
        return subprocess.run(self.command(name, argv, cwd), **options)

    def copy_in(self, name, source, target):
        """A file or folder of this machine into the private file system of a host."""
        pack = subprocess.Popen(["tar", "-cf", "-", "-C", source if os.path.isdir(source) else os.path.dirname(source),
                                 "." if os.path.isdir(source) else os.path.basename(source)], stdout=subprocess.PIPE)
        self.run(name, ["mkdir", "-p", target], check=True)
        self.run(name, ["tar", "-xf", "-", "-C", target], stdin=pack.stdout, check=True)
        pack.stdout.close()
        if pack.wait() != 0:
            raise RuntimeError(f"{source} could not be read")

    def pids(self, name):
        """Every process of a host but its own: process 1, its sshd and what listens there."""
        return [pid for pid in processes_of(self.hosts[name].namespace) if not self.belongs_to_host(pid)]

    def outside_pid(self, name, pid):
        """What a host's process `pid` is called here; None: there is no such process."""
        for outside in processes_of(self.hosts[name].namespace):
            try:
                status = open(f"/proc/{outside}/status").read()
            except OSError:
                continue
            if status.split("NSpid:")[1].split("\n")[0].split()[-1] == str(pid):
                return outside
        return None

    def belongs_to_host(self, pid):
        try:
            line = open(f"/proc/{pid}/cmdline").read().replace("\0", " ")
        except OSError:
            return True
        return "host_init.py" in line or line.startswith("sshd:") or "/usr/sbin/sshd" in line or line == ""

    # -- faults -----------------------------------------------------------------------------------------------------

    def rule(self, name, table, rules):
        host = self.hosts[name]
        self.in_network(host, "nft", "delete", "table", "inet", table, check=False)
        if rules:
            device = {"input": "iifname", "output": "oifname"}
            chains = "\n".join(f"chain {hook} {{ type filter hook {hook} priority 0; policy accept; {device[hook]} eth0 {rules} }}"
                               for hook in ("input", "output"))
            self.in_network(host, "nft", f"table inet {table} {{\n{chains}\n}}")

    def cut(self, name):
        """All packets of the host's link vanish, in both directions."""
        self.rule(name, "cut", "drop;")

    def heal(self, name):
        """Back to a whole, fast link: undoes cut, lose, slow and delay."""
        for table in ("cut", "loss"):
            self.rule(name, table, "")
        port = f"to-{name}"
        self.in_network(self.hosts[name], "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
        subprocess.run(["nsenter", "-t", str(self.switch_pid), "-n", "tc", "qdisc", "del", "dev", port, "root"],
                       capture_output=True)
        if name in self.relays:
            relay = self.relays.pop(name)
            relay.kill()
            relay.wait()
            self.in_switch("ip", "link", "del", f"mid-{name}")
            self.in_switch("ip", "link", "set", port, "master", "br0")

    def lose(self, name, percent):
        """That share of packets vanishes, at random, in each direction."""
        per_mille = round(percent * 10)
        self.rule(name, "loss", f"numgen random mod 1000 < {per_mille} drop;")

    def slow(self, name, rate):
        """At most `rate` in each direction: "10mbit", with a queue of 400 ms."""
        shape = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]
        self.in_network(self.hosts[name], "tc", "qdisc", "replace", "dev", "eth0", *shape)
        self.in_switch("tc", "qdisc", "replace", "dev", f"to-{name}", *shape)

    def delay(self, name, milliseconds):
        """Each packet arrives that much later, in each direction: a relay stands between the host's port and the switch."""
        port, middle = f"to-{name}", f"mid-{name}"
        self.in_switch("ip", "link", "set", port, "nomaster")
        self.in_switch("ip", "link", "add", middle, "type", "veth", "peer", "name", f"sw-{name}")
        for device in (middle, f"sw-{name}"):
            self.in_switch("ip", "link", "set", device, "up")
        self.in_switch("ip", "link", "set", f"sw-{name}", "master", "br0")
        relay = subprocess.Popen(["nsenter", "-t", str(self.switch_pid), "-n", sys.executable, FOLDER + "/delay_relay.py", port,
                                  middle, str(milliseconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.relays[name] = relay
        relay.stdout.readline()

    def kill(self, name):
        """Node death: process 1 gets SIGKILL, and with it everything on the host; its link is silent from then on."""
        self.in_switch("ip", "link", "set", f"to-{name}", "down")
        os.kill(self.hosts[name].pid, signal.SIGKILL)
        self.hosts[name].process.wait()

    def freeze(self, name):
        for pid in processes_of(self.hosts[name].namespace):
            os.kill(pid, signal.SIGSTOP)

    def thaw(self, name):
        for pid in processes_of(self.hosts[name].namespace):
            os.kill(pid, signal.SIGCONT)
