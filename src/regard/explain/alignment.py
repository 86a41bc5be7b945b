"""Who aligns with whom: what a translator looked at in the source for each word it wrote.

The weights are those of all attentions to the source, averaged over layers and heads, summed over the tokens of a
source word and averaged over the tokens of a target word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.blocks.capture import capture


@dataclass(frozen=True)
class Alignment:
    """The words of two sentences, and how much each target word looked at each source word."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    """A row for each target word. What a row lacks to 1 went to the end of the source."""

    def links(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a source and a target word, counted from 0: for each target word the one it looked at most."""
        return tuple((max(range(len(row)), key=row.__getitem__), i) for i, row in enumerate(self.weights) if row)

    def pharaoh(self) -> str:
        """The links as `0-0 1-2`, source first, in the order of the target."""
        return " ".join(f"{source}-{target}" for source, target in self.links())


@torch.no_grad()
def token_weights(model: nn.Module, source_BS: Tensor, target_BT: Tensor) -> Tensor:
    """What each target token looks at in the source when the next one is to be written."""
    pattern = model.cross_attention
    assert isinstance(pattern, str)
    with capture(model, pattern) as maps:
        model(source_BS, target_BT)
    return torch.stack([weights_BHTS.mean(1) for weights_BHTS in maps.values()]).mean(0)


def by_words(weights_TS: Tensor, target_words: Sequence[int], source_words: Sequence[int]) -> Tensor:
    """Weights between tokens as weights between words, given the word that each token belongs to; -1: to none."""
    target_TW, source_SW = (_membership(words).to(weights_TS) for words in (target_words, source_words))
    sums_VW = target_TW.mT @ weights_TS[: len(target_words), : len(source_words)] @ source_SW
    return sums_VW / target_TW.sum(0)[:, None]


def _membership(words: Sequence[int]) -> Tensor:
    numbers = torch.tensor(words, dtype=torch.long)
    return numbers[:, None] == torch.arange(max(words, default=-1) + 1)
