"""Translation: the loss of a batch, and a translator that takes and gives text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.blocks.loss import linear_cross_entropy
from regard.data.batches import Batch, make_batch, pad
from regard.data.tokenizer import BEGIN, END, PAD, Tokenizer
from regard.decoding.beam import Beam, Hypothesis
from regard.models.interface import Autoregressive


class EncoderDecoder(Autoregressive, Protocol):
    """What translation asks of a model."""

    def hidden(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """A vector for each target token, from which the next one is read."""
        ...

    def output_weight(self) -> Tensor:
        """The matrix that turns such a vector into logits."""
        ...


def loss(model: EncoderDecoder, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor, int]:
    """The loss of a batch, summed over its real target tokens; the same without smoothing; and how many they are."""
    is_real_BT = batch.next_BT != PAD
    x_ND = model.hidden(batch.source_BS, batch.target_BT)[is_real_BT]
    smooth, plain = linear_cross_entropy(x_ND, model.output_weight(), batch.next_BT[is_real_BT], smoothing)
    return smooth, plain, x_ND.size(0)


@dataclass(frozen=True)
class Translation:
    """A translation, and how sure the model is of it."""

    text: str
    score: float
    """Log-probability a token, or what another length penalty makes of it."""
    cut: bool
    """It had to end because it was as long as it may be."""


class Translator:
    """A model with its tokenizers."""

    def __init__(self, model: nn.Module, source: Tokenizer, target: Tokenizer) -> None:
        self.model: Any = model.eval()
        self.source, self.target = source, target

    def translate(
        self, texts: Sequence[str], *, beam: int = 4, n_best: int = 1, penalty: float = 1.0, batch_tokens: int = 2048
    ) -> list[list[Translation]]:
        """For each text its `n_best` translations, best first. Texts of like length are translated together."""
        how = Beam(BEGIN, END, beam, n_best, penalty)
        sentences = self.source.encode(texts)
        results: list[list[Translation]] = [[Translation("", 0.0, False)] for _ in texts]
        for indices in in_batches([len(sentence) for sentence in sentences], batch_tokens // beam):
            source_BS = pad([sentences[i] for i in indices], after=END)
            longest = [2 * len(sentences[i]) + 20 for i in indices]
            for i, found in zip(indices, how.search(self.model, source_BS, longest), strict=True):
                results[i] = [self._translation(hypothesis) for hypothesis in found]
        return results

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        return Translation(self.target.decode([hypothesis.tokens])[0], hypothesis.score, hypothesis.cut)

    @torch.no_grad()
    def score(self, sources: Sequence[str], targets: Sequence[str], batch_tokens: int = 4096) -> list[float]:
        """The log-probability of each target, given its source."""
        encoded = list(zip(self.source.encode(sources), self.target.encode(targets), strict=True))
        scores = [0.0] * len(encoded)
        for indices in in_batches([max(map(len, pair)) for pair in encoded], batch_tokens, with_empty=True):
            batch = make_batch([encoded[i][0] for i in indices], [encoded[i][1] for i in indices])
            logits_BTV = self.model(batch.source_BS, batch.target_BT)
            logs_BT = logits_BTV.log_softmax(-1).gather(2, batch.next_BT[:, :, None])[:, :, 0]
            sums_B = logs_BT.masked_fill(batch.next_BT == PAD, 0.0).sum(1)
            for i, score in zip(indices, sums_B.tolist(), strict=True):
                scores[i] = score
        return scores


def in_batches(lengths: Sequence[int], tokens: int, with_empty: bool = False) -> Iterable[list[int]]:
    """Numbers of sentences of like length, the longest first, in batches of at most so many tokens or one sentence."""
    order = sorted((i for i, length in enumerate(lengths) if length or with_empty), key=lambda i: -lengths[i])
    batch: list[int] = []
    for i in order:
        if batch and (lengths[batch[0]] + 1) * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
