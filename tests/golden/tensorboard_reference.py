"""Writes tensorboard_events.bin with TensorBoard's own record writer and protocol buffers, and reads event files with
its own reader.

    python3 -m venv .deps/reference-tensorboard
    .deps/reference-tensorboard/bin/pip install tensorboard "setuptools<80"
    .deps/reference-tensorboard/bin/python tests/golden/tensorboard_reference.py            # makes the golden file
    .deps/reference-tensorboard/bin/python tests/golden/tensorboard_reference.py FOLDER     # prints the scalars in it
"""

import pathlib
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.compat.tensorflow_stub import io  # noqa: F401  (registers the file system)
from tensorboard.summary.writer.record_writer import RecordWriter

GOLDEN = pathlib.Path(__file__).with_name("tensorboard_events.bin")


def events():
    yield event_pb2.Event(wall_time=1767225600.0, file_version="brain.Event:2")
    values = [("eval/f1", -2.0), ("train/grad_norm", float("inf")), ("train/loss", 0.1)]
    summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=t, simple_value=v) for t, v in values])
    yield event_pb2.Event(wall_time=1767225601.5, step=300, summary=summary)


if len(sys.argv) > 1:
    accumulator = event_accumulator.EventAccumulator(sys.argv[1])
    accumulator.Reload()
    for tag in sorted(accumulator.Tags()["scalars"]):
        print(tag, [(event.step, event.wall_time, event.value) for event in accumulator.Scalars(tag)])
else:
    with GOLDEN.open("wb") as file:
        writer = RecordWriter(file)
        for event in events():
            writer.write(event.SerializeToString(deterministic=True))
    print(GOLDEN, GOLDEN.stat().st_size, "bytes")
