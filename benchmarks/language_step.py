"""One training step of nanoGPT's CPU configuration, Regard's loop compared with nanoGPT's model and loop.

    python benchmarks/language_step.py --text tinyshakespeare.txt --nanogpt nanoGPT

4 layers, 4 heads, width 128, 64 characters, 12 windows, AdamW, gradient clipping. nanoGPT is a clone of its repository,
and its step is that of its train.py: a batch of random windows, forward, backward, clipping, update. Regard's step is
that of `regard train gpt2/characters`, with its batch, its check for non-finite numbers, and its logging. nanoGPT's
configuration has no biases; Regard has them, as in GPT-2, so nanoGPT is also measured with them. Each runs in its own
process.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from harness import SeparateProcess, interleave, machine, report
from regard import recipe
from regard.recipe import training as training_of
from regard.training.report import Report

STEPS, CONTEXT, WINDOWS = 20, 64, 12


class Ours:
    """Training steps of Regard."""

    def __init__(self, text: Path, run: str) -> None:
        changes = [f'data.text="{text}"', f'run="{run}"']
        self.training = training_of(recipe.read("gpt2/characters", changes), Report(Console(quiet=True)))

    def __call__(self) -> None:
        """Run `STEPS` steps."""
        for _ in range(STEPS):
            self.training.advance()


class Theirs:
    """Training steps of nanoGPT."""

    def __init__(self, text: Path, folder: Path, bias: bool) -> None:
        sys.path.insert(0, str(folder))
        from model import GPT, GPTConfig  # type: ignore[import-not-found]

        characters = sorted(set(text.read_text("utf-8")))
        number = {character: i for i, character in enumerate(characters)}
        self.data = np.array([number[character] for character in text.read_text("utf-8")], np.uint16)
        shape = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": CONTEXT, "bias": bias, "dropout": 0.0}
        self.model = GPT(GPTConfig(vocab_size=len(characters), **shape)).train()
        self.optimizer = self.model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")

    def __call__(self) -> None:
        """Run `STEPS` steps."""
        for _ in range(STEPS):
            begins = torch.randint(len(self.data) - CONTEXT, (WINDOWS,))
            tokens, following = (
                torch.stack([torch.from_numpy(self.data[i + shift :][:CONTEXT].astype(np.int64)) for i in begins])
                for shift in (0, 1)
            )
            _, loss = self.model(tokens, following)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--nanogpt", type=Path, required=True, help="clone of the nanoGPT repository")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as run:
        contenders: dict[str, Callable[[], None]] = {
            "Regard": SeparateProcess(Ours, options.text, f"{run}/run"),
            "nanoGPT": SeparateProcess(Theirs, options.text, options.nanogpt, False),
            "nanoGPT, biases as in GPT-2": SeparateProcess(Theirs, options.text, options.nanogpt, True),
        }
        seconds = interleave(contenders, rounds=25)
    print(machine())
    print(report(seconds, STEPS, "steps"))


if __name__ == "__main__":
    main()
