"""A Transformer learns to write words backwards, and its attention shows how it does it.

    python examples/reverse.py
    python examples/reverse.py --word attention --figure reverse.png

Half a minute on two cores. The model sees only pairs such as "bread" → "daerb"; that the first letter of the
answer must look at the last letter of the word is something it finds out by itself.
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
LONGEST = 12
CROSS = "decoder.layers.0.cross"


def encode(word: str) -> list[int]:
    """A word as numbers, with its end marked."""
    return [LETTERS.index(letter) + 3 for letter in word] + [END]


def batch(words: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Words, the same words backwards, and where both are filled up."""
    pairs = [(encode(word), encode(word[::-1])) for word in words]
    length = max(len(source) for source, _ in pairs)
    pad = [PAD_ID] * length
    source_BS, target_BT = (torch.tensor([(pair[i] + pad)[:length] for pair in pairs]) for i in (0, 1))
    is_padding_BS = torch.arange(length) >= torch.tensor([len(source) for source, _ in pairs])[:, None]
    return source_BS, target_BT, is_padding_BS


def train(steps: int, seed: int) -> Transformer:
    """A model of one layer on each side, trained on random words."""
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
            ["".join(rng.choices(LETTERS, k=rng.randint(3, LONGEST))) for _ in range(64)]
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
    """What the model makes of a word, and where it looked for each letter."""
    state, token, answer = model.start(torch.tensor([encode(word)])), BEGIN, ""
    with capture(model, CROSS) as maps:
        for _ in range(len(word) + 2):
            logits_BV, state = model.step(torch.tensor([token]), state)
            token = int(logits_BV.argmax())
            if token == END:
                break
            answer += LETTERS[token - 3] if token >= 3 else "?"
    return answer, maps[CROSS][0, 0, : len(answer), : len(word)]


@torch.no_grad()
def accuracy(model: Transformer, seed: int) -> float:
    """The share of letters of 200 unseen words that are right, each predicted from the true ones before it."""
    rng = random.Random(seed + 1)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(3, LONGEST))) for _ in range(200)]
    source_BS, target_BT, is_padding_BS = batch(words)
    best_BT = model(source_BS, F.pad(target_BT[:, :-1], (1, 0), value=BEGIN), is_padding_BS).argmax(-1)
    return float((best_BT == target_BT)[~is_padding_BS].float().mean())


def show(word: str, answer: str, weights_TS: Tensor) -> Table:
    """The weights as a table: a row for each letter written, a column for each letter read."""
    table = Table(box=None, padding=0)
    table.add_column("")
    for letter in word:
        table.add_column(f" {letter}", justify="center")
    for letter, row in zip(answer, weights_TS.tolist(), strict=True):
        table.add_row(f"{letter} ", *("█▓▒░ "[min(4, int(5 - 5 * weight))] * 2 for weight in row))
    return table


def draw(path: Path, word: str, answer: str, weights_TS: Tensor) -> None:
    """The weights as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.5 + 0.4 * len(word), 0.5 + 0.4 * len(answer)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights_TS, cmap="cividis", vmin=0, vmax=1)
    axes.set_xticks(range(len(word)), list(word))
    axes.set_yticks(range(len(answer)), list(answer))
    axes.set_xlabel("read")
    axes.set_ylabel("written")
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    figure.colorbar(image, label="attention")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Trains, writes a word backwards, and shows how; then takes away what it needs for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--word", default="regarding", help=f"3 to {LONGEST} letters from a to z")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figure", type=Path, help="also draw the attention to this file (.png, .svg, .pdf)")
    options = parser.parse_args()
    word = options.word.lower()
    if not 3 <= len(word) <= LONGEST or set(word) - set(LETTERS):
        parser.error(f"--word {options.word}: give 3 to {LONGEST} letters from a to z")
    console = Console(highlight=False)
    model = train(options.steps, options.seed)
    answer, weights_TS = write(model, word)
    console.print(f"{word} → {answer}: for each letter written, where did the model look?\n")
    console.print(show(word, answer, weights_TS))
    console.print(f"\nletters right in 200 unseen words            {accuracy(model, options.seed):7.1%}")
    with intervene(model, drop_positions="*"):
        console.print(f"the same model without its positions         {accuracy(model, options.seed):7.1%}")
    with intervene(model, drop_heads={CROSS: [0]}):
        console.print(f"the same model without attention to the word {accuracy(model, options.seed):7.1%}")
    if options.figure:
        draw(options.figure, word, answer, weights_TS)
        console.print(f"\nthe picture is in {options.figure}")


if __name__ == "__main__":
    main()
