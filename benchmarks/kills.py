"""Fifty kills: a run killed repeatedly at random moments ends bit-identical to one that was never interrupted.

    python benchmarks/kills.py

Most of the kills are `kill -9`; every fifth is Ctrl-C. A small translator of dates is trained with dropout, EMA of the
weights and gradient accumulation, and a checkpoint every 20 steps.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness import machine

RECIPE = [
    "translate/dates", "data.pairs=2000", "tokenizer.vocab_size=400", "model.width=32", "model.ff_width=64",
    "model.dropout=0.2", "train.steps=4000", "train.epochs=1000", "train.batch_tokens=400", "train.accumulate=2",
    "train.validate_every=250", "train.checkpoint_every=20", "threads=1",
]  # fmt: skip


def start(run: Path) -> subprocess.Popen[bytes]:
    """Start training in a separate process."""
    command = [sys.executable, "-m", "regard", "train", *RECIPE, f"run={run}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def newest(run: Path) -> int:
    """The step of the newest checkpoint."""
    return max((int(path.name.partition("-")[2]) for path in run.glob("checkpoints/step-*")), default=0)


def main() -> None:
    """Train once without and once with kills, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    undisturbed, killed = Path("runs/kills-peace"), Path("runs/kills-fire")
    for run in (undisturbed, killed):
        shutil.rmtree(run, ignore_errors=True)
    assert start(undisturbed).wait() == 0
    kills = 0
    while kills < options.kills:
        before = newest(killed)
        process = start(killed)
        while newest(killed) == before and process.poll() is None:  # wait until it has resumed and saved a checkpoint
            time.sleep(0.01)
        try:
            process.wait(timeout=rng.uniform(0, 0.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT if kills % 5 == 4 else signal.SIGKILL)
            process.wait()
            kills += 1
            print(f"\rkill {kills} at about step {newest(killed):,}", end="", flush=True)
        else:
            break  # the run has finished
    assert start(killed).wait() == 0
    same = all(
        (undisturbed / name / "model.safetensors").read_bytes() == (killed / name / "model.safetensors").read_bytes()
        for name in ("model", "last")
    )
    print(f"\n{machine()}\n{kills} kills; weights of model/ and last/ {'bit-identical' if same else 'DIFFERENT'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
