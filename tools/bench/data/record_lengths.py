#!/usr/bin/env python3
"""Writes the call lengths of one training step, as `memopd bench alignpack` reads them.

    record_lengths.py RUN_DIRECTORY STEP > quickstart_lengths.tsv

Reads the trajectories of the run (a text view of its ledger). The question is the prompt of call 0; what a later call
kept is the whole response before it where the prompt repeats its text, else the longest end of it that is repeated,
counted in proportion to its characters.
"""
import json
import pathlib
import sys


def kept_tokens(question, previous, prompt):
    """Tokens of `previous` (a call) that `prompt` repeats right after the question."""
    text, rest = previous["response"], prompt[len(question):]
    for cut in range(len(text) + 1):
        if rest.startswith(text[cut:]):
            return round(previous["response_tokens"] * (len(text) - cut) / max(1, len(text)))
    return 0


def rows(lines):
    for index, line in enumerate(lines):
        trajectory = json.loads(line)
        task = int(trajectory["trajectory_id"].split(".")[2])
        first, previous = trajectory["calls"][0], None
        for number, call in enumerate(trajectory["calls"]):
            kept = kept_tokens(first["prompt"], previous, call["prompt"]) if previous else 0
            observation = call["prompt_tokens"] - first["prompt_tokens"] - kept
            yield task, index, number, 0, first["prompt_tokens"], kept, observation, call["response_tokens"]
            previous = call


def main():
    run, step = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    print(f"# Tokens of every model call of step {step} of a quickstart run, written by record_lengths.py.")
    print("task", "trajectory", "call", "instruction", "question", "kept", "observation", "response", sep="\t")
    with open(run / "trajectories" / f"train-{step}.jsonl", encoding="utf-8") as lines:
        for row in rows(lines):
            print(*row, sep="\t")


if __name__ == "__main__":
    main()
