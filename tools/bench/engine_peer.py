"""The peer of `memopd bench engine`: the package `transformers` generates for the same requests and prints JSON.

    engine_peer.py MODEL REQUESTS THREADS BATCH..

MODEL is a folder, REQUESTS a JSON list of {"prompt": ids, "length": response tokens}. Greedy, float32, no end of sequence:
a response ends at its length. Requests are sorted by length, so that those of a batch end together, padded on the left.
Prints {"version", "rows": [{"batch", "seconds", "tokens"}]}; tokens counts no more than was asked for.
"""
import json
import sys
import time

import torch
import transformers


def generate(model, batch):
    width = max(len(request["prompt"]) for request in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros(len(batch), width, dtype=torch.long)
    for row, request in enumerate(batch):
        ids[row, width - len(request["prompt"]):] = torch.tensor(request["prompt"])
        mask[row, width - len(request["prompt"]):] = 1
    longest = max(request["length"] for request in batch)
    output = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=longest, do_sample=False)
    return sum(min(request["length"], output.shape[1] - width) for request in batch)


def main():
    folder, requests, threads, *batches = sys.argv[1:]
    torch.set_num_threads(int(threads))
    with open(requests, encoding="utf-8") as file:
        requests = sorted(json.load(file), key=lambda request: request["length"])
    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config = transformers.GenerationConfig(eos_token_id=None, pad_token_id=0)
    rows = []
    with torch.inference_mode():
        generate(model, [{"prompt": requests[0]["prompt"][:16], "length": 2}])
        for size in map(int, batches):
            begin, tokens = time.perf_counter(), 0
            for at in range(0, len(requests), size):
                tokens += generate(model, requests[at:at + size])
            rows.append({"batch": size, "seconds": time.perf_counter() - begin, "tokens": tokens})
    print(json.dumps({"version": transformers.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
