"""The kjv-1m model in torch: configuration, layers and files, shared by `train.py` and `golden.py`.

A Llama as Hugging Face lays it out, with the arithmetic spelt out so that it runs on torch 1.13 and later.
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

DIRECTORY = Path(__file__).resolve().parent

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "max_position_embeddings": 1024,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_scaling": None,
}


def linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear map without bias."""
    return nn.Linear(inputs, outputs, bias=False)


class RmsNorm(nn.Module):
    """Root-mean-square normalisation with a learnt scale."""

    def __init__(self, config: dict):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config["hidden_size"]))
        self.epsilon = config["rms_norm_eps"]

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class Attention(nn.Module):
    """Causal attention with grouped key/value heads and rotary positions."""

    def __init__(self, config: dict):
        super().__init__()
        hidden, self.head_dim = config["hidden_size"], config["head_dim"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.q_proj = linear(hidden, self.heads * self.head_dim)
        self.k_proj = linear(hidden, self.kv_heads * self.head_dim)
        self.v_proj = linear(hidden, self.kv_heads * self.head_dim)
        self.o_proj = linear(self.heads * self.head_dim, hidden)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Attend within each sequence of `[batch, positions, hidden]`."""
        length = x.shape[1]
        query = rotate(self.split(self.q_proj(x)), turns)
        key = self.share(rotate(self.split(self.k_proj(x)), turns))
        value = self.share(self.split(self.v_proj(x)))
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_dim)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        attended = scores.masked_fill(future, -math.inf).softmax(-1) @ value
        return self.o_proj(attended.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        """Turn `[batch, positions, heads * head_dim]` into `[batch, heads, positions, head_dim]`."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def share(self, x: Tensor) -> Tensor:
        """Repeat key/value heads so that there is one for every query head."""
        return x.repeat_interleave(self.heads // self.kv_heads, 1)


class FeedForward(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, config: dict):
        super().__init__()
        hidden, width = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = linear(hidden, width)
        self.up_proj = linear(hidden, width)
        self.down_proj = linear(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Compute `down(silu(gate(x)) * up(x))`."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One transformer layer."""

    def __init__(self, config: dict):
        super().__init__()
        self.input_layernorm = RmsNorm(config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RmsNorm(config)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
        """Add attention, then feed-forward, to the residual stream."""
        x = x + self.self_attn(self.input_layernorm(x), turns)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """The whole model; its parameters have Hugging Face's names without the leading `model.`."""

    def __init__(self, config: dict):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RmsNorm(config)
        self.turns = rotary_turns(config)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of `[batch, positions]` tokens, `[batch, positions, vocabulary]`."""
        cosine, sine = (table[: tokens.shape[1]] for table in self.turns)
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, (cosine, sine))
        return self.norm(x) @ self.embed_tokens.weight.T


def rotary_turns(config: dict) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of every position's rotary angles, `[context, head_dim]` each."""
    head_dim = config["head_dim"]
    frequency = 1 / config["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.outer(torch.arange(config["max_position_embeddings"]).float(), frequency)
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair of elements `i`, `i + head_dim / 2` by its position's angle."""
    cosine, sine = turns
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def save(model: Llama, directory: Path) -> None:
    """Write `model.safetensors` (bf16) and `config.json`."""
    weights = {
        f"model.{name}": value.detach().to(torch.bfloat16).contiguous()
        for name, value in model.state_dict().items()
    }
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(CONFIG, indent=2))


def load(directory: Path) -> Llama:
    """Read a directory that `save` wrote; the weights become f32."""
    model = Llama(json.loads((directory / "config.json").read_text()))
    weights = load_file(directory / "model.safetensors")
    model.load_state_dict({name.removeprefix("model."): value.float() for name, value in weights.items()})
    return model.eval()
