"""SmolLM2's tokenizer as Hugging Face files, from the metadata of a GGUF file.

Standard library only. The pre-tokenizer is the one that GGUF's name "smollm" stands for: single digits, then GPT-2's
pattern.
"""
import json
import struct

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, file):
        self.file = file

    def scalar(self, code):
        return struct.unpack("<" + code, self.file.read(struct.calcsize("<" + code)))[0]

    def string(self):
        return self.file.read(self.scalar("Q")).decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            item, count = self.scalar("I"), self.scalar("Q")
            return [self.value(item) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def metadata(file):
    assert file.read(4) == b"GGUF"
    reader = Reader(file)
    reader.scalar("I")  # version
    reader.scalar("Q")  # tensors
    result = {}
    for _ in range(reader.scalar("Q")):
        key = reader.string()
        result[key] = reader.value(reader.scalar("I"))
    return result


def write_tokenizer(values, folder):
    """tokenizer.json and tokenizer_config.json of the file whose `metadata` is `values`; returns the number of ids."""
    prefix = "tokenizer.ggml."
    tokens, control = values[prefix + "tokens"], 3
    assert values[prefix + "pre"] == "smollm"
    added = [{"id": index, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True}
             for index, (token, kind) in enumerate(zip(tokens, values[prefix + "token_type"])) if kind == control]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: index for index, token in enumerate(tokens)},
                  "merges": [merge.split(" ") for merge in values[prefix + "merges"]]}}
    config = {"bos_token": tokens[values[prefix + "bos_token_id"]], "eos_token": tokens[values[prefix + "eos_token_id"]],
              "chat_template": values["tokenizer.chat_template"], "clean_up_tokenization_spaces": False,
              "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2))
    return len(tokens)
