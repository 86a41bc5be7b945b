"""What training takes: time, matrix products; and what a whole run will take at that pace."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from regard.training.config import TrainConfig
from regard.training.flops import FlopCounter
from regard.training.task import Tally

WARM_UP = 3  # steps whose time does not count: memory is being got, kernels chosen
COUNTED_FIRST, COUNTED_EVERY = 8, 50  # steps whose matrix products are counted, which slows them down a little


class Throughput:
    """Times and counts of a run since it was started.

    Args:
        limit: the floating-point operations a second that the machine can do.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.steps = self.tokens = 0
        self._flops = self._counted_tokens = 0
        self._seconds: dict[str, float] = defaultdict(float)
        self._times: Counter[str] = Counter()

    def step(self, take: Callable[[], Tally]) -> Tally:
        """Takes a step."""
        with self.timing("step" if self.steps >= WARM_UP else "warm-up"):
            if self.steps >= COUNTED_FIRST and self.steps % COUNTED_EVERY:
                tally = take()
            else:
                with FlopCounter() as count:
                    tally = take()
                self._flops += count.flops
                self._counted_tokens += tally.counts["tokens"]
        self.steps += 1
        self.tokens += tally.counts["tokens"]
        return tally

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """Takes the time of a "step", a "validation" or a "checkpoint"."""
        start = time.perf_counter()
        yield
        self._seconds[what] += time.perf_counter() - start
        self._times[what] += 1

    def seconds(self, what: str) -> float:
        """The mean time of these, 0 if there were none."""
        return self._seconds[what] / max(1, self._times[what])

    @property
    def flops_per_token(self) -> float:
        """The floating-point operations that training takes for a token."""
        return self._flops / max(1, self._counted_tokens)

    def utilisation(self, tokens_per_second: float) -> float:
        """The share of what the machine can do that is used at this speed."""
        return self.flops_per_token * tokens_per_second / self.limit


@dataclass(frozen=True)
class Forecast:
    """What a whole run takes."""

    steps: int
    seconds: float

    def __str__(self) -> str:
        return f"predicted {self.seconds / 60:.1f} min for {self.steps:,} steps"

    def error(self, steps: int, seconds: float) -> float:
        """By which share a step took longer than predicted."""
        return (seconds / steps) / (self.seconds / self.steps) - 1


def forecast(config: TrainConfig, epoch: float, step: float, validation: float, checkpoint: float) -> Forecast:
    """What a run takes until the first of its budgets is used up, given how long its parts take.

    Args:
        epoch: the steps of an epoch.
        step, validation, checkpoint: the seconds of one.
    """
    pace = step + validation / config.validate_every + checkpoint / config.checkpoint_every
    budgets = (config.steps, (config.epochs or 0) * epoch, (config.minutes or 0) * 60 / pace)
    steps = math.ceil(min(budget for budget in budgets if budget))
    validations, checkpoints = math.ceil(steps / config.validate_every), math.ceil(steps / config.checkpoint_every)
    return Forecast(steps, steps * step + validations * validation + checkpoints * checkpoint)


def look_back(whole: Forecast | None, steps: int, seconds: float, memory: int) -> tuple[dict[str, float], str]:
    """What a run took, and how far off its prediction was if it had one: for the log, and in words."""
    values: dict[str, float] = {"minutes": seconds / 60, "peak_memory": memory}
    text = f"took {seconds / 60:.1f} min for {steps:,} steps; peak memory {memory / 1e9:.1f} GB"
    if whole is not None:
        error = values["prediction_error"] = whole.error(steps, seconds)
        text = f"{whole}, {text}; a step took {abs(error):.0%} {'more' if error > 0 else 'less'}"
    return values, text
