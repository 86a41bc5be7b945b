"""What BERT is pre-trained to do: guess hidden words, and tell whether one sentence follows the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.blocks.loss import linear_cross_entropy_and_hits
from regard.data.pretraining import IGNORED, PretrainingBatch
from regard.data.wordpiece import MASK
from regard.errors import RegardError
from regard.explain.reading import Reading
from regard.tasks.encoding import Encoder


class Pretrained(Protocol):
    """What pre-training asks of an encoder: BERT's head of words, the embedding that it reads, and a pooler."""

    @property
    def tokens(self) -> Any:
        """The token embedding."""
        ...

    @property
    def head(self) -> Any:
        """The `WordHead`."""
        ...

    def pool(self, x_BTD: Tensor) -> Tensor:
        """The vector that stands for the whole text."""
        ...


def word_loss(
    model: Pretrained, x_BTD: Tensor, batch: PretrainingBatch, smoothing: float = 0.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed loss of the words asked for; without smoothing; and how many of them were guessed."""
    asked_BT = batch.words_BT != IGNORED
    words_N, x_ND = batch.words_BT[asked_BT], model.head(x_BTD[asked_BT][None])[0]
    smooth, plain, guessed = linear_cross_entropy_and_hits(
        x_ND, model.tokens.weight, model.head.bias, words_N, smoothing
    )
    return smooth, {"loss": plain, "mlm_loss": plain, "mlm_accuracy": guessed}


def next_loss(model: Pretrained, x_BTD: Tensor, batch: PretrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed loss of the question whether the second text follows, and sums to tell of."""
    asked_B = batch.follows_B != IGNORED
    answers_B2 = model.head.next(model.pool(x_BTD))[:, 0][asked_B]
    follows_B = batch.follows_B[asked_B]
    loss, right = F.cross_entropy(answers_B2, follows_B, reduction="sum"), (answers_B2.argmax(1) == follows_B).sum()
    return loss, {"loss": loss.detach(), "nsp_loss": loss.detach(), "nsp_accuracy": right}


@dataclass(frozen=True)
class Guess:
    """A word that may stand behind a mask."""

    word: str
    probability: float


class Guesser(Encoder):
    """A BERT that knows what may stand where."""

    @torch.no_grad()
    def fill(self, text: str, count: int = 5) -> list[list[Guess]]:
        """For each `[MASK]` of a text the most probable words, best first."""
        encoded = self.read(text)
        if self.tokenizer.mask not in encoded.tokens:
            beyond = f", or none in its first {self.model.limit} tokens" if encoded.is_cut else ""
            raise RegardError(f"there is no {MASK} in the text{beyond}")
        logits_TV = self.model(*self.inputs(encoded))[0]
        places = [i for i, token in enumerate(encoded.tokens) if token == self.tokenizer.mask]
        best = logits_TV[places].softmax(-1).topk(min(count, logits_TV.size(1)))
        return [
            [Guess(word, p) for word, p in zip(self.tokenizer.pieces(words), chances, strict=True)]
            for words, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    @torch.no_grad()
    def follows(self, one: str, other: str) -> float:
        """The probability that one sentence follows the other."""
        if self.model.head.next is None:
            raise RegardError("this model was never asked whether one sentence follows another")
        x_BTD = self.model.hidden(*self.inputs(self.encode([one], [other])[0]))
        return float(self.model.head.next(self.model.pool(x_BTD))[0, 0].softmax(0)[0])

    @torch.no_grad()
    def reading(self, text: str, said: str | Sequence[int] | None = None) -> Reading:
        """The model at work on a text, and what it says stands there: guesses for masks, unless others are given."""
        encoded = self.read(text)
        inputs = self.inputs(encoded)
        if said is None:
            best_T, mask = self.model(*inputs)[0].argmax(1).tolist(), self.tokenizer.mask
            said = [guess if token == mask else token for guess, token in zip(best_T, encoded.tokens, strict=True)]
        spoken = self.read(said).tokens if isinstance(said, str) else said
        streams = {"text": self.stream(encoded.tokens, encoded.segments)}
        return Reading(self.model, inputs, streams, "text", self.stream(spoken), tuple(spoken), self.tokenizer.pieces)
