"""Speed of two versions of Regard, to check that a change did not make it slower.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before/src src

The versions take turns, each in its own processes. Both are used through `regard.load` and the command line.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import interleave, machine, ratio

WORKER = """
import sys, regard
translator = regard.load("en-es")
texts = [f"Child number {i} picked up a small stone and looked at it." for i in range(int(sys.argv[1]))]
print("ready", flush=True)
for _ in sys.stdin:
    translator.translate(texts)
    print("done", flush=True)
"""
TRAIN = ["train", "translate/dates", "train.steps=150", "data.pairs=3000", "train.validate_every=1000"]


class Translations:
    """Translates a batch of sentences in a persistent process."""

    def __init__(self, source: str, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(source),
        )  # fmt: skip
        self._expect("ready")

    def __call__(self) -> None:
        """Translate once."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        self._expect("done")

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == word


def environment(source: str) -> dict[str, str]:
    """Environment variables with which Regard is imported from this folder."""
    return {**os.environ, "PYTHONPATH": str(Path(source).resolve())}


def command(source: str, *arguments: str) -> None:
    """Run a command."""
    subprocess.run(
        [sys.executable, "-m", "regard", *arguments], env=environment(source), capture_output=True, check=True
    )


def training(source: str) -> None:
    """Train in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        command(source, *TRAIN, f"run={folder}/run")


def main() -> None:
    """Measure and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="src folder of the version before the change")
    parser.add_argument("after", help="src folder of the version after the change")
    options = parser.parse_args()
    makers: dict[str, Callable[[str], Callable[[], None]]] = {
        "64 sentences, beam 4": lambda source: Translations(source, 64),
        "1 sentence, beam 4": lambda source: Translations(source, 1),
        "150 steps of translate/dates, from the shell": lambda source: partial(training, source),
        "a translation from the shell": lambda source: partial(command, source, "translate", "we are eating bread"),
    }
    print(machine())
    for name, make in makers.items():
        seconds = interleave({"before": make(options.before), "after": make(options.after)})
        medians = ", ".join(f"{which} {statistics.median(times):.3f} s" for which, times in seconds.items())
        print(
            "{}: {}; {:.3f} times as fast ({:.3f} to {:.3f})".format(name, medians, *ratio(*reversed(seconds.values())))
        )


if __name__ == "__main__":
    main()
