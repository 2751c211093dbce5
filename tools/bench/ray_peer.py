"""Ray's side of `memopd bench runtime`: prints {name: median} as JSON. usage: ray_peer.py CALLS REPETITIONS"""

import json
import statistics
import sys
import time

import numpy as np
import ray


@ray.remote(num_cpus=0)
class Far:
    def echo(self, payload):
        return len(payload)

    def read(self, data):
        began = time.perf_counter()
        array = ray.get(data[0])
        int(array.view(np.uint64).sum())
        return time.perf_counter() - began


@ray.remote(num_cpus=0)
class Near:
    def drive(self, far, count, window):
        payload = bytes(1024)
        each, waiting = [], []
        began = time.perf_counter()
        if window == 1:
            for _ in range(count):
                start = time.perf_counter()
                ray.get(far.echo.remote(payload))
                each.append(time.perf_counter() - start)
        else:
            for _ in range(count):
                waiting.append(far.echo.remote(payload))
                if len(waiting) == window:
                    ray.get(waiting)
                    waiting = []
            ray.get(waiting)
        return time.perf_counter() - began, each

    def put(self, size):
        data = np.full(size, 7, dtype=np.uint8)
        began = time.perf_counter()
        reference = ray.put(data)
        return [reference], time.perf_counter() - began


def measure(calls, figures):
    def add(name, value):
        figures.setdefault(name, []).append(value)

    began = time.perf_counter()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    first = Far.remote()
    ray.get(first.echo.remote(b""))
    add("start_to_first_call_ms", (time.perf_counter() - began) * 1000)
    began = time.perf_counter()
    second = Far.remote()
    ray.get(second.echo.remote(b""))
    add("actor_creation_ms", (time.perf_counter() - began) * 1000)
    near, far = [Near.remote() for _ in range(4)], [Far.remote() for _ in range(4)]
    ray.get([actor.echo.remote(b"") for actor in far])
    _, each = ray.get(near[0].drive.remote(far[0], calls, 1))
    each.sort()
    add("call_p50_us", each[len(each) // 2] * 1e6)
    add("call_p99_us", each[int(0.99 * (len(each) - 1))] * 1e6)
    seconds, _ = ray.get(near[0].drive.remote(far[0], calls * 4, 64))
    add("calls_per_s_1_to_1", calls * 4 / seconds)
    began = time.perf_counter()
    ray.get([n.drive.remote(f, calls, 64) for n, f in zip(near, far)])
    add("calls_per_s_4_to_4", 4 * calls / (time.perf_counter() - began))
    for name, size in (("1_mib", 1 << 20), ("64_mib", 64 << 20)):
        for _ in range(5):
            reference, put_s = ray.get(near[0].put.remote(size))
            get_s = ray.get(far[0].read.remote(reference))
            add(f"put_gb_per_s_{name}", size / put_s / 1e9)
            add(f"get_gb_per_s_{name}", size / get_s / 1e9)
    ray.shutdown()


figures = {}
for _ in range(int(sys.argv[2])):
    measure(int(sys.argv[1]), figures)
print(json.dumps({name: statistics.median(values) for name, values in figures.items()}))
