"""A signal stops training after the current step with a checkpoint; the resumed run gives bit-identical weights."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from regard.store import checkpoint
from regard.training.interrupt import Interrupted, Interrupts
from regard.training.loop import Training
from runs import finish, start, weights


def interrupted(run: Path, number: int, at: int) -> Interrupted:
    training = start(run)

    def step(*arguments):
        if training.state.step == at:
            os.kill(os.getpid(), number)
        return Training.step(training, *arguments)

    training.step = step  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match=f"stopped at step {at + 1}, checkpoint saved") as found:
        training.train()
    return found.value


def test_a_run_stopped_by_a_signal_resumes_with_bit_identical_weights(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for number, at, code in ((signal.SIGINT, 2, 130), (signal.SIGTERM, 4, 143), (signal.SIGINT, 9, 130)):
        assert interrupted(run, number, at).exit_code == code
        assert checkpoint.every(run)[-1].name == f"step-{at + 1:09d}"
    finish(run)
    assert weights(run) == weights(uninterrupted)
    assert weights(run, "model") == weights(uninterrupted, "model")


def test_signal_handlers_are_restored_after_training(uninterrupted: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    finish(uninterrupted)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_second_signal_ends_the_process_immediately() -> None:
    interrupts = Interrupts()
    with interrupts.remembered():
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(SystemExit, match="143"):
            os.kill(os.getpid(), signal.SIGTERM)


def test_ctrl_c_from_the_shell_exits_with_130_and_resumes(tmp_path: Path) -> None:
    changes = ["data.pairs=300", "tokenizer.vocab_size=300", "train.steps=100000", "train.epochs=100000", "threads=1"]
    command = [sys.executable, "-m", "regard", "train", "translate/dates", f"run={tmp_path / 'run'}", *changes]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # a prediction is reported after the first steps
        assert any(line.startswith("predicted") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert "run the same command again to resume" in process.stderr.read()
    assert process.returncode == 130
    assert len(checkpoint.every(tmp_path / "run")) == 1
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as again:
        assert again.stderr is not None
        assert any("resuming from step" in line for line in again.stderr)
        again.kill()
