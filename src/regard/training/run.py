"""A training run from its start to its end: locked, stopped by signals, and without a trace if it cannot start."""

from contextlib import nullcontext

from regard.store import checkpoint
from regard.store.lock import locked
from regard.store.runs import discard, is_unused
from regard.training.distributed import rank
from regard.training.interrupt import ending
from regard.training.loop import Training
from regard.training.report import Report
from regard.training.setup import Job


def train(job: Job, report: Report) -> Training:
    """Trains until the end; raises `Interrupted` if a signal stops it.

    With several processes, the first one holds the lock of the run folder.
    """
    is_first = rank() == 0
    with ending(lambda: checkpoint.newest(job.run)), locked(job.run) if is_first else nullcontext():
        training = _prepared(job, report, is_first)
        training.train()
    return training


def _prepared(job: Job, report: Report, is_first: bool) -> Training:
    is_new = is_first and is_unused(job.run)
    try:
        return Training(job, report)
    except BaseException:
        if is_new:
            discard(job.run)
        raise
