"""Shared by the benchmarks: interleaved timing, so that load on the machine affects all alike, and stored results."""

import json
import multiprocessing
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch


class SeparateProcess:
    """A contender in its own process, so that process settings of one, such as kept memory, do not affect the others.

    Args:
        make: creates the function to run, in that process.
    """

    def __init__(self, make: Callable[..., Callable[[], object]], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        context.Process(target=_serve, args=(there, make, args), daemon=True).start()
        self._here.recv()

    def __call__(self) -> None:
        """Run it once."""
        self._here.send("run")
        self._here.recv()


def _serve(pipe: Connection, make: Callable[..., Callable[[], object]], args: tuple[Any, ...]) -> None:
    run = make(*args)
    with suppress(EOFError):  # the parent has finished
        while True:
            pipe.send("ready")
            pipe.recv()
            run()


def interleave(contenders: Mapping[str, Callable[[], object]], rounds: int = 15) -> dict[str, list[float]]:
    """Seconds of each contender in each round, after one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for count in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if count:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Speed-up of `ours` over `theirs`: the median over rounds, and its 95 % bootstrap interval."""
    pairs = [their / our for our, their in zip(ours, theirs, strict=True)]
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(pairs, k=len(pairs))) for _ in range(2000))
    return statistics.median(pairs), medians[50], medians[-51]


def report(seconds: Mapping[str, list[float]], work: float, unit: str) -> str:
    """A Markdown table of throughputs and of ratios to the first contender; one run does `work` units of `unit`."""
    (ours, our_seconds), *_ = seconds.items()
    lines = [f"| | {unit}/s | {ours} is faster by (95 % interval) |", "|---|---|---|"]
    for name, their_seconds in seconds.items():
        middle, low, high = ratio(our_seconds, their_seconds)
        comparison = "" if name == ours else f"{middle:.2f}× ({low:.2f} to {high:.2f})"
        lines.append(f"| {name} | {work / statistics.median(their_seconds):,.0f} | {comparison} |")
    return "\n".join(lines)


def measured(
    results: Path, everything: Iterable[dict[str, Any]], measure: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """Results of all cases from a JSON lines file; missing ones are measured, printed and appended to it."""
    results.parent.mkdir(parents=True, exist_ok=True)
    results.touch()
    done = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    for case in everything:
        if not any(case.items() <= line.items() for line in done):
            done.append({**case, **measure(**case)})
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[-1]) + "\n")
            print(done[-1], flush=True)
    return done


def multi30k(data: Path) -> list[str]:
    """Recipe overrides to train on a folder with Multi30k, English to German."""
    return [
        f'data.{part}={{path="{data / name}.en.gz", target="{data / name}.de.gz"}}'
        for part, name in (("train", "train"), ("valid", "val"))
    ]


def machine() -> str:
    """Description of the machine."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"
