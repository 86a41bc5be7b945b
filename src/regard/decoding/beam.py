"""Beam search: at each step, the best `width` hypotheses of each sentence are kept.

A beam of one is greedy search. The score of a hypothesis is its log-probability divided by (tokens)^length_penalty,
where the end token counts. A finished hypothesis keeps its place in the beam, so fewer remain active. The search
of a sentence stops when no hypothesis is active, or no active one can beat the finished ones; the sentence then leaves
the batch.
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

BLOCK = 64  # tokens per block in `top_few`
MIN_LOGITS = 2**15  # in all rows; with fewer, `topk` is as fast
Candidate = tuple[float, float, int, int]
"""A possible next token: total log-probability, the token's own, the index of the parent row in its beam, the token."""


class BeamRow(NamedTuple):
    """An active hypothesis: its last token, and the row that it continues."""

    token: int
    log: float
    """The token's log-probability."""
    total: float
    """The log-probability of all tokens so far; `NEVER` in a row that only pads the beam."""
    before: Optional["BeamRow"] = None

    def ended(self, log: float, score: float, truncated: bool) -> Hypothesis:
        """The finished hypothesis, after an end token with this log-probability."""
        row, tokens, logs = self, [], [log]
        while row.before is not None:  # the begin token is not part of the text
            tokens.append(row.token)
            logs.append(row.log)
            row = row.before
        return Hypothesis(tuple(tokens[::-1]), tuple(logs[::-1]), sum(logs), score, truncated)


@dataclass(frozen=True)
class Beam:
    """The settings of a beam search: N sentences, each with a beam of `width` rows."""

    begin: int
    end: int
    width: int = 4
    n_best: int = 1
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.length_penalty <= 10:
            raise RegardError(f"the length penalty must be from 0 to 10, got {self.length_penalty}")
        if not 1 <= self.n_best <= self.width:
            raise RegardError(
                f"with a beam of {self.width}, n_best must be from 1 to {max(1, self.width)}, got {self.n_best}"
            )

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
            inputs: the arguments of the model's `start`, one row for each sentence.
            max_length: for each sentence, the maximum number of tokens.
            prefixes: for each sentence, the tokens that its output must begin with.
        """
        found: list[list[Hypothesis]] = [[] for _ in max_length]
        if not max_length:
            return found
        state, device = model.start(*inputs), inputs[0].device
        # all rows of a sentence are equal at first, so only one of them counts
        begin = [BeamRow(self.begin, 0.0, total) for total in [0.0] + [NEVER] * (self.width - 1)]
        beams = dict.fromkeys(range(len(max_length)), begin)
        index, count = [sentence for sentence in beams for _ in begin], len(beams)
        for length in range(max(max_length) + 1):
            if index != list(range(count)):  # otherwise the rows are unchanged and need no copy
                state = state.reorder(torch.tensor(index, device=device))
            rows = [row for beam in beams.values() for row in beam]
            logits, state = model.step(torch.tensor([row.token for row in rows], device=device), state)
            logs_BV = logits.log_softmax(-1)
            for n, sentence in enumerate(beams):
                token = forced(self.end, length, max_length[sentence], prefixes[sentence] if prefixes else ())
                _force(logs_BV[n * self.width : (n + 1) * self.width], token)
            count, index, active = len(rows), [], {}
            candidates = self._candidates(logs_BV, [row.total for row in rows])
            for n, ((sentence, beam), best) in enumerate(zip(beams.items(), candidates, strict=True)):
                if next_rows := self._next(beam, best, found[sentence], length, max_length[sentence]):
                    index += [n * self.width + parent for parent, _ in next_rows]
                    active[sentence] = [row for _, row in next_rows]
            if not active:
                break
            beams = active
        if not all(found):
            raise RegardError(
                "no token has a finite log-probability; check the weights of the model for NaN or infinity"
            )
        return [sorted(hypotheses, key=lambda h: -h.score)[: self.n_best] for hypotheses in found]

    def _next(
        self, beam: Sequence[BeamRow], best: Iterable[Candidate], found: list[Hypothesis], length: int, max_length: int
    ) -> list[tuple[int, BeamRow]]:
        """The active rows, each with the index of its parent; finished hypotheses are added to `found`."""
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
        """For each sentence the best `width` candidates, best first."""
        logs_BK, tokens_BK = top_few(logs_BV, self.width)
        each = logs_BK.size(1)
        totals_BK = logs_BK + torch.tensor(totals, dtype=logs_BK.dtype, device=logs_BK.device)[:, None]
        totals_NC, logs_NC, tokens_NC = (x_BK.view(-1, self.width * each) for x_BK in (totals_BK, logs_BK, tokens_BK))
        best_NK, place_NK = totals_NC.topk(self.width, dim=1)
        chosen = best_NK, logs_NC.gather(1, place_NK), place_NK // each, tokens_NC.gather(1, place_NK)
        return (zip(*lists, strict=True) for lists in zip(*(x_NK.tolist() for x_NK in chosen), strict=True))

    def _may_improve(self, found: Sequence[Hypothesis], total: float, max_length: int) -> bool:
        """Whether a hypothesis with this log-probability could still be among the best if later tokens had p = 1."""
        best = sorted((hypothesis.score for hypothesis in found), reverse=True)
        return len(best) < self.n_best or total / (max_length + 1) ** self.length_penalty > best[self.n_best - 1]


def _force(logs_WV: Tensor, token: int | None) -> None:
    """Sets all other log-probabilities to `NEVER`, if a token is given."""
    if token is not None:
        kept_W = logs_WV[:, token].clone()
        logs_WV.fill_(NEVER)
        logs_WV[:, token] = kept_W


def top_few(x_BV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`x.topk(count)`, but faster for long rows: the best values are in the blocks with the best maxima."""
    length = x_BV.size(1)
    blocks = length // BLOCK
    if blocks <= 2 * count or x_BV.numel() < MIN_LOGITS:
        best = x_BV.topk(min(count, length))
        return best.values, best.indices
    x_BGK = x_BV[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    block_BC = x_BGK.amax(2).topk(count).indices
    chosen_BCK = x_BGK.gather(1, block_BC[:, :, None].expand(-1, -1, BLOCK))
    # the remainder after the last full block is always included, as a partial block
    values_BC, place_BC = torch.cat((chosen_BCK.flatten(1), x_BV[:, blocks * BLOCK :]), dim=1).topk(count)
    block_BE = F.pad(block_BC, (0, 1), value=blocks)
    return values_BC, block_BE.gather(1, place_BC // BLOCK) * BLOCK + place_BC % BLOCK
