"""Faults: a training that fails at any file operation, or is killed at any moment, gives the same weights when rerun.

    python benchmarks/faults.py              # a fault at every file operation, then random kills
    python benchmarks/faults.py --kills 50 --every 5

Faults are injected into Python's file operations in this process: it dies before the operation (dies), or after half of
it (torn), the disk is full (full), or Ctrl-C arrives (interrupted). Kills end separate processes with `kill -9`. After
each, the same recipe is run again without faults, and the weights of `model/` and `last/` are compared bit by bit.
"""

import argparse
import builtins
import errno
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import save_file

from regard import folders, recipe
from regard.training.interrupt import Interrupted
from regard.training.report import Report
from regard.training.run import train

MODES = ("dies", "torn", "full", "interrupted")
OPERATIONS = ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "chmod", "ftruncate", "write", "open")
WRITES = os.O_CREAT | os.O_WRONLY | os.O_RDWR
RECIPE = [
    "tokenizer.vocab_size=270", "model.width=8", "model.ff_width=8", "model.heads=2", "threads=1",
    "model.encoder_layers=1", "model.decoder_layers=1", "model.dropout=0.2", "train.batch_tokens=300", "train.warmup=2",
    "train.steps=5", "train.epochs=100", "train.validate_every=2", "train.checkpoint_every=2", "train.accumulate=2",
]  # fmt: skip
DESCRIPTORS = Path("/proc/self/fd")
DATA = {"train": 40, "valid": 5}  # pairs
KILLED = [
    "data.pairs=2000", "tokenizer.vocab_size=400", "model.width=32", "model.ff_width=64", "model.dropout=0.2",
    "threads=1", "train.steps=1000", "train.epochs=1000", "train.batch_tokens=400", "train.accumulate=2",
    "train.validate_every=250", "train.checkpoint_every=20",
]  # fmt: skip


class Death(BaseException):
    """The process has died: nothing that it does from now on has an effect."""


