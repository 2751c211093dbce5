#!/usr/bin/env python3
"""Golden ids for policies/text/tokenizer, from the `tokenizers` package (0.23.3 made the committed files).

    python3 -m venv .deps/reference-tokenizers
    .deps/reference-tokenizers/bin/pip install tokenizers==0.23.3
    .deps/reference-tokenizers/bin/python tests/golden/make_tokenizer_golden.py           # writes the goldens
    .deps/reference-tokenizers/bin/python tests/golden/make_tokenizer_golden.py --check FOLDER
        # loads FOLDER/tokenizer.json, saved by memopd from tokenizer_qwen2.json, and compares all ids

Writes beside itself: tokenizer_{qwen2,gpt2,llama3,smollm,strip}.json, as the package saves them, and tokenizer_golden.json:
texts with their ids by each, with special tokens found ("ids") and not ("plain_ids"), and the training corpus.
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
TAGS = ["<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>", "<information>", "</information>"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

CORPUS = [
    "The agent that rewrites its memory cannot rely on what it has dropped. It keeps what it needs, and it's enough.",
    "Kenya is a country. Its capital is Nairobi. Its currency is Kenyan shilling. Its internet code is .ke.",
    "What is the capital of the country of Turkana? Which country is Redonda in? We'll see; they've said they don't.",
    "def keep(response):\n    begin = response.find('memory')\n    return response[max(begin, 0):]\n\n\n",
    "for (int i = 0; i < 1024; ++i) {\n\t\tsum += values[i] * 3.14159;\n\t}\r\n",
    "aaaa aaaaaaa abababab  a  a   a    a\n\n  b\n \n",
    "Straße, cœur, niño, Ångström, İstanbul, naïve café; Москва и Киев; Αθήνα; שלום עולם; مرحبا بالعالم.",
    "東京は日本の首都です。北京是中国的首都。서울은 대한민국의 수도이다. हिन्दी भाषा। ภาษาไทย",
    "😀😃 👩‍👩‍👧‍👦 🇰🇪 ✈️ → ∑ ½ ² Ⅷ ٣ १२३",
] * 2

TEXTS = [
    "", " ", "a", "\n", "hello world", "Hello, World!", " leading", "trailing ", "  two", "tabs\tand\t\ttabs",
    "I'm you're HE'LL we'VE it's 'S'T'Re o'clock don't", "'\u017f \u212a", "12345 3.14159 1,000,000 ٣٤٥ Ⅷ½²",
    "if (x) {\n\n    return y; // done\r\n\r\n}\n\n\n  \n x", "a\u00a0b\u2003c\u3000d\u000be\u000cf\u0085g\u2028h\u200bi\ufeffj",
    "e\u0301 \u00e9 \u1e9b\u0323 \ufb01 \u2460 \uff21 A\u030a \u0344", "Zürich Ångström İ ı ß ẞ ǅ",
    "東京は日本の首都です。北京", "서울은 대한민국 \u1100\u1161\u11a8", "हिन्दी भाषा। ภาษาไทย", "שלום עולם مرحبا بالعالم", "😀😃👩‍👩‍👧‍👦🇰🇪✈️",
    "<think>memory</think><search> Kenya capital</search>", "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<think><think> <|im_end|><answer>x;y</answer >", "<|im_<|im_end|>end|> <thin k> </search></searc", "x<a>y<a><b>z<b>",
    "cafe\u0301 caf\u00e9 CAF\u00c9", "a" * 200, " " * 100 + "x" + " " * 50, "ab" * 77 + "aaaaaaab", "\x00\x01\x7f",
    "user@host.example:/path/to/file-name_2.txt?x=1&y=2#z", "\U0001f468\u200d\U0001f4bb\u0301\u0301 \ud7a3\U00020000",
]


def fuzz(seed, count):
    pool = [" ", "  ", "\n", "\r\n", "\t", "a", "b", "the", "The", "'s", "'", "1", "22", "333", ".", "?!", "é", "e\u0301", "ß",
            "я", "Москва", "中", "東京", "한", "ह", "ि", "😀", "\u200d", "\u00a0", "\u2028", "ſ", "½", "٣", "<think>", "<a>",
            "<a><b>", "<b>", "</search>", "<|im_end|>", "<|", "|>", "_", "-", "\u0301", "\u3000", "café", "cafe\u0301", "aaa"]
    rng = random.Random(seed)
    return ["".join(rng.choice(pool) for _ in range(rng.randint(1, 24))) for _ in range(count)]


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


def train(pre_tokenizer, normalizer=None, vocab_size=700):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=2, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def variants():
    qwen2 = train(split(QWEN2), normalizers.NFC())
    qwen2.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    qwen2.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])

    gpt2 = train(byte_level(True))
    gpt2.add_tokens([AddedToken(tag, normalized=False) for tag in ("<a>", "<a><b>", "<b>")])
    gpt2.add_special_tokens(["<|endoftext|>"])

    llama3 = json.loads(train(split(LLAMA3)).to_str())
    llama3["model"]["ignore_merges"] = True
    llama3["model"]["merges"] = [m for i, m in enumerate(llama3["model"]["merges"]) if i % 7]  # some tokens lose their way
    llama3 = Tokenizer.from_str(json.dumps(llama3))
    llama3.add_special_tokens(["<|begin_of_text|>", "<|im_end|>"])
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing("<|begin_of_text|> $A", None, [("<|begin_of_text|>", llama3.token_to_id("<|begin_of_text|>"))])])

    smollm = train(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
                   normalizers.NFC())
    smollm.add_tokens([AddedToken("cafe\u0301", normalized=True), AddedToken("<think>", normalized=True)])
    smollm.add_special_tokens(["<|im_end|>"])

    strip = train(byte_level(True))
    strip.add_tokens([AddedToken("<word>", single_word=True), AddedToken("<left>", lstrip=True),
                      AddedToken("<right>", rstrip=True, normalized=False), AddedToken("the", single_word=True)])
    strip.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, special=True),
                              AddedToken("<|im_end|>", special=True), AddedToken("<think>", single_word=True, special=True)])
    return {"qwen2": qwen2, "gpt2": gpt2, "llama3": llama3, "smollm": smollm, "strip": strip}


def encode(tokenizer, text, special):
    tokenizer.encode_special_tokens = not special
    return tokenizer.encode(text, add_special_tokens=False).ids


def main():
    if sys.argv[1:2] == ["--check"]:
        golden = json.loads((HERE / "tokenizer_golden.json").read_text())
        saved = Tokenizer.from_file(str(pathlib.Path(sys.argv[2]) / "tokenizer.json"))
        cases = golden["cases"]["qwen2"]
        for case in cases:
            assert encode(saved, case["text"], True) == case["ids"], case["text"]
            assert encode(saved, case["text"], False) == case["plain_ids"], case["text"]
        print(f"{len(cases)} texts, same ids")
        return
    cases = {}
    for index, (name, tokenizer) in enumerate(variants().items()):
        (HERE / f"tokenizer_{name}.json").write_text(tokenizer.to_str(pretty=False) + "\n")
        cases[name] = [{"text": text, "ids": encode(tokenizer, text, True), "plain_ids": encode(tokenizer, text, False)}
                       for text in TEXTS + fuzz(index, 60)]
    golden = {"corpus": CORPUS, "cases": cases}
    lines = json.dumps(golden, ensure_ascii=True, separators=(",", ":")).replace('{"text"', '\n{"text"')
    (HERE / "tokenizer_golden.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
