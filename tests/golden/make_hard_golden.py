#!/usr/bin/env python3
"""Golden hashes over the hard corpus, from the `tokenizers` package (0.23.3 made the committed file).

    .deps/reference-tokenizers/bin/python tests/golden/make_hard_golden.py            # environment: make_tokenizer_golden.py
    .deps/reference-tokenizers/bin/python tests/golden/make_hard_golden.py --explain N VARIANT
        # what the reference makes of line N

Writes hard_golden.txt: a line of the corpus each, with one hash for each tokenizer: tokenizer_{qwen2,gpt2,llama3,smollm,
strip}.json beside this script, and SmolLM2's own from .deps/data/smollm2 (tools/data/get smollm2), which is not committed.
A hash covers the ids with special tokens, the ids without, and the byte lengths of the pieces before merging.
Bytes that are not UTF-8 are no text to the package. The rule of policies/text is written down here with its parts: each
run of them is a piece of its own, merged by the model, and the stretches between are texts of their own.
"""
import pathlib
import re
import sys

from tokenizers import Tokenizer

from hard_corpus import hard_corpus

HERE = pathlib.Path(__file__).resolve().parent
VARIANTS = {name: HERE / f"tokenizer_{name}.json" for name in ("qwen2", "gpt2", "llama3", "smollm", "strip")}
VARIANTS["smollm2"] = HERE.parent.parent / ".deps" / "data" / "smollm2" / "tokenizer.json"
ALPHABET = {}


def alphabet(data):
    """The byte alphabet of ByteLevel, learned from it for ASCII and known for the rest."""
    if not ALPHABET:
        printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = [byte for byte in range(256) if byte not in printable]
        ALPHABET.update({byte: chr(byte) for byte in printable})
        ALPHABET.update({byte: chr(0x100 + index) for index, byte in enumerate(others)})
    return "".join(ALPHABET[byte] for byte in data)


def stretches(line):
    """(is_text, text or bytes) in order."""
    for part in re.split("([\udc80-\udcff]+)", line.decode("utf-8", "surrogateescape")):
        if part:
            is_text = not "\udc80" <= part[0] <= "\udcff"
            yield is_text, part if is_text else part.encode("utf-8", "surrogateescape")


def ids_of(tokenizer, line, special):
    tokenizer.encode_special_tokens = not special
    ids = []
    for is_text, part in stretches(line):
        if is_text:
            ids += tokenizer.encode(part, add_special_tokens=False).ids
        else:
            ids += [token.id for token in tokenizer.model.tokenize(alphabet(part))]
    return ids


def pieces_of(tokenizer, line):
    sizes = []
    for is_text, part in stretches(line):
        if is_text:
            text = tokenizer.normalizer.normalize_str(part) if tokenizer.normalizer else part
            sizes += [len(piece) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
        else:
            sizes.append(len(part))
    return sizes


def fold(*lists):
    value = 0xCBF29CE484222325
    for numbers in lists:
        for number in [*numbers, 0xFFFFFFFF]:
            value = ((value ^ number) * 0x100000001B3) & ((1 << 64) - 1)
    return (value ^ (value >> 24) ^ (value >> 48)) & 0xFFFFFF


def views(tokenizer, line):
    return ids_of(tokenizer, line, True), ids_of(tokenizer, line, False), pieces_of(tokenizer, line)


def main():
    lines = hard_corpus()
    if sys.argv[1:2] == ["--explain"]:
        line, tokenizer = lines[int(sys.argv[2])], Tokenizer.from_file(str(VARIANTS[sys.argv[3]]))
        print(line, *views(tokenizer, line), sep="\n")
        return
    columns = []
    for path in VARIANTS.values():
        tokenizer = Tokenizer.from_file(str(path))
        columns.append([fold(*views(tokenizer, line)) for line in lines])
    rows = [" ".join(f"{value:06x}" for value in row) for row in zip(*columns)]
    (HERE / "hard_golden.txt").write_text(" ".join(VARIANTS) + "\n" + "\n".join(rows) + "\n")
    print(f"{len(rows)} lines, {sum(map(len, lines))} bytes")


if __name__ == "__main__":
    main()