class Faults:
    """Counts the file operations below a folder; the one with the number `at`, counted from 0, fails."""

    def __init__(self, root: Path, mode: str = "", at: int | None = None) -> None:
        self.root, self.mode, self.at = str(root), mode, at
        self.count, self.is_dead, self.failed = 0, False, ""

    @contextmanager
    def injected(self) -> Iterator[None]:
        """A context with faults."""
        with patch.object(builtins, "open", self._opened), patch.object(io, "open", self._opened):
            patches = [patch.object(os, name, self._operation(name)) for name in OPERATIONS]
            patches.append(patch.object(folders, "save_file", self._save_file))
            for each in patches:
                each.start()
            try:
                yield
            finally:
                for each in patches:
                    each.stop()

    def happen(self, what: str, half: Callable[[], object], whole: Callable[[], Any]) -> Any:
        """An operation, with its fault if it is the one to fail."""
        if self.is_dead:
            raise Death
        number, self.count = self.count, self.count + 1
        if number != self.at:
            return whole()
        self.failed = what
        if self.mode == "interrupted":
            signal.raise_signal(signal.SIGINT)
            return whole()
        if self.mode == "full":
            if what == "save_file":
                raise SafetensorError("I/O error: No space left on device (os error 28)")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.is_dead = True
        if self.mode == "torn":
            half()
        raise Death

    def _operation(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def operation(path: Any, *arguments: Any, **options: Any) -> Any:
            def whole() -> Any:
                return real(path, *arguments, **options)

            writes = name != "open" or arguments[0] & WRITES
            if not writes or not self._is_below(path, options.get("dir_fd")):
                return whole()
            return self.happen(name, whole, whole)

        return operation

    def _is_below(self, path: Any, folder: int | None) -> bool:
        if isinstance(path, int):
            return str(DESCRIPTORS.joinpath(str(path)).readlink()).startswith(self.root)
        parent = Path.cwd() if folder is None else DESCRIPTORS.joinpath(str(folder)).readlink()
        return str(parent / path).startswith(self.root)

    def _save_file(self, tensors: Any, path: Path, **options: Any) -> None:
        def half() -> None:
            save_file(tensors, path, **options)
            os.truncate(path, path.stat().st_size // 2)

        self.happen("save_file", half, lambda: save_file(tensors, path, **options))

    def _opened(self, path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if (mode[0] == "r" and "+" not in mode) or isinstance(path, int) or not self._is_below(path, None):
            return _open(path, mode, *arguments, **options)
        file = self.happen(
            "open for writing",
            lambda: _open(path, mode, *arguments, **options).close(),
            lambda: _open(path, mode, *arguments, **options),
        )
        return _File(file, self)


_open = builtins.open


class _File:
    """A file that is being written."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self.file, self.faults = file, faults

    def write(self, data: Any) -> Any:
        def half() -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()

        return self.faults.happen("write to file", half, lambda: self.file.write(data))

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def run(root: Path, faults: Faults | None = None) -> None:
    """Trains in a folder, with its own cache; the data are beside it."""
    data = [f"data.{part}={write_pairs(root.with_name(f'{part}.tsv'), count)}" for part, count in DATA.items()]
    chosen = recipe.read("translate/transformer", [*RECIPE, *data, f"run={root / 'run'}"])
    with patch.dict(os.environ, REGARD_CACHE=str(root / "cache")):
        job, report = recipe.job(chosen), Report(Console(quiet=True))
        if faults is None:
            train(job, report)
            return
        with faults.injected():
            train(job, report)


def write_pairs(path: Path, count: int) -> Path:
    """Writes sentence pairs, unless they are there."""
    if not path.exists():
        path.write_text("".join(f"the {i} is {i}\tel {i} es {i}\n" for i in range(count)))
    return path


def weights(run: Path) -> list[bytes]:
    """The weights of the best model and of the last one."""
    return [(run / name / "model.safetensors").read_bytes() for name in ("model", "last")]


def trial(root: Path, mode: str, at: int, expected: list[bytes]) -> str:
    """What happened after a fault and a rerun without: "" if all is well."""
    faults = Faults(root, mode, at)
    with suppress(Death, Interrupted, OSError):
        run(root, faults)
    try:
        run(root)
    except Exception as error:
        return f"{mode} at {at} ({faults.failed}): {type(error).__name__}: {error}"
    if weights(root / "run") != expected:
        return f"{mode} at {at} ({faults.failed}): other weights"
    left = [path.relative_to(root) for path in root.rglob("*") if path.name.endswith((".new", ".old", "lock"))]
    return f"{mode} at {at} ({faults.failed}): left over: {', '.join(map(str, left))}" if left else ""


def kills(root: Path, count: int, rng: random.Random) -> bool:
    """Whether runs that were killed at random moments have the weights of one that was not."""

    def start(run: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "regard", "train", "translate/dates", *KILLED, f"run={run}"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    begun, same, run = time.monotonic(), True, root / "killed"
    assert start(root / "whole").wait() == 0
    seconds = time.monotonic() - begun
    killed = 0
    while killed < count:
        process = start(run)
        try:
            assert process.wait(rng.uniform(0, seconds / 2)) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
            print(f"\rkill {killed} of {count}", end="", flush=True)
        else:  # the run has finished; the next one starts again
            same = same and weights(run) == weights(root / "whole")
            shutil.rmtree(run)
    assert start(run).wait() == 0
    return same and weights(run) == weights(root / "whole")


def main() -> None:
    """Injects a fault at every file operation in each mode, then kills processes at random moments."""
    from harness import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="inject a fault only at every Nth operation")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counted, problems, done = Counter[str](), [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "undisturbed"
        root.mkdir()
        faults = Faults(root)
        run(root, faults)
        expected = weights(root / "run")
        print(f"{faults.count} file operations", flush=True)
        for mode in MODES:
            for at in range(0, faults.count, options.every):
                own = Path(folder) / f"{mode}-{at}"
                own.mkdir()
                if problem := trial(own, mode, at, expected):
                    problems.append(problem)
                    print(problem, flush=True)
                done[mode] += 1
                shutil.rmtree(own)
            print(f"{mode}: {done[mode]} trials", flush=True)
        counted.update(problem.split(" ", 1)[0] for problem in problems)
        print(machine())
        for mode in MODES:
            print(
                f"{mode}: {done[mode]} trials, {done[mode] - counted[mode]} with bit-identical weights and no leftovers"
            )
        same = kills(Path(folder), options.kills, random.Random(options.seed))
        print(f"\n{options.kills} kills; weights {'bit-identical' if same else 'DIFFERENT'}")
    sys.exit(bool(problems) or not same)


if __name__ == "__main__":
    main()
