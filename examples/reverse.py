"""A Transformer learns to write words backwards, and its attention shows how.

    python examples/reverse.py
    python examples/reverse.py --word attention --figure reverse.png

This takes half a minute on two cores. The model sees only pairs such as "bread" → "daerb". It learns by itself that
the first letter of the output must attend to the last letter of the word.
"""

import argparse
import random
import string
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from regard.blocks.capture import capture, intervene
from regard.models.transformer import Transformer, TransformerConfig

LETTERS = string.ascii_lowercase
PAD_ID, BEGIN, END = 0, 1, 2
MAX_LENGTH = 12
CROSS = "decoder.layers.0.cross"


def encode(word: str) -> list[int]:
    """The token ids of a word, followed by the end token."""
    return [LETTERS.index(letter) + 3 for letter in word] + [END]


def batch(words: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """A batch of words, the same words backwards, and the padding mask of both."""
    pairs = [(encode(word), encode(word[::-1])) for word in words]
    length = max(len(source) for source, _ in pairs)
    pad = [PAD_ID] * length
    source_BS, target_BT = (torch.tensor([(pair[i] + pad)[:length] for pair in pairs]) for i in (0, 1))
    is_padding_BS = torch.arange(length) >= torch.tensor([len(source) for source, _ in pairs])[:, None]
    return source_BS, target_BT, is_padding_BS


def train(steps: int, seed: int) -> Transformer:
    """A model with one encoder layer and one decoder layer, trained on random words."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    config = TransformerConfig(
        vocab_size=len(LETTERS) + 3, width=64, heads=1, ff_width=128, encoder_layers=1, decoder_layers=1, dropout=0.0
    )
    model = config.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=0.1)
    for _ in track(range(steps), description="training", console=Console(stderr=True), transient=True):
        source_BS, target_BT, is_padding_BS = batch(
            ["".join(rng.choices(LETTERS, k=rng.randint(3, MAX_LENGTH))) for _ in range(64)]
        )
        given_BT = F.pad(target_BT[:, :-1], (1, 0), value=BEGIN)
        logits_BTV = model(source_BS, given_BT, is_padding_BS)
        loss = F.cross_entropy(logits_BTV.flatten(0, 1), target_BT.flatten(), ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def write(model: Transformer, word: str) -> tuple[str, Tensor]:
    """The model's output for a word, and the attention weights of each output letter."""
    state, token, output = model.start(torch.tensor([encode(word)])), BEGIN, ""
    with capture(model, CROSS) as maps:
        for _ in range(len(word) + 2):
            logits_BV, state = model.step(torch.tensor([token]), state)
            token = int(logits_BV.argmax())
            if token == END:
                break
            output += LETTERS[token - 3] if token >= 3 else "?"
    return output, maps[CROSS][0, 0, : len(output), : len(word)]


@torch.no_grad()
def accuracy(model: Transformer, seed: int) -> float:
    """The accuracy on the letters of 200 unseen words, with the correct previous letters as input (teacher forcing)."""
    rng = random.Random(seed + 1)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(3, MAX_LENGTH))) for _ in range(200)]
    source_BS, target_BT, is_padding_BS = batch(words)
    best_BT = model(source_BS, F.pad(target_BT[:, :-1], (1, 0), value=BEGIN), is_padding_BS).argmax(-1)
    return float((best_BT == target_BT)[~is_padding_BS].float().mean())


def show(word: str, output: str, weights_TS: Tensor) -> Table:
    """The weights as a table: one row per output letter, one column per input letter."""
    table = Table(box=None, padding=0)
    table.add_column("")
    for letter in word:
        table.add_column(f" {letter}", justify="center")
    for letter, row in zip(output, weights_TS.tolist(), strict=True):
        table.add_row(f"{letter} ", *("█▓▒░ "[min(4, int(5 - 5 * weight))] * 2 for weight in row))
    return table


def draw(path: Path, word: str, output: str, weights_TS: Tensor) -> None:
    """Saves the weights as a figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.5 + 0.4 * len(word), 0.5 + 0.4 * len(output)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights_TS, cmap="cividis", vmin=0, vmax=1)
    axes.set_xticks(range(len(word)), list(word))
    axes.set_yticks(range(len(output)), list(output))
    axes.set_xlabel("input")
    axes.set_ylabel("output")
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    figure.colorbar(image, label="attention")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Trains the model, shows its attention for one word, and measures its accuracy with and without parts of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--word", default="regarding", help=f"word to reverse: 3 to {MAX_LENGTH} letters from a to z")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figure", type=Path, help="also save the attention weights as a figure (.png, .svg, .pdf)")
    options = parser.parse_args()
    word = options.word.lower()
    if not 3 <= len(word) <= MAX_LENGTH or set(word) - set(LETTERS):
        parser.error(f"--word {options.word}: give 3 to {MAX_LENGTH} letters from a to z")
    console = Console(highlight=False)
    model = train(options.steps, options.seed)
    output, weights_TS = write(model, word)
    console.print(f"{word} → {output}: which input letters does each output letter attend to?\n")
    console.print(show(word, output, weights_TS))
    console.print(f"\naccuracy on the letters of 200 unseen words  {accuracy(model, options.seed):7.1%}")
    with intervene(model, drop_positions="*"):
        console.print(f"the same model without positional encodings  {accuracy(model, options.seed):7.1%}")
    with intervene(model, drop_heads={CROSS: [0]}):
        console.print(f"the same model without cross-attention       {accuracy(model, options.seed):7.1%}")
    if options.figure:
        draw(options.figure, word, output, weights_TS)
        console.print(f"\n{options.figure}: the attention weights")


if __name__ == "__main__":
    main()
