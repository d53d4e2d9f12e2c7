#!/usr/bin/env python3
"""Compute the reference answers of kjv-1m in torch: greedy, f32, without a cache.

Writes `golden.json`, or compares with it (`--check`).
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer

from model import DIRECTORY, Llama, load

PROMPTS = [
    "In the beginning",
    "And the LORD said unto Moses",
    "Blessed are the",
    "The wisdom of",
    "And it came to pass",
]


def answer(model: Llama, tokenizer: Tokenizer, prompt: str, length: int) -> dict:
    """Continue one prompt greedily and note the smallest gap between the two best logits on the way."""
    prompt_ids = tokenizer.encode(prompt).ids
    tokens, margin = list(prompt_ids), float("inf")
    for _ in range(length):
        best = model(torch.tensor([tokens]))[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        tokens.append(int(best.indices[0]))
    return {
        "prompt": prompt,
        "prompt_ids": prompt_ids,
        "greedy_ids": tokens[len(prompt_ids):],
        "min_top2_margin": round(margin, 4),
    }


def check(answers: list[dict], path: Path) -> int:
    """Compare answers with a file; return the exit status."""
    expected = json.loads(path.read_text())
    differing = [new["prompt"] for new, old in zip(answers, expected, strict=True) if new != old]
    for prompt in differing:
        print(f"differs from {path.name}: {prompt!r}", file=sys.stderr)
    return 1 if differing else 0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="model directory (default: this one)")
    parser.add_argument("--length", type=int, default=64, help="tokens an answer (default: 64)")
    parser.add_argument("--check", action="store_true", help="compare with golden.json instead of writing it")
    return parser.parse_args()


@torch.no_grad()
def main() -> int:
    """Answer all prompts, print them, then write or compare."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    model = load(arguments.directory)
    tokenizer = Tokenizer.from_file(str(arguments.directory / "tokenizer.json"))
    answers = [answer(model, tokenizer, prompt, arguments.length) for prompt in PROMPTS]
    for item in answers:
        text = tokenizer.decode(item["prompt_ids"] + item["greedy_ids"])
        print(f"{text!r} (smallest margin {item['min_top2_margin']})")
    path = arguments.directory / "golden.json"
    if arguments.check:
        return check(answers, path)
    path.write_text(json.dumps(answers, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
