"""What is said of a text: one of some labels, or a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batches import TOKENS
from regard.data.labelled import LabelledBatch
from regard.data.pretraining import IGNORED
from regard.errors import RegardError
from regard.explain.reading import Reading, Stream
from regard.tasks.encoding import Encoder
from regard.tasks.texts import as_given, expect_texts


def answers(model: Any, batch: LabelledBatch) -> Tensor:
    """What the model says of each text: the logits of all labels, or one number."""
    return model(*batch.inputs)[:, 0]


def loss(answers_BV: Tensor, label_B: Tensor, smoothing: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed loss of the texts that have a label: cross-entropy or squared distance; and sums to tell of."""
    asked_B = is_asked(label_B)
    answers_BV, label_B = answers_BV[asked_B], label_B[asked_B]
    if label_B.is_floating_point():
        squared = (answers_BV[:, 0] - label_B).square().sum()
        return squared, {"loss": squared.detach()}
    smooth = F.cross_entropy(answers_BV, label_B, reduction="sum", label_smoothing=smoothing)
    with torch.no_grad():
        plain = F.cross_entropy(answers_BV, label_B, reduction="sum")
        return smooth, {"loss": plain, "accuracy": (answers_BV.argmax(1) == label_B).sum()}


def is_asked(label_B: Tensor) -> Tensor:
    """Which texts have a label."""
    return ~label_B.isnan() if label_B.is_floating_point() else label_B != IGNORED


@dataclass(frozen=True)
class Verdict:
    """What is said of a text."""

    label: str | None
    """None where a number is asked for."""
    value: float
    """How sure the model is of the label; or the number."""
    probabilities: dict[str, float]
    """Of all labels."""
    cut: bool
    """The text was longer than the model can take; its end was not read."""

    @property
    def said(self) -> str | float:
        """The label, or the number."""
        return self.value if self.label is None else self.label


class Classifier(Encoder):
    """A BERT that says something of a text, or of two."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What may be said; nothing where it is a number."""
        return self.model.config.labels

    @overload
    def classify(self, texts: str, seconds: str | None = None, *, batch_tokens: int = TOKENS) -> Verdict: ...  # type: ignore[overload-overlap]
    @overload
    def classify(
        self, texts: Sequence[str], seconds: Sequence[str | None] | None = None, *, batch_tokens: int = TOKENS
    ) -> list[Verdict]: ...

    def classify(
        self,
        texts: str | Sequence[str],
        seconds: str | Sequence[str | None] | None = None,
        *,
        batch_tokens: int = TOKENS,
    ) -> Any:
        """A verdict for each text, or for each with its second."""
        others = [seconds] if isinstance(seconds, str) else seconds
        return as_given(texts, self._classify(expect_texts(texts), others, batch_tokens))

    @torch.no_grad()
    def _classify(self, texts: Sequence[str], seconds: Sequence[str | None] | None, batch_tokens: int) -> list[Verdict]:
        if seconds is not None and len(seconds) != len(texts):
            raise RegardError(f"{len(texts)} texts need as many second ones, not {len(seconds)}")
        encoded = self.encode(texts, seconds)
        result: dict[int, Verdict] = {}
        for indices, batch in self.batches(encoded, batch_tokens):
            answers_BV = self.model(*batch.inputs)[:, 0]
            for i, answers_V in zip(indices, answers_BV.cpu(), strict=True):
                result[i] = self.verdict(answers_V, encoded[i].is_cut)
        return [result[i] for i in range(len(texts))]

    def verdict(self, answers_V: Tensor, is_cut: bool = False) -> Verdict:
        """What the answers of the model to a text mean."""
        if not self.labels:
            return Verdict(None, float(answers_V), {}, is_cut)
        chances = dict(zip(self.labels, answers_V.softmax(0).tolist(), strict=True))
        best = max(chances, key=lambda label: chances[label])
        return Verdict(best, chances[best], chances, is_cut)

    @torch.no_grad()
    def reading(self, text: str, said: str | Sequence[int] | None = None) -> Reading:
        """The model at work on a text, and the label that it gives it, or another one."""
        encoded = self.read(text)
        inputs = self.inputs(encoded)
        answers_V = self.model(*inputs)[0, 0]
        if isinstance(said, str):
            if said not in self.labels:
                raise RegardError(f"{said!r} is not a label of this model; it has {', '.join(self.labels) or 'none'}")
            label = self.labels.index(said)
        else:
            label = said[0] if said else int(answers_V.argmax())

        def pieces(tokens: Sequence[int]) -> list[str]:
            return [self.labels[token] if self.labels else f"{float(answers_V):.3g}" for token in tokens]

        name = pieces([label])[0]
        verdict = Stream((label,), (name,), (0,), (name,))
        streams = {"text": self.stream(encoded.tokens, encoded.segments), "verdict": self.stream(encoded.tokens[:1])}
        return Reading(self.model, inputs, streams, "verdict", verdict, (label,), pieces)
