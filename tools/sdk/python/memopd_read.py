#!/usr/bin/env python3
"""Reads what a memopd run recorded: its ledger (every model call as ids) and its trajectories (the same as text).

usage: memopd_read.py RUN [--records | --trajectories]      (default: a summary)

    for record in read_ledger("runs/quickstart"):
        if record["kind"] == "invocation":
            call = record["invocation"]
            print(call["trajectory_id"]["step"], call["response_token_ids"], call["rollout_log_probs"])

One file without dependencies: Python 3.11, libzstd.so.1 for compressed records, libxxhash.so.0 to verify checksums (without
it damage is noticed only where a record cannot be decoded). The format is stated in runtime/ledger/ledger.hpp.
"""

import ctypes
import ctypes.util
import json
import struct
import sys
from collections import Counter
from pathlib import Path

KINDS = {1: "invocation", 2: "trajectory", 3: "step", 4: "dropped", 5: "rolled_back", 6: "pruned"}
SPAN_KINDS = ("instruction", "question", "kept", "observation")
FINISH_REASONS = ("stop", "eos", "length", "aborted")
STATUSES = ("completed", "invalid_action", "turn_limit", "context_limit", "env_failed", "timeout", "aborted", "stale",
            "teacher_unavailable")
MAGIC = b"MEMOPDLG"
HEADER_BYTES = 16  # of a segment, and of a record


class LedgerError(Exception):
    """Damage, or something this reader does not know; names file and byte."""


def read_ledger(path):
    """Yields each record in the order of writing, as a dict with "kind". A torn end of the last segment is an end.

    path: a run folder or a ledger folder.
    """
    segments = _segments(Path(path))
    for segment in segments:
        yield from _read_segment(segment, segment == segments[-1])


def read_trajectories(path):
    """Yields each line of RUN/trajectories/<split>-<step>.jsonl as a dict, files in the order of split and step."""
    folder = Path(path)
    folder = folder / "trajectories" if (folder / "trajectories").is_dir() else folder
    for file in sorted(folder.glob("*.jsonl"), key=_split_and_step):
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


def trajectory_name(trajectory_id):
    """"train.12.3.0" of the map that records hold."""
    return "{split}.{step}.{task_index}.{sample}".format(**trajectory_id)


def _split_and_step(file):
    split, _, step = file.stem.rpartition("-")
    return split, int(step)


def _segments(path):
    folder = path / "ledger" if (path / "ledger").is_dir() else path
    segments = sorted(folder.glob("segment-*.ledger"))
    if not segments:
        raise LedgerError(f"ledger {folder}: no segment there")
    numbers = [int(segment.stem.removeprefix("segment-")) for segment in segments]
    for before, number in zip(numbers, numbers[1:]):
        if number != before + 1:
            raise LedgerError(f"ledger {folder}: segment-{before + 1:06}.ledger is missing")
    return segments


def _read_segment(path, is_last):
    size = path.stat().st_size
    with open(path, "rb") as file:
        header = file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES or (is_last and not any(header)):
            if is_last:
                return
            raise LedgerError(f"ledger {path}, byte 0: no whole segment header")
        if header[:8] != MAGIC:
            raise LedgerError(f"ledger {path}: not a ledger segment")
        if header[8] != 1:
            raise LedgerError(f"ledger {path}: found version {header[8]}, allowed 1")
        at = HEADER_BYTES
        while at < size:
            head = file.read(HEADER_BYTES)
            whole = len(head) == HEADER_BYTES and at + HEADER_BYTES + int.from_bytes(head[:4], "little") <= size
            body = file.read(int.from_bytes(head[:4], "little")) if whole else b""
            end = at + HEADER_BYTES + len(body)
            if not whole or not _is_intact(head, body):
                if is_last and (end == size or not whole):
                    return
                raise LedgerError(f"ledger {path}, byte {at}: damaged record")
            yield _decode_record(path, at, head, body)
            at = end


def _decode_record(path, at, head, body):
    kind, encoding = head[4], head[5]
    if kind not in KINDS or encoding not in (0, 1):
        raise LedgerError(f"ledger {path}, byte {at}: kind {kind}, encoding {encoding} of a record")
    try:
        plain = _decompress(body) if encoding == 1 else body
        record = _unpack(memoryview(plain), 0)[0]
        return {"kind": KINDS[kind]} | _named(record)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise LedgerError(f"ledger {path}, byte {at}: {error}") from error


def _named(record):
    """Numbers of enumerations become names, packed floats lists."""
    if "invocation" in record:
        call = record["invocation"]
        for name in ("rollout_log_probs", "log_kept_mass"):
            call[name] = list(struct.unpack(f"<{len(call[name]) // 4}f", call[name]))
        call["finish_reason"] = FINISH_REASONS[call["finish_reason"]]
        for span in call["spans"]:
            span["kind"] = SPAN_KINDS[span["kind"]]
    if "trajectory" in record:
        record["trajectory"]["status"] = STATUSES[record["trajectory"]["status"]]
    return record


