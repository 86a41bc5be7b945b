"""Word alignment from cross-attention: how much each target word attended to each source word.

The weights are averaged over all layers and heads of the cross-attention, summed over the tokens of a source word and
averaged over the tokens of a target word.
"""

from dataclasses import dataclass

from regard.errors import RegardError
from regard.explain.trace import Trace
from regard.explain.view import AttentionView


@dataclass(frozen=True)
class Alignment:
    """The words of two sentences, and the attention weight of each target word on each source word."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    """One row per target word. A row sums to less than 1: the rest is attention to the end of the source."""

    def links(self) -> tuple[tuple[int, int], ...]:
        """(source, target) word indices from 0: for each target word, the source word with the largest weight."""
        return tuple((max(range(len(row)), key=row.__getitem__), i) for i, row in enumerate(self.weights) if row)

    def pharaoh(self) -> str:
        """The links in Pharaoh format, `0-0 1-2`: source first, in target order."""
        return " ".join(f"{source}-{target}" for source, target in self.links())


def align(trace: Trace) -> Alignment:
    """The attention of each output word to the words of the other stream."""
    if trace.looks and all(look.asks == look.answers for look in trace.looks):
        raise RegardError("nothing to align: this model has no cross-attention, only self-attention")
    view = AttentionView(trace)
    return Alignment(view.columns, view.rows, tuple(map(tuple, view.weights.tolist())))
