"""`regard plan`: predicts time and memory of a training run by running a few steps of it."""

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
    """Predicted cost of a training run on this machine."""

    parameters: int
    flops_per_step: float
    limit: float
    """Peak FLOP/s of the machine."""
    utilisation: float
    """The fraction of the peak FLOP/s that training achieves."""
    tokens_per_second: float
    seconds_per_step: float
    seconds_per_validation: float
    steps_per_epoch: float
    steps: int
    """Of the whole run, without early stopping."""
    seconds: float
    """Of the whole run, validations and checkpoints included."""
    peak_memory: int
    checkpoint_bytes: int
    fitting_steps: int
    """The number of steps that fit into `minutes`."""


def probe(job: Job, minutes: float, seconds: float) -> Plan:
    """Trains for `seconds` in a temporary folder, validates once and saves one checkpoint.

    Args:
        minutes: time budget for which `fitting_steps` is computed.
        seconds: duration of the probe.
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