def _unpack(data, at):
    """One msgpack value and the offset behind it."""
    marker = data[at]
    at += 1
    if marker <= 0x7f:
        return marker, at
    if marker >= 0xe0:
        return marker - 0x100, at
    if marker <= 0x8f:
        return _unpack_map(data, at, marker & 0x0f)
    if marker <= 0x9f:
        return _unpack_array(data, at, marker & 0x0f)
    if marker <= 0xbf:
        return _text(data, at, marker & 0x1f)
    if marker in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[marker], at
    if marker in _NUMBERS:
        form = _NUMBERS[marker]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if marker in _LENGTHS:
        form, read = _LENGTHS[marker]
        length = struct.unpack_from(form, data, at)[0]
        return read(data, at + struct.calcsize(form), length)
    raise ValueError(f"msgpack marker 0x{marker:02x}")


def _unpack_array(data, at, count):
    values = []
    for _ in range(count):
        value, at = _unpack(data, at)
        values.append(value)
    return values, at


def _unpack_map(data, at, count):
    pairs = {}
    for _ in range(count):
        key, at = _unpack(data, at)
        pairs[key], at = _unpack(data, at)
    return pairs, at


def _bytes(data, at, length):
    if at + length > len(data):
        raise IndexError("msgpack value is cut off")
    return bytes(data[at:at + length]), at + length


def _text(data, at, length):
    raw, at = _bytes(data, at, length)
    return raw.decode("utf-8", "replace"), at


_NUMBERS = {0xca: ">f", 0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i",
            0xd3: ">q"}
_LENGTHS = {0xc4: (">B", _bytes), 0xc5: (">H", _bytes), 0xc6: (">I", _bytes),
            0xd9: (">B", _text), 0xda: (">H", _text), 0xdb: (">I", _text),
            0xdc: (">H", _unpack_array), 0xdd: (">I", _unpack_array),
            0xde: (">H", _unpack_map), 0xdf: (">I", _unpack_map)}


def _load_library(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


_zstd = _load_library("libzstd.so.1")
_xxhash = _load_library("libxxhash.so.0")
if _xxhash is not None:
    _xxhash.XXH3_64bits.restype = ctypes.c_uint64
    _xxhash.XXH3_64bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    _xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    _xxhash.XXH3_64bits_withSeed.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
if _zstd is not None:
    _zstd.ZSTD_getFrameContentSize.restype = ctypes.c_uint64
    _zstd.ZSTD_getFrameContentSize.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    _zstd.ZSTD_decompress.restype = ctypes.c_size_t
    _zstd.ZSTD_decompress.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    _zstd.ZSTD_isError.argtypes = (ctypes.c_size_t,)


def _is_intact(head, body):
    if _xxhash is None:
        return True
    if _xxhash.XXH3_64bits(head[:6], 6) & 0xffff != int.from_bytes(head[6:8], "little"):
        return False
    seed = _xxhash.XXH3_64bits(head[:8], 8)
    return _xxhash.XXH3_64bits_withSeed(body, len(body), seed) == int.from_bytes(head[8:16], "little")


def _decompress(frame):
    if _zstd is None:
        raise LedgerError("a compressed record, and no libzstd.so.1 on this machine")
    size = _zstd.ZSTD_getFrameContentSize(frame, len(frame))
    if size > 1 << 32:  # also the two values that stand for "unknown" and "error"
        raise ValueError("not a zstd frame of known size")
    plain = ctypes.create_string_buffer(max(1, size))
    written = _zstd.ZSTD_decompress(plain, size, frame, len(frame))
    if _zstd.ZSTD_isError(written) or written != size:
        raise ValueError("a damaged zstd frame")
    return plain.raw[:size]


def summary(path):
    """Counts of a run's records: a dict."""
    kinds, statuses, dropped, splits = Counter(), Counter(), Counter(), Counter()
    prompt_tokens = response_tokens = trained = 0
    for record in read_ledger(path):
        kinds[record["kind"]] += 1
        if record["kind"] == "invocation":
            splits[record["invocation"]["trajectory_id"]["split"]] += 1
            prompt_tokens += len(record["invocation"]["prompt_token_ids"])
            response_tokens += len(record["invocation"]["response_token_ids"])
        elif record["kind"] == "trajectory":
            statuses[record["trajectory"]["status"]] += 1
        elif record["kind"] == "step":
            trained += len(record["trajectories"])
        elif record["kind"] == "dropped":
            dropped[record["reason"]] += 1
    return {"records": dict(kinds), "statuses": dict(statuses), "invocations": dict(splits), "trained": trained,
            "dropped": dict(dropped), "prompt_tokens": prompt_tokens, "response_tokens": response_tokens}


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--records"], ["--trajectories"]):
        print(__doc__.strip().splitlines()[2], file=sys.stderr)
        return 2
    try:
        if arguments[1:] == ["--records"]:
            for record in read_ledger(arguments[0]):
                print(json.dumps(record))
        elif arguments[1:] == ["--trajectories"]:
            for line in read_trajectories(arguments[0]):
                print(json.dumps(line))
        else:
            print(json.dumps(summary(arguments[0]), indent=1))
    except LedgerError as error:
        print(f"memopd_read: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
