"""Sampling: each token is drawn at random from the model's distribution.

Each sample has its own random number generator, so it does not depend on the rest of the batch: sample 3 of 10 is the
same text as that sample alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.finite import finite
from regard.decoding.hypothesis import Hypothesis, forced
from regard.errors import RegardError
from regard.models.interface import Autoregressive


@dataclass(frozen=True)
class SampledToken:
    """One token of a sample, yielded as soon as it is generated."""

    sentence: int
    sample: int
    """The index of the sample, from 0."""
    token: int
    score: float
    """Its log-probability."""


@dataclass(frozen=True)
class Sampling:
    """The settings of sampling: `samples` texts for each sentence."""

    begin: int
    end: int
    samples: int = 1
    temperature: float = 1.0
    """Below 1 sharpens the distribution, above 1 flattens it; 0 is greedy search."""
    top_k: int | None = None
    """Sample only from this number of most probable tokens."""
    top_p: float = 1.0
    """Sample only from the most probable tokens with this total probability (nucleus sampling)."""
    seed: int = 1
    """Seed of the first sample; the others use the following numbers."""
    min_p: float = 0.0
    """Drop tokens less probable than this fraction of the most probable one."""
    repetition_penalty: float = 1.0
    """Divides the logits of earlier tokens by this number, or multiplies them if negative (Keskar et al. 2019)."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise RegardError(f"the number of samples must be at least 1, got {self.samples}")
        if not 0 <= self.temperature < math.inf:
            raise RegardError(f"the temperature must be at least 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise RegardError(f"top-k must be at least 1, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise RegardError(f"top-p must be above 0 and at most 1, got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise RegardError(f"min-p must be from 0 to 1, got {self.min_p}")
        if not 0 < self.repetition_penalty < math.inf:
            raise RegardError(f"the repetition penalty must be above 0 (1 for none), got {self.repetition_penalty}")
        if not 0 <= self.seed <= 2**32 - self.samples:
            raise RegardError(
                f"seeds must be from 0 to {2**32 - 1}, one per sample; got {self.seed} for {self.samples} samples"
            )

    def search(
        self,
        model: Autoregressive,
        inputs: tuple[Tensor, ...],
        max_length: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
        before: Sequence[Sequence[int]] = (),
        stopped: Callable[[Sequence[int]], bool] | None = None,
    ) -> list[list[Hypothesis]]:
        """For each sentence its samples, in order; the arguments are those of `draw`."""
        found: list[list[Hypothesis]] = [[] for _ in max_length]
        written: dict[tuple[int, int], tuple[list[int], list[float]]] = {
            (sentence, sample): ([], []) for sentence in range(len(max_length)) for sample in range(self.samples)
        }
        for sampled in self.draw(model, inputs, max_length, prefixes, before, stopped):
            tokens, scores = written[sampled.sentence, sampled.sample]
            scores.append(sampled.score)
            if sampled.token != self.end:
                tokens.append(sampled.token)
        for (sentence, _), (tokens, scores) in written.items():
            total, is_truncated = sum(scores), len(tokens) >= max_length[sentence]
            logs, mean = tuple(scores), total / len(scores)
            found[sentence].append(
                Hypothesis(tuple(tokens), logs, total, mean, is_truncated, stopped=len(scores) == len(tokens))
            )
        return found

    @torch.no_grad()
    def draw(
        self,
        model: Autoregressive,
        inputs: tuple[Tensor, ...],
        max_length: Sequence[int],
        prefixes: Sequence[Sequence[int]] = (),
        before: Sequence[Sequence[int]] = (),
        stopped: Callable[[Sequence[int]], bool] | None = None,
    ) -> Iterator[SampledToken]:
        """Yields the next token of each active sample, end tokens included, until all have ended.

        Args:
            inputs: the arguments of the model's `start`, one row for each sentence.
            max_length: for each sentence, the maximum number of tokens.
            prefixes: for each sentence, the tokens that its output must begin with.
            before: for each sentence, the earlier tokens to which the repetition penalty also applies.
            stopped: whether to stop a text of these tokens before its end token.
        """
        active = [(sentence, sample) for sentence in range(len(max_length)) for sample in range(self.samples)]
        if not active:
            return
        generators = [torch.Generator().manual_seed(self.seed + sample) for sample in range(self.samples)]
        written: dict[tuple[int, int], list[int]] = {row: [] for row in active}
        device = inputs[0].device
        state, count = model.start(*inputs), len(max_length)
        rows = [sentence for sentence, _ in active]
        tokens_B = torch.full((len(active),), self.begin, device=device)
        for length in range(max(max_length) + 1):
            if rows != list(range(count)):  # otherwise the rows are unchanged and need no copy
                state = state.reorder(torch.tensor(rows, device=device))
            logits_BV, state = model.step(tokens_B, state)
            logits_BV = logits_BV.double()
            draws = [torch.rand((), generator=generator, dtype=torch.float64).item() for generator in generators]
            draws_B = torch.tensor([draws[sample] for _, sample in active], dtype=torch.float64, device=device)
            changed_BV = logits_BV
            if self.repetition_penalty != 1:
                penalised_tokens = [[*(before[row[0]] if before else ()), *written[row]] for row in active]
                changed_BV = self.penalised(logits_BV, penalised_tokens)
            tokens_B = self.choose(changed_BV, draws_B)
            for i, (sentence, _) in enumerate(active):
                token = forced(self.end, length, max_length[sentence], prefixes[sentence] if prefixes else ())
                if token is not None:
                    tokens_B[i] = token
            scores = finite(logits_BV.gather(1, tokens_B[:, None])[:, 0] - logits_BV.logsumexp(1)).tolist()
            count, rows = len(active), []
            for i, (row, token, score) in enumerate(zip(active, tokens_B.tolist(), scores, strict=True)):
                yield SampledToken(*row, token, score)
                if token != self.end:
                    written[row].append(token)
                    if stopped is None or not stopped(written[row]):
                        rows.append(i)
            if not rows:
                return
            active, tokens_B = [active[i] for i in rows], tokens_B[rows]

    def penalised(self, logits_BV: Tensor, texts: Sequence[Sequence[int]]) -> Tensor:
        """The logits after the repetition penalty on the tokens of each text."""
        result_BV = logits_BV.clone()
        for logits_V, tokens in zip(result_BV, texts, strict=True):
            seen = torch.tensor(tokens, dtype=torch.long, device=logits_V.device).unique()
            old = logits_V[seen]
            logits_V[seen] = torch.where(old > 0, old / self.repetition_penalty, old * self.repetition_penalty)
        return result_BV

    def choose(self, logits_BV: Tensor, draws_B: Tensor) -> Tensor:
        """The sampled tokens, given the logits of all tokens and a random number from 0 to 1 for each row."""
        if self.temperature == 0:
            return logits_BV.argmax(1)
        # the maximum logit becomes 0, so that dividing by a low temperature cannot overflow
        logits_BV = logits_BV - logits_BV.amax(1, keepdim=True)
        sorted_BV, order_BV = (logits_BV / self.temperature).softmax(-1).sort(dim=1, descending=True, stable=True)
        before_BV = sorted_BV.cumsum(1) - sorted_BV
        kept_BV = (before_BV < self.top_p) & (sorted_BV >= self.min_p * sorted_BV[:, :1])
        kept_BV[:, 0] = True
        if self.top_k is not None:
            kept_BV[:, self.top_k :] = False
        # inverse transform sampling: find the random number in the cumulative sums of the kept probabilities
        sums_BV = sorted_BV.masked_fill(~kept_BV, 0.0).cumsum(1)
        place_B1 = torch.searchsorted(sums_BV, (draws_B * sums_BV[:, -1])[:, None], right=True)
        last_B1 = kept_BV.sum(1, keepdim=True) - 1
        return order_BV.gather(1, place_B1.minimum(last_B1))[:, 0]
