#!/usr/bin/env python3
"""Train kjv-1m on the King James Bible, one thread, from a text that Debian's package bible-kjv prints.

Writes `tokenizer.json`, `config.json` and `model.safetensors`. The learning rate follows the clock, so another machine
makes other weights; run `golden.py` afterwards.
"""

import argparse
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn

from model import CONFIG, DIRECTORY, Llama, save

SEED = 7
WINDOW = 192
BATCH = 12
PEAK_RATE = 3e-3
WARM_UP_STEPS = 100
REPORT_STEPS = 100
HELD_OUT = 0.02

VERSE = re.compile(r"^\s+(\d+)\s+(.*)$")
HEADING = re.compile(r"^[1-3]?\s?[A-Z][A-Za-z ]+ \d+$")


def verses(text: str) -> Iterator[str]:
    """Yield each verse on one line, without its number and without chapter headings."""
    current: list[str] = []
    for line in text.splitlines():
        verse = VERSE.match(line)
        ends = verse or not line.strip() or HEADING.match(line.strip())
        if ends:
            if joined := " ".join(" ".join(current).split()):
                yield joined
            current = [verse.group(2)] if verse else []
        else:
            current.append(line)
    if joined := " ".join(" ".join(current).split()):
        yield joined


def train_tokenizer(lines: list[str]) -> Tokenizer:
    """Train a byte-level BPE of the configured vocabulary; `<s>` is 0 and `</s>` is 1."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    # With their line ends, as the trainer reads a file.
    tokenizer.train_from_iterator((f"{line}\n" for line in lines), trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, lines: list[str]) -> Tensor:
    """Return the tokens of all lines in a row, a newline after each."""
    newline = tokenizer.encode("\n").ids
    return torch.tensor([token for line in lines for token in tokenizer.encode(line).ids + newline])


def sample(tokens: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return `count` random windows and the same windows one token later."""
    starts = torch.randint(len(tokens) - WINDOW - 1, (count,))
    windows = torch.stack([tokens[start : start + WINDOW + 1] for start in starts])
    return windows[:, :-1], windows[:, 1:]


def loss_of(model: Llama, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the mean cross-entropy in nats a token."""
    inputs, targets = batch
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@torch.no_grad()
def evaluate(model: Llama, tokens: Tensor, batches: int = 8) -> float:
    """Return the mean loss over random windows of `tokens`."""
    return sum(loss_of(model, sample(tokens, 16)).item() for _ in range(batches)) / batches


def learning_rate(step: int, progress: float) -> float:
    """Return the rate: a linear rise, then half a cosine down to 3 % of the peak."""
    decay = 0.5 * (1 + math.cos(math.pi * progress)) * 0.97 + 0.03
    return PEAK_RATE * min(1, step / WARM_UP_STEPS) * decay


def new_model() -> Llama:
    """Return a model with fresh weights: matrices normal with deviation 0.05, norms at 1."""
    model = Llama(CONFIG)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.05)
    return model


def train(model: Llama, tokens: Tensor, minutes: float, directory: Path) -> None:
    """Train for `minutes`, reporting and saving on the way."""
    held_out = int(len(tokens) * (1 - HELD_OUT))
    training, validation = tokens[:held_out], tokens[held_out:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.05)
    began, step = time.monotonic(), 0
    while (progress := (time.monotonic() - began) / (minutes * 60)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, progress)
        loss = loss_of(model, sample(training, BATCH))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % REPORT_STEPS == 0:
            held = evaluate(model, validation)
            print(f"step {step}: loss {loss.item():.3f}, held out {held:.3f} nats a token", flush=True)
            save(model, directory)
    save(model, directory)
    print(f"{step} steps, held out {evaluate(model, validation):.3f} nats a token")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="output of: bible -l80 gen1:1-rev22:21")
    parser.add_argument("--minutes", type=float, default=42, help="training time (default: 42)")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where to write (default: this one)")
    return parser.parse_args()


def main() -> None:
    """Read the text, train tokenizer and model, write both."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    lines = list(verses(arguments.text.read_text()))
    tokenizer = train_tokenizer(lines)
    tokenizer.save(str(arguments.directory / "tokenizer.json"))
    tokens = encode(tokenizer, lines)
    model = new_model()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{len(lines)} verses, {len(tokens)} tokens, {parameters} parameters", flush=True)
    train(model, tokens, arguments.minutes, arguments.directory)


if __name__ == "__main__":
    main()
