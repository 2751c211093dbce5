"""Golden numbers of the decoder, from PyTorch and Hugging Face transformers.

Writes model/{qwen2,qwen3,llama,llama3}: a tiny Hugging Face folder (qwen3: heads wider than hidden_size / heads; llama3:
its RoPE scaling, in bfloat16 and two shards), trajectories of three calls with rewritten memory, and for
float32 and float64 the logits of every call run alone and the gradients of the summed log-probs of all response tokens.

float32 is transformers as it is. float64 is the same model with the float32 steps that transformers takes inside norm,
rotary table and softmax lifted to float64, so that 1e-10 means something; the script checks both against each other.

  python3 -m venv .deps/reference-model, then torch==2.11.0 (CPU use), transformers, safetensors, numpy:
  .deps/reference-model/bin/python tests/golden/make_model_golden.py
"""
import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)
from transformers.models.llama import modeling_llama
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

HERE = pathlib.Path(__file__).parent / "model"
NAMES = ("qwen2", "qwen3", "llama", "llama3")
SHAPE = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, rms_norm_eps=1e-6, bos_token_id=None, eos_token_id=1, pad_token_id=None)


def norm_forward(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def llama3_frequencies(inv, rope):
    """Llama 3's scaling as its reference states it, by wave lengths."""
    context, wave = rope["original_max_position_embeddings"], 2 * torch.pi / inv
    low, high = context / rope["low_freq_factor"], context / rope["high_freq_factor"]
    blend = (context / wave - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    middle = (1 - blend) * inv / rope["factor"] + blend * inv
    return torch.where(wave > low, inv / rope["factor"], torch.where(wave < high, inv, middle))


def rotary_forward(self, x, position_ids):
    dim = getattr(self.config, "head_dim", None) or self.config.hidden_size // self.config.num_attention_heads
    rope = self.config.rope_parameters
    inv = rope["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope["rope_type"] == "llama3":
        inv = llama3_frequencies(inv, rope)
    angle = position_ids[..., None].to(torch.float64) * inv
    angle = torch.cat([angle, angle], -1)
    return angle.cos().to(x.dtype), angle.sin().to(x.dtype)


def lift_to_float64():
    """From here on the library computes in the dtype of the weights throughout."""
    for norm in (modeling_qwen2.Qwen2RMSNorm, modeling_qwen3.Qwen3RMSNorm, modeling_llama.LlamaRMSNorm):
        norm.forward = norm_forward
    for rotary in (modeling_qwen2.Qwen2RotaryEmbedding, modeling_qwen3.Qwen3RotaryEmbedding,
                   modeling_llama.LlamaRotaryEmbedding):
        rotary.forward = rotary_forward


def trajectories():
    """Protocol mem1: call j sees the question, what was kept of response j-1 (all of it here) and observation j-1."""
    g = torch.Generator().manual_seed(5)
    draw = lambda n: torch.randint(2, 32, (n,), generator=g).tolist()
    instructions = draw(3)
    out = []
    for question, lengths, observations in (((4, (3, 2, 4), (2, 3))), (3, (2, 5, 1), (4, 1))):
        q = instructions + draw(question)
        prompt, calls = q, []
        for j, n in enumerate(lengths):
            response = draw(n)
            calls.append({"prompt": prompt, "response": response})
            if j < 2:
                prompt = q + response + draw(observations[j])
        out.append(calls)
    return out


def compute(model, data):
    tensors, total = {}, 0
    for t, calls in enumerate(data):
        for j, call in enumerate(calls):
            ids = torch.tensor([call["prompt"] + call["response"]])
            logits = model(input_ids=ids).logits[0]
            begin, n = len(call["prompt"]) - 1, len(call["response"])
            rows = logits[begin:begin + n]
            total = total + rows.log_softmax(-1).gather(1, torch.tensor(call["response"])[:, None]).sum()
            tensors[f"logits.{t}.{j}"] = rows.detach().clone()
    model.zero_grad()
    total.backward()
    for name, parameter in model.named_parameters():
        tensors[f"grad.{name}"] = parameter.grad.clone()
    tensors["log_prob"] = total.detach().clone()
    return tensors


def build(name):
    torch.manual_seed(11)
    if name == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True, use_sliding_window=False,
                                             rope_parameters={"rope_type": "default", "rope_theta": 1000.0}, **SHAPE))
    elif name == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(num_key_value_heads=2, head_dim=6, tie_word_embeddings=True,
                                             use_sliding_window=False,
                                             rope_parameters={"rope_type": "default", "rope_theta": 1000.0}, **SHAPE))
    elif name == "llama":
        model = LlamaForCausalLM(LlamaConfig(num_key_value_heads=4, tie_word_embeddings=False,
                                             rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, **SHAPE))
    else:
        # Four pairs of a head: one stays, one is blended, two turn eight times slower.
        rope = {"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 48}
        model = LlamaForCausalLM(LlamaConfig(num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
                                             rope_parameters=rope, **SHAPE))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.5 if "embed" in key or "lm_head" in key else parameter.shape[1] ** -0.5)
            elif key.endswith("bias"):
                parameter.normal_(0, 0.3)
            else:
                parameter.uniform_(0.5, 1.5)
            if name == "llama3":
                parameter.copy_(parameter.bfloat16())  # the numbers are those of the weights on disk
    return model.float().eval()


def main():
    data = trajectories()
    HERE.mkdir(parents=True, exist_ok=True)
    (HERE / "trajectories.json").write_text(json.dumps(data) + "\n")
    float32 = {}
    for name in NAMES:
        model = build(name)
        if name == "llama3":
            build(name).bfloat16().save_pretrained(HERE / name, max_shard_size="5KB")
        else:
            model.save_pretrained(HERE / name)
        (HERE / name / "generation_config.json").unlink(missing_ok=True)
        float32[name] = compute(model, data)
        save_file(float32[name], HERE / name / "expected_float32.safetensors")
    lift_to_float64()
    for name in NAMES:
        exact = compute(build(name).double(), data)
        save_file(exact, HERE / name / "expected_float64.safetensors")
        for key, value in exact.items():
            error = (float32[name][key].double() - value).abs().max() / value.abs().max()
            assert error < 1e-5, (name, key, error)
    print("torch", torch.__version__, "transformers", transformers.__version__)


main()
