"""Numbers of SmolLM2-135M-Instruct from transformers, for the weights that `tools/data/get smollm2` makes.

Writes .deps/data/smollm2_golden: expected.safetensors with the ids of a prompt, its logits in float32 and the 64 ids that
follow greedily. Not committed: nor are the weights. Afterwards it loads what memopd saved, when FOLDER is given, and
demands the same logits bit for bit:

  .deps/reference-model/bin/python tests/golden/make_smollm2_golden.py [FOLDER]
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

DATA = pathlib.Path(__file__).parent.parent.parent / ".deps" / "data"
NUM_GREEDY = 64


def main():
    tokenizer = AutoTokenizer.from_pretrained(DATA / "smollm2")
    model = AutoModelForCausalLM.from_pretrained(DATA / "smollm2", dtype=torch.float32).eval()
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Name three large rivers of Africa and say where each of them ends."}],
        tokenize=False, add_generation_prompt=True)
    prompt = tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        logits = model(input_ids=prompt).logits[0]
        # The end of the response does not end it: 64 ids whatever they are.
        ids = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NUM_GREEDY,
                             min_new_tokens=NUM_GREEDY, do_sample=False, eos_token_id=None)[0, prompt.shape[1]:]
    folder = DATA / "smollm2_golden"
    folder.mkdir(exist_ok=True)
    save_file({"prompt": prompt[0].int(), "logits": logits, "greedy": ids.int()}, folder / "expected.safetensors")
    print(f"{folder}: prompt of {prompt.shape[1]}, greedily: {tokenizer.decode(ids)!r}")
    if len(sys.argv) > 1:
        AutoTokenizer.from_pretrained(sys.argv[1])
        saved, notes = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, output_loading_info=True)
        assert not any(notes.values()), notes
        with torch.no_grad():
            assert torch.equal(saved.eval()(input_ids=prompt).logits[0], logits)
        print(f"{sys.argv[1]}: transformers loads it and scores identically")


if __name__ == "__main__":
    main()
