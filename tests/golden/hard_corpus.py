"""The hard corpus of hard_corpus.json, line by line as bytes; hard_corpus.hpp makes the same lines.

"skipped" are numbers of Unicode 17: to the package's Digits they are numbers, to its patterns nothing assigned.
"""
import json
import pathlib

MASK = (1 << 64) - 1
ROW = 128


class SplitMix:
    """runtime/base/random.hpp's."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        x = (self.state + 0x9E3779B97F4A7C15) & MASK
        self.state = x
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return ((x ^ (x >> 31)) * bound) >> 64


SPEC = json.loads((pathlib.Path(__file__).resolve().parent / "hard_corpus.json").read_text(encoding="utf-8"))


def character(code_point):
    if 0xD800 <= code_point < 0xE000 or any(begin <= code_point < end for begin, end in SPEC["skipped"]):
        return b""
    return chr(code_point).encode()


def hard_corpus():
    spec = SPEC
    random = SplitMix(spec["seed"])
    lines = []
    glue = [part.encode() for part in spec["glue"]]
    for begin, end in spec["row_ranges"]:
        for row in range(begin, end, ROW):
            line = b""
            for code_point in range(row, row + ROW):
                line += character(code_point)
                line += glue[random.below(len(glue))]
            lines.append(line)
    for section in spec["sections"]:
        parts = [part.encode() for part in section["parts"]]
        for _ in range(section["lines"]):
            lines.append(b"".join(parts[random.below(len(parts))] for _ in range(1 + random.below(24))))
    planes = spec["unicode"]["planes"]
    for _ in range(spec["unicode"]["lines"]):
        line = b""
        for _ in range(1 + random.below(40)):
            begin, end = planes[random.below(len(planes))]
            line += character(begin + random.below(end - begin))
        lines.append(line)
    parts = [part.encode() for part in spec["bytes"]["parts"]]
    for _ in range(spec["bytes"]["lines"]):
        line = b""
        for _ in range(1 + random.below(40)):
            kind = random.below(3)
            if kind == 0:
                line += bytes([random.below(256)])
            elif kind == 1:
                line += parts[random.below(len(parts))]
            else:
                text = character(random.below(0x110000))
                line += text[:random.below(len(text) + 1)]
        lines.append(line)
    return lines
