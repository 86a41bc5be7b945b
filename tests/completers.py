"""Small models that continue texts."""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers import lively
from regard.blocks.positions import Positions, Sinusoidal
from regard.codecs.gpt2 import ByteBpe, CharacterTokenizer, LosslessTokenizer
from regard.models.gpt2 import Gpt2, Gpt2Config
from regard.tasks.completion import Completer

TEXTS = [
    "ROMEO:\nBut, soft! what light through yonder window breaks?\n\n",
    "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?\n\n",
    "NURSE:\nAnon, good nurse! Sweet Montague, be true.\n\n",
]
TOKENIZERS: dict[str, LosslessTokenizer] = {
    "pairs": ByteBpe.train(280, TEXTS),
    "characters": CharacterTokenizer.learn(TEXTS),
}


def gpt2(tokenizer: LosslessTokenizer, **changes: int) -> Gpt2:
    torch.manual_seed(1)
    shape = {"width": 8, "heads": 2, "ff_width": 12, "layers": 2, "context": 48, **changes}
    model = Gpt2Config(vocab_size=tokenizer.vocab_size, **shape).build()
    return lively(model)


def completer(name: str, **changes: int) -> Completer:
    return Completer(gpt2(TOKENIZERS[name], **changes), TOKENIZERS[name])


class Boundless(Gpt2):
    """A GPT-2 whose positions are computed, so that no text is too long."""

    limit = None  # type: ignore[assignment]

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__(config)
        self.positions = Positions(Sinusoidal(config.width))


def boundless(name: str) -> Completer:
    torch.manual_seed(1)
    config = Gpt2Config(vocab_size=TOKENIZERS[name].vocab_size, width=8, heads=2, ff_width=12, layers=2, context=4)
    return Completer(lively(Boundless(config)), TOKENIZERS[name])


class Parrot(nn.Module):
    """Says these tokens, whatever it reads."""

    limit = 1000

    def __init__(self, vocab_size: int, tokens: list[int]) -> None:
        super().__init__()
        self.config, self.tokens = SimpleNamespace(vocab_size=vocab_size), tokens
        self.weight = nn.Parameter(torch.zeros(()))

    def start(self, _tokens: Tensor) -> "Told":
        return Told(0)

    def step(self, tokens: Tensor, state: "Told") -> tuple[Tensor, "Told"]:
        logits = torch.zeros(len(tokens), self.config.vocab_size)
        logits[:, self.tokens[state.count]] = 100.0
        return logits, Told(state.count + 1)


class Told(SimpleNamespace):
    def __init__(self, count: int) -> None:
        super().__init__(count=count)

    def reorder(self, _index: Tensor) -> "Told":
        return self


def parrot(text: str, *, ends: bool = False) -> Completer:
    """Says this text, one byte a token where it is not English."""
    tokenizer = TOKENIZERS["pairs"]
    (tokens,) = tokenizer.encode([text])
    assert tokenizer.end is not None
    return Completer(Parrot(tokenizer.vocab_size, [*tokens, *([tokenizer.end] if ends else tokens)]), tokenizer)
