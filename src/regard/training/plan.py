"""What a training will take, found out by doing a little of it."""

import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from regard.process_memory import peak
from regard.store import checkpoint
from regard.training.loop import Training
from regard.training.report import Report
from regard.training.setup import Job
from regard.training.throughput import WARM_UP


@dataclass(frozen=True)
class Plan:
    """What a training takes on this machine."""

    parameters: int
    flops_per_step: float
    limit: float
    """The floating-point operations a second that the machine can do."""
    utilisation: float
    """The share of them that training gets."""
    tokens_per_second: float
    seconds_per_step: float
    seconds_per_validation: float
    steps_per_epoch: float
    steps: int
    """Of the whole run, unless its patience ends it."""
    seconds: float
    """Of the whole run, validations and checkpoints included."""
    peak_memory: int
    checkpoint_bytes: int
    fitting_steps: int
    """As many as there is time for."""


def probe(job: Job, minutes: float, seconds: float) -> Plan:
    """Trains for some seconds in a folder that is then removed, validates once and saves once.

    Args:
        minutes: the time for which to say how many steps fit.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        training = Training(dataclasses.replace(job, run=run), Report(Console(quiet=True)))
        try:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end or training.throughput.steps <= WARM_UP:
                training.advance()
            training.validate()
            training.save()
        finally:
            training.report.close()
        size = sum(path.stat().st_size for path in checkpoint.every(run)[-1].iterdir())
    throughput = training.throughput
    step, tokens_per_step = throughput.seconds("step"), throughput.tokens / throughput.steps
    whole = training.forecast(job.train)
    fitting = training.forecast(dataclasses.replace(job.train, steps=None, epochs=None, minutes=minutes))
    return Plan(
        parameters=sum(parameter.numel() for parameter in training.parameters.values()),
        flops_per_step=throughput.flops_per_token * tokens_per_step,
        limit=throughput.limit,
        utilisation=throughput.utilisation(tokens_per_step / step),
        tokens_per_second=tokens_per_step / step,
        seconds_per_step=step,
        seconds_per_validation=throughput.seconds("validation"),
        steps_per_epoch=training.steps_per_epoch,
        steps=whole.steps,
        seconds=whole.seconds,
        peak_memory=peak(training.device.torch),
        checkpoint_bytes=size,
        fitting_steps=fitting.steps,
    )
