"""Throughput of training (time, FLOPs), and the predicted time of the whole run."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from regard.training.config import TrainConfig
from regard.training.flops import FlopCounter
from regard.training.task import Tally

WARM_UP = 3  # steps that are not timed: memory is being allocated, kernels are being chosen
COUNTED_FIRST, COUNTED_EVERY = WARM_UP, 200  # steps whose FLOPs are counted, which slows them slightly


class Throughput:
    """Times and counts of a run since it was started or resumed.

    Args:
        limit: peak FLOP/s of the machine.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.steps = self.tokens = 0
        self._flops = self._counted_tokens = 0
        self._seconds: dict[str, float] = defaultdict(float)
        self._times: Counter[str] = Counter()

    def step(self, take: Callable[[], Tally]) -> Tally:
        """Runs a step, times it and sometimes counts its FLOPs."""
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
        """Times a "step", a "validation" or a "checkpoint"."""
        start = time.perf_counter()
        yield
        self._seconds[what] += time.perf_counter() - start
        self._times[what] += 1

    def seconds(self, what: str) -> float:
        """The mean time of one of these in seconds; 0 if there were none."""
        return self._seconds[what] / max(1, self._times[what])

    @property
    def flops_per_token(self) -> float:
        """The FLOPs of training per token."""
        return self._flops / max(1, self._counted_tokens)

    def utilisation(self, tokens_per_second: float) -> float:
        """The model-FLOPs utilisation: the fraction of peak FLOP/s that is used at this speed."""
        return self.flops_per_token * tokens_per_second / self.limit


@dataclass(frozen=True)
class Forecast:
    """The predicted steps and time of a whole run."""

    steps: int
    seconds: float

    def __str__(self) -> str:
        return f"predicted {self.seconds / 60:.1f} min for {self.steps:,} steps"

    def error(self, steps: int, seconds: float) -> float:
        """The fraction by which a step took longer than predicted."""
        return (seconds / steps) / (self.seconds / self.steps) - 1


def forecast(config: TrainConfig, epoch: float, step: float, validation: float, checkpoint: float) -> Forecast:
    """Predicts a run until the first of its budgets is used up, given how long its parts take.

    Args:
        epoch: number of steps per epoch.
        step, validation, checkpoint: seconds of one.
    """
    pace = step + validation / config.validate_every + checkpoint / config.checkpoint_every
    budgets = (config.steps, (config.epochs or 0) * epoch, (config.minutes or 0) * 60 / pace)
    steps = math.ceil(min(budget for budget in budgets if budget))
    validations, checkpoints = math.ceil(steps / config.validate_every), math.ceil(steps / config.checkpoint_every)
    return Forecast(steps, steps * step + validations * validation + checkpoints * checkpoint)


def summarise(predicted: Forecast | None, steps: int, seconds: float, memory: int) -> tuple[dict[str, float], str]:
    """Time and memory of a run, and the error of its prediction if there was one: for the log, and as text."""
    values: dict[str, float] = {"minutes": seconds / 60, "peak_memory": memory}
    text = f"took {seconds / 60:.1f} min for {steps:,} steps; peak memory {memory / 1e9:.1f} GB"
    if predicted is not None:
        error = values["prediction_error"] = predicted.error(steps, seconds)
        text = f"{predicted}, {text}; time per step {error:+.0%} compared with the prediction"
    return values, text
