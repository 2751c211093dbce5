"""Seeds of trajectories and invocations, from the published definitions of splitmix64 and FNV-1a.

Prints the numbers in tests/unit/runtime/data/trajectory_id_test.cpp.
"""

MASK = (1 << 64) - 1


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def chain(seed, *parts):
    for part in parts:
        seed = splitmix64(seed ^ splitmix64(part))
    return seed


trajectory = chain(42, fnv1a("train"), 12, 3, 0)
print(f"trajectory_seed(42, train.12.3.0) = {trajectory}")
print(f"invocation_seed(.., 2)            = {chain(trajectory, fnv1a('invocation'), 2)}")
