"""Small language models."""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from helpers import random_model
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
    return random_model(model)


def completer(name: str, **changes: int) -> Completer:
    return Completer(gpt2(TOKENIZERS[name], **changes), TOKENIZERS[name])


class Boundless(Gpt2):
    """A GPT-2 with sinusoidal positions, so that it has no maximum length."""

    limit = None  # type: ignore[assignment]

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__(config)
        self.positions = Positions(Sinusoidal(config.width))


def boundless(name: str) -> Completer:
    torch.manual_seed(1)
    config = Gpt2Config(vocab_size=TOKENIZERS[name].vocab_size, width=8, heads=2, ff_width=12, layers=2, context=4)
    return Completer(random_model(Boundless(config)), TOKENIZERS[name])


class Parrot(nn.Module):
    """Predicts these tokens for any input."""

    limit = 1000

    def __init__(self, vocab_size: int, tokens: list[int]) -> None:
        super().__init__()
        self.config, self.tokens = SimpleNamespace(vocab_size=vocab_size), tokens
        self.weight = nn.Parameter(torch.zeros(()))

    def start(self, _tokens: Tensor) -> "ParrotState":
        return ParrotState(0)

    def step(self, tokens: Tensor, state: "ParrotState") -> tuple[Tensor, "ParrotState"]:
        logits = torch.zeros(len(tokens), self.config.vocab_size)
        logits[:, self.tokens[state.count]] = 100.0
        return logits, ParrotState(state.count + 1)


class ParrotState(SimpleNamespace):
    def __init__(self, count: int) -> None:
        super().__init__(count=count)

    def reorder(self, _index: Tensor) -> "ParrotState":
        return self


def parrot(text: str, *, ends: bool = False) -> Completer:
    """Generates this text; text that is not English has one token per byte."""
    tokenizer = TOKENIZERS["pairs"]
    (tokens,) = tokenizer.encode([text])
    assert tokenizer.end is not None
    return Completer(Parrot(tokenizer.vocab_size, [*tokens, *([tokenizer.end] if ends else tokens)]), tokenizer)
