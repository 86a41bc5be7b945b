"""Sampling: each token is drawn by its probability, so that every try is another text.

A try draws the same random numbers whatever it shares a batch with: try 3 of 10 is the text of that try alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, forced
from regard.models.interface import Autoregressive


@dataclass(frozen=True)
class Sampling:
    """How to draw: `tries` texts for each sentence."""

    begin: int
    end: int
    tries: int = 1
    temperature: float = 1.0
    """Below 1 the likely becomes likelier, above 1 less so; at 0 only the likeliest is drawn."""
    top_k: int | None = None
    """Draw from so many of the likeliest tokens only."""
    top_p: float = 1.0
    """Draw from the likeliest tokens that together have this probability only."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"at least one try is needed, got {self.tries}")
        if self.temperature < 0:
            raise ValueError(f"a temperature is at least 0, got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top-k keeps at least one token, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top-p is a probability above 0 and at most 1, got {self.top_p}")

    @torch.no_grad()
    def search(
        self, model: Autoregressive, inputs: Tensor, longest: Sequence[int], prefixes: Sequence[Sequence[int]] = ()
    ) -> list[list[Hypothesis]]:
        """For each sentence its tries, in their order.

        Args:
            longest: how many tokens each sentence may have.
            prefixes: for each sentence, tokens that it must begin with.
        """
        found: list[list[Hypothesis]] = [[] for _ in longest]
        # far apart, so that a try of one seed is no other try of the next
        chances = [torch.Generator().manual_seed(self.seed * 1_000_003 + attempt) for attempt in range(self.tries)]
        active = [(sentence, attempt) for sentence in range(len(longest)) for attempt in range(self.tries)]
        if not active:
            return found
        written: dict[tuple[int, int], tuple[list[int], list[float]]] = {row: ([], []) for row in active}
        state = model.start(inputs)
        device = inputs.device
        rows = torch.tensor([sentence for sentence, _ in active], device=device)
        tokens_B = torch.full((len(active),), self.begin, device=device)
        for length in range(max(longest) + 1):
            logits_BV, state = model.step(tokens_B, state.reorder(rows))
            logs_BV = logits_BV.double().log_softmax(-1)
            draws = [torch.rand((), generator=chance, dtype=torch.float64).item() for chance in chances]
            draws_B = torch.tensor([draws[attempt] for _, attempt in active], dtype=torch.float64, device=device)
            tokens_B = self.choose(logs_BV, draws_B)
            for i, (sentence, _) in enumerate(active):
                token = forced(self.end, length, longest[sentence], prefixes[sentence] if prefixes else ())
                if token is not None:
                    tokens_B[i] = token
            scores = logs_BV.gather(1, tokens_B[:, None])[:, 0].tolist()
            going = []
            for i, (row, token, score) in enumerate(zip(active, tokens_B.tolist(), scores, strict=True)):
                tokens, token_scores = written[row]
                token_scores.append(score)
                if token != self.end:
                    tokens.append(token)
                    going.append(i)
            if not going:
                break
            active, rows = [active[i] for i in going], torch.tensor(going, device=device)
            tokens_B = tokens_B[rows]
        for (sentence, _), (tokens, scores) in written.items():
            score = sum(scores) / len(scores)
            found[sentence].append(Hypothesis(tuple(tokens), tuple(scores), score, len(tokens) >= longest[sentence]))
        return found

    def choose(self, logs_BV: Tensor, draws_B: Tensor) -> Tensor:
        """The tokens that numbers between 0 and 1 stand for, given the log-probabilities of all tokens."""
        if self.temperature == 0:
            return logs_BV.argmax(1)
        sorted_BV, order_BV = (logs_BV / self.temperature).softmax(-1).sort(dim=1, descending=True, stable=True)
        before_BV = sorted_BV.cumsum(1) - sorted_BV
        kept_BV = before_BV < self.top_p
        kept_BV[:, 0] = True
        if self.top_k is not None:
            kept_BV[:, self.top_k :] = False
        # what is kept lies end to end on a line; the number says how far along to go
        sums_BV = sorted_BV.masked_fill(~kept_BV, 0.0).cumsum(1)
        place_B1 = torch.searchsorted(sums_BV, (draws_B * sums_BV[:, -1])[:, None], right=True)
        last_B1 = kept_BV.sum(1, keepdim=True) - 1
        return order_BV.gather(1, place_B1.minimum(last_B1))[:, 0]
