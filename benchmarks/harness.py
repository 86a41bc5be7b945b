"""Side-by-side timing: contenders take turns, so that a busy moment of the machine hits all alike."""

import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch


def interleave(contenders: Mapping[str, Callable[[], object]], rounds: int = 15) -> dict[str, list[float]]:
    """Seconds of each contender in each round, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for count in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if count:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """How many times as fast we are: the median over rounds, and its 95 % bootstrap interval."""
    pairs = [their / our for our, their in zip(ours, theirs, strict=True)]
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(pairs, k=len(pairs))) for _ in range(2000))
    return statistics.median(pairs), medians[50], medians[-51]


def report(seconds: Mapping[str, list[float]], work: float, unit: str) -> str:
    """A Markdown table of speeds, and of ratios to the first contender. `work` is what one run does, in `unit`s."""
    (ours, our_seconds), *_ = seconds.items()
    lines = [f"| | {unit}/s | {ours} is faster by (95 % interval) |", "|---|---|---|"]
    for name, their_seconds in seconds.items():
        middle, low, high = ratio(our_seconds, their_seconds)
        comparison = "" if name == ours else f"{middle:.2f}× ({low:.2f} to {high:.2f})"
        lines.append(f"| {name} | {work / statistics.median(their_seconds):,.0f} | {comparison} |")
    return "\n".join(lines)


def machine() -> str:
    """What this ran on."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"
