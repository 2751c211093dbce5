"""The peer of `memopd bench tokenizer`: encodes documents with the package `tokenizers` and prints JSON.

    tokenizer_peer.py TOKENIZER_JSON DOCUMENTS REPETITIONS

DOCUMENTS is a JSON list of strings. Prints {"version", "calls": {call: fastest seconds}, "num_ids", "hash"}; the hash is
FNV-1a over all ids, as tokenizer_bench.cpp computes it. One thread: TOKENIZERS_PARALLELISM is off before the import.
"""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers  # noqa: E402: the variables above must stand first


def main():
    tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        documents = json.load(file)
    calls = {
        "encode": lambda: [tokenizer.encode(document, add_special_tokens=False) for document in documents],
        "encode_batch_fast": lambda: tokenizer.encode_batch_fast(documents, add_special_tokens=False),
    }
    seconds, encodings = {}, []
    for _ in range(int(sys.argv[3])):
        for name, call in calls.items():
            begin = time.perf_counter()
            encodings = call()
            seconds[name] = min(seconds.get(name, float("inf")), time.perf_counter() - begin)
    value, count = 0xCBF29CE484222325, 0
    for encoding in encodings:
        for token in encoding.ids:
            value = ((value ^ token) * 0x100000001B3) & ((1 << 64) - 1)
            count += 1
    print(json.dumps({"version": tokenizers.__version__, "calls": seconds, "num_ids": count, "hash": f"{value:016x}"}))


if __name__ == "__main__":
    main()
