"""Beam search: the best few continuations of each sentence go on, the others are dropped.

A beam of one is greedy search. A hypothesis is worth its log-probability divided by (tokens)^penalty, its end counted
as a token. One that has ended keeps its place in the beam, so that fewer go on. The search of a sentence is over when
none goes on, or none that does can become better than what has ended; then it leaves the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, forced
from regard.models.interface import Autoregressive

NEVER = float("-inf")


@dataclass(frozen=True)
class Beam:
    """How to search: N sentences, each with a beam of `width` rows."""

    begin: int
    end: int
    width: int = 4
    n_best: int = 1
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if self.penalty < 0:
            raise ValueError(f"a length penalty is at least 0, got {self.penalty}")
        if not 1 <= self.n_best <= self.width:
            raise ValueError(f"a beam of {self.width} gives 1 to {max(1, self.width)} best, not {self.n_best}")

    @torch.no_grad()
    def search(
        self, model: Autoregressive, inputs: Tensor, longest: Sequence[int], prefixes: Sequence[Sequence[int]] = ()
    ) -> list[list[Hypothesis]]:
        """For each sentence its `n_best` hypotheses, best first.

        Args:
            longest: how many tokens each sentence may have.
            prefixes: for each sentence, tokens that it must begin with.
        """
        found: list[list[Hypothesis]] = [[] for _ in longest]
        if not longest:
            return found
        active = list(range(len(longest)))
        state = model.start(inputs)
        device = inputs.device
        tokens_NWT = torch.full((len(longest), self.width, 1), self.begin, device=device)
        steps_NWT = torch.zeros(len(longest), self.width, 0, device=device)
        # all rows of a sentence are the same at first, so that only one of them counts
        totals_NW = torch.tensor([0.0] + [NEVER] * (self.width - 1), device=device).repeat(len(longest), 1)
        everyone = torch.arange(len(longest), device=device)
        rows = everyone.repeat_interleave(self.width)
        for length in range(max(longest) + 1):
            if not torch.equal(rows, everyone):  # else all go on as they are, and need not be copied
                state = state.reorder(rows)
                everyone = torch.arange(len(rows), device=device)
            logits, state = model.step(tokens_NWT[:, :, -1].flatten(), state)
            logs_NWV = logits.log_softmax(-1).unflatten(0, (len(active), self.width))
            at_limit = [length >= longest[sentence] for sentence in active]
            for n, sentence in enumerate(active):
                _force(logs_NWV[n], forced(self.end, length, longest[sentence], prefixes[sentence] if prefixes else ()))
            vocabulary = logs_NWV.size(2)
            sums = (totals_NW[:, :, None].to(logs_NWV) + logs_NWV).flatten(1)
            best, index = sums.topk(min(2 * self.width, sums.size(1)), dim=1)
            parent, token = index // vocabulary, index % vocabulary
            ends = token == self.end
            places = [self.width - len(found[sentence]) for sentence in active]
            for n, rank in (ends & (best > NEVER)).nonzero().tolist():
                if rank >= places[n]:
                    continue
                row = int(parent[n, rank])
                scores = [*steps_NWT[n, row].tolist(), float(logs_NWV[n, row, self.end])]
                words = tuple(tokens_NWT[n, row, 1:].tolist())
                score = float(best[n, rank]) / (length + 1) ** self.penalty
                found[active[n]].append(Hypothesis(words, tuple(scores), score, at_limit[n]))
            # of twice as many candidates as the beam is wide, at most one a row has ended
            order = ends.int().argsort(dim=1, stable=True)[:, : self.width]
            totals_NW, parent, token = (x.gather(1, order) for x in (best, parent, token))
            for n, sentence in enumerate(active):
                totals_NW[n, self.width - len(found[sentence]) :] = NEVER
            going = [
                n
                for n, sentence in enumerate(active)
                if not at_limit[n] and self._may_improve(found[sentence], float(totals_NW[n, 0]), longest[sentence])
            ]
            if not going:
                break
            active = [active[n] for n in going]
            where = torch.tensor(going, device=device)
            step = logs_NWV.flatten(1).gather(1, parent * vocabulary + token)
            row = parent[:, :, None].expand(-1, -1, length + 1)
            tokens_NWT = torch.cat((tokens_NWT.gather(1, row), token[:, :, None]), dim=2)[where]
            steps_NWT = torch.cat((steps_NWT.gather(1, row[:, :, :length]), step[:, :, None]), dim=2)[where]
            totals_NW = totals_NW[where]
            rows = (parent + torch.arange(len(parent), device=device)[:, None] * self.width)[where].flatten()
        return [sorted(hypotheses, key=lambda h: -h.score)[: self.n_best] for hypotheses in found]

    def _may_improve(self, found: Sequence[Hypothesis], total: float, longest: int) -> bool:
        """Whether a hypothesis of this log-probability could become one of the best, were the rest of it certain."""
        if total == NEVER:
            return False
        best = sorted((hypothesis.score for hypothesis in found), reverse=True)
        return len(best) < self.n_best or total / (longest + 1) ** self.penalty > best[self.n_best - 1]


def _force(logs_WV: Tensor, token: int | None) -> None:
    """Leaves no choice but this token, if there is one."""
    if token is not None:
        kept_W = logs_WV[:, token].clone()
        logs_WV.fill_(NEVER)
        logs_WV[:, token] = kept_W
