"""Who aligns with whom: what a translator looked at in the source for each word it wrote.

The weights are those of all attentions to the source, averaged over layers and heads, summed over the tokens of a
source word and averaged over the tokens of a target word.
"""

from dataclasses import dataclass

from regard.errors import RegardError
from regard.explain.trace import Trace
from regard.explain.view import AttentionView


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


def align(trace: Trace) -> Alignment:
    """What each word that is said looked at in the other stream."""
    if trace.looks and all(look.asks == look.answers for look in trace.looks):
        raise RegardError("nothing to align: in this model, everything looks at its own stream")
    view = AttentionView(trace)
    return Alignment(view.columns, view.rows, tuple(map(tuple, view.weights.tolist())))
