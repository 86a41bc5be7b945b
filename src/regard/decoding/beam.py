"""Beam search: the best few continuations of each sentence go on, the others are dropped.

A beam of one is greedy search. A hypothesis is worth its log-probability divided by (tokens)^penalty, its end counted
as a token. One that has ended keeps its place in the beam, so that fewer go on. The search of a sentence is over when
none goes on, or none that does can become better than what has ended; then it leaves the batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.hypothesis import NEVER, Hypothesis, forced
from regard.errors import RegardError
from regard.models.interface import Autoregressive

BLOCK = 64  # tokens of which the best one is found first
MANY = 2**15  # tokens of all rows; with fewer, torch's own way to the best is as fast
Candidate = tuple[float, float, int, int]
"""A way to go on: its total, the token's log-probability, the number of the row in its beam, the token."""


class BeamRow(NamedTuple):
    """A hypothesis that goes on, as its last token and the row that it continues."""

    token: int
    log: float
    """The token's log-probability."""
    total: float
    """That of all tokens so far; `NEVER` in a row that only keeps the batch in shape."""
    before: Optional["BeamRow"] = None

    def ended(self, log: float, score: float, truncated: bool) -> Hypothesis:
        """What it is once an end of this log-probability has come after it."""
        row, tokens, logs = self, [], [log]
        while row.before is not None:  # the one that begins is no token of the text
            tokens.append(row.token)
            logs.append(row.log)
            row = row.before
        return Hypothesis(tuple(tokens[::-1]), tuple(logs[::-1]), score, truncated)


@dataclass(frozen=True)
class Beam:
    """How to search: N sentences, each with a beam of `width` rows."""

    begin: int
    end: int
    width: int = 4
    n_best: int = 1
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.length_penalty <= 10:
            raise RegardError(f"a length penalty is from 0 to 10, got {self.length_penalty}")
        if not 1 <= self.n_best <= self.width:
            raise RegardError(f"a beam of {self.width} gives 1 to {max(1, self.width)} best, not {self.n_best}")

    @torch.no_grad()
    def search(
        self,
        model: Autoregressive,
        inputs: tuple[Tensor, ...],
        max_length: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
    ) -> list[list[Hypothesis]]:
        """For each sentence its `n_best` hypotheses, best first.

        Args:
            inputs: what the model starts with, a row for each sentence.
            longest: how many tokens each sentence may have.
            prefixes: for each sentence, tokens that it must begin with.
        """
        found: list[list[Hypothesis]] = [[] for _ in max_length]
        if not max_length:
            return found
        state, device = model.start(*inputs), inputs[0].device
        # all rows of a sentence are the same at first, so that only one of them counts
        begin = [BeamRow(self.begin, 0.0, total) for total in [0.0] + [NEVER] * (self.width - 1)]
        beams = dict.fromkeys(range(len(max_length)), begin)
        index, count = [sentence for sentence in beams for _ in begin], len(beams)
        for length in range(max(max_length) + 1):
            if index != list(range(count)):  # else all go on as they are, and need not be copied
                state = state.reorder(torch.tensor(index, device=device))
            rows = [row for beam in beams.values() for row in beam]
            logits, state = model.step(torch.tensor([row.token for row in rows], device=device), state)
            logs_BV = logits.log_softmax(-1)
            for n, sentence in enumerate(beams):
                token = forced(self.end, length, max_length[sentence], prefixes[sentence] if prefixes else ())
                _force(logs_BV[n * self.width : (n + 1) * self.width], token)
            count, index, going = len(rows), [], {}
            candidates = self._candidates(logs_BV, [row.total for row in rows])
            for n, ((sentence, beam), best) in enumerate(zip(beams.items(), candidates, strict=True)):
                if next_rows := self._next(beam, best, found[sentence], length, max_length[sentence]):
                    index += [n * self.width + parent for parent, _ in next_rows]
                    going[sentence] = [row for _, row in next_rows]
            if not going:
                break
            beams = going
        if not all(found):
            raise RegardError("the model finds nothing probable; are there weights that are not finite numbers?")
        return [sorted(hypotheses, key=lambda h: -h.score)[: self.n_best] for hypotheses in found]

    def _next(
        self, beam: Sequence[BeamRow], best: Iterable[Candidate], found: list[Hypothesis], length: int, max_length: int
    ) -> list[tuple[int, BeamRow]]:
        """The rows that go on, each with the number of the one it continues; what has ended is added to `found`."""
        rows: list[tuple[int, BeamRow]] = []
        at_limit = length >= max_length
        for total, log, parent, token in islice(best, self.width - len(found)):
            if not total > NEVER:
                break
            if token == self.end:
                found.append(beam[parent].ended(log, total / (length + 1) ** self.length_penalty, at_limit))
            else:
                rows.append((parent, BeamRow(token, log, total, beam[parent])))
        if at_limit or not rows or not self._may_improve(found, rows[0][1].total, max_length):
            return []
        return rows + [(0, BeamRow(self.begin, NEVER, NEVER))] * (self.width - len(rows))

    def _candidates(self, logs_BV: Tensor, totals: Sequence[float]) -> Iterator[Iterable[Candidate]]:
        """For each sentence the best ways to go on, best first, as many as the beam is wide."""
        logs_BK, tokens_BK = top_few(logs_BV, self.width)
        each = logs_BK.size(1)
        totals_BK = logs_BK + torch.tensor(totals, dtype=logs_BK.dtype, device=logs_BK.device)[:, None]
        totals_NC, logs_NC, tokens_NC = (x_BK.view(-1, self.width * each) for x_BK in (totals_BK, logs_BK, tokens_BK))
        best_NK, place_NK = totals_NC.topk(self.width, dim=1)
        chosen = best_NK, logs_NC.gather(1, place_NK), place_NK // each, tokens_NC.gather(1, place_NK)
        return (zip(*lists, strict=True) for lists in zip(*(x_NK.tolist() for x_NK in chosen), strict=True))

    def _may_improve(self, found: Sequence[Hypothesis], total: float, max_length: int) -> bool:
        """Whether a hypothesis of this log-probability could become one of the best, were the rest of it certain."""
        best = sorted((hypothesis.score for hypothesis in found), reverse=True)
        return len(best) < self.n_best or total / (max_length + 1) ** self.length_penalty > best[self.n_best - 1]


def _force(logs_WV: Tensor, token: int | None) -> None:
    """Leaves no choice but this token, if there is one."""
    if token is not None:
        kept_W = logs_WV[:, token].clone()
        logs_WV.fill_(NEVER)
        logs_WV[:, token] = kept_W


def top_few(x_BV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`x.topk(count)`, but faster in a long row: the best are in those blocks whose own best are the best."""
    length = x_BV.size(1)
    blocks = length // BLOCK
    if blocks <= 2 * count or x_BV.numel() < MANY:
        best = x_BV.topk(min(count, length))
        return best.values, best.indices
    x_BGK = x_BV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    block_BC = x_BGK.amax(2).topk(count).indices
    chosen_BCK = x_BGK.gather(1, block_BC[:, :, None].expand(-1, -1, BLOCK))
    # what is left after the last block comes along, as a block that is not full
    values_BC, place_BC = torch.cat((chosen_BCK.flatten(1), x_BV[:, blocks * BLOCK :]), dim=1).topk(count)
    block_BE = F.pad(block_BC, (0, 1), value=blocks)
    return values_BC, block_BE.gather(1, place_BC // BLOCK) * BLOCK + place_BC % BLOCK
