#!/usr/bin/env python3
"""Golden prompts of chat templates, from apply_chat_template of `transformers` (5.24.0 made the committed file).

    .deps/reference-model/bin/python tests/golden/make_chat_golden.py [FOLDER]   # environment: make_model_golden.py

ChatML templates are written down here; {llama3,llama3_1,qwen2_5}.jinja are read from FOLDER (default
.deps/chat-templates), where the chat_template texts of Meta-Llama-3-8B-Instruct, Meta-Llama-3.1-8B-Instruct and
Qwen2.5-7B-Instruct belong: they are not committed, their fingerprints are.
Writes chat_golden.json: templates with text or fingerprint, and conversations with what each makes of them; for ChatML
the ids by tokenizer_qwen2.json too.
"""
import json
import pathlib
import sys

from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).resolve().parent
BOS = "<|begin_of_text|>"
TURNS = ("{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
DEFAULT = ("{{% for message in messages %}}{{% if loop.first and messages[0]['role'] != 'system' %}}"
           "{{{{ '<|im_start|>system\n{}<|im_end|>\n' }}}}{{% endif %}}")
COMMITTED = {
    "chatml": "{% for message in messages %}" + TURNS,
    "qwen2": DEFAULT.format("You are a helpful assistant.") + TURNS,
    "smollm2": DEFAULT.format("You are a helpful AI assistant named SmolLM, trained by Hugging Face") + TURNS,
    "qwen2_escaped": (DEFAULT.format("You are a helpful assistant.") + TURNS).replace("\n", "\\n") + "\n",
}
SYSTEM = {"role": "system", "content": " You search.\nBe brief. "}
QUESTION = {"role": "user", "content": "What is the capital of Kenya?"}
CONVERSATIONS = [
    [QUESTION],
    [SYSTEM, QUESTION],
    [SYSTEM, QUESTION, {"role": "assistant", "content": "\u3000Nairobi.\x1f\n"}, {"role": "user", "content": "\tAnd Mali's? 12345"}],
    [QUESTION, {"role": "assistant", "content": "<think>x</think> Nairobi"}],
    [{"role": "system", "content": ""}, {"role": "user", "content": "Straße 東京 e\u0301 {{ x }} {% if %}"}],
]


def fingerprint(text):
    value = 0xCBF29CE484222325
    for byte in text.replace("\\n", "\n").rstrip().encode():
        value = ((value ^ byte) * 0x100000001B3) & ((1 << 64) - 1)
    return f"{value:016x}"


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / ".deps" / "chat-templates")
    templates = dict(COMMITTED)
    for name in ("llama3", "llama3_1", "qwen2_5"):
        templates[name] = (folder / f"{name}.jinja").read_text(encoding="utf-8")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizer_qwen2.json"), bos_token=BOS)
    result = {"bos_token": BOS, "templates": [], "cases": []}
    for name, text in templates.items():
        result["templates"].append({"name": name, "fingerprint": fingerprint(text),
                                    "chat_template": text if name in COMMITTED else None})
        for messages in CONVERSATIONS:
            for opens in (False, True):
                case = {"template": name, "messages": messages, "opens_assistant": opens,
                        "text": tokenizer.apply_chat_template(messages, chat_template=text, tokenize=False,
                                                              add_generation_prompt=opens)}
                if name in COMMITTED:
                    case["ids"] = tokenizer.apply_chat_template(messages, chat_template=text, tokenize=True,
                                                                add_generation_prompt=opens, return_dict=False)
                result["cases"].append(case)
    lines = json.dumps(result, ensure_ascii=True, separators=(",", ":")).replace('{"template"', '\n{"template"')
    (HERE / "chat_golden.json").write_text(lines + "\n")
    print(f"{len(result['cases'])} prompts of {len(templates)} templates")


if __name__ == "__main__":
    main()
