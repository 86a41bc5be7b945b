"""The evaluation of a language model: loss, perplexity and bits per byte of a text."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.config import Config
from regard.counts import counted
from regard.data.text import lines_with_ends
from regard.evaluation.comparison import Examples
from regard.tasks.evaluation import EvaluatedWith, Evaluation


@dataclass(frozen=True, kw_only=True)
class TextSettings(Config):
    """The evaluation on a text has no settings."""


class EvaluatesText:
    """A language model that can be evaluated."""

    losses: Any
    evaluated_with: ClassVar = EvaluatedWith("a language model", ("data",), TextSettings)

    def evaluate(self, files: Mapping[str, Path], settings: TextSettings) -> Evaluation:  # noqa: ARG002, there are none
        """Loss, perplexity and bits per byte of a text."""
        (path,) = self.evaluated_with.paths(files)
        losses = self.losses("".join(lines_with_ends(path)))
        scores = losses.scores()
        lines = [
            f"loss           {scores.loss:8.4f}   per token; {counted(scores.tokens, 'token')}",
            f"perplexity     {scores.perplexity:8.2f}",
            f"bits per byte  {scores.bits_per_byte:8.4f}   {counted(scores.bytes, 'byte')}",
        ]
        return Evaluation(dataclasses.asdict(scores), lines, examples=Examples(losses.blocks(), _bits, True))


def _bits(blocks: npt.NDArray[np.float64]) -> dict[str, float]:
    """Bits per byte of blocks of text, each with its loss and its bytes."""
    loss, size = blocks.sum(axis=0)
    return {"bits per byte": loss / math.log(2) / size}
