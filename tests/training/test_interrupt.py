"""A signal stops training after the current step with a checkpoint; the resumed run gives bit-identical weights."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from regard.recipe import job
from regard.store import checkpoint
from regard.training.interrupt import Interrupted, Interrupts
from regard.training.loop import Training
from regard.training.report import Report
from regard.training.run import train
from runs import finish, recipe, start, weights


def interrupted(run: Path, number: int, at: int) -> Interrupted:
    training = start(run)

    def step(*arguments):
        if training.state.step == at:
            os.kill(os.getpid(), number)
        return Training.step(training, *arguments)

    training.step = step  # type: ignore[method-assign]
    with pytest.raises(
        Interrupted, match=f"stopped; run the same command again to resume from step {at + 1}$"
    ) as found:
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
        with pytest.raises(Interrupted) as found:
            os.kill(os.getpid(), signal.SIGINT)
        assert found.value.exit_code == 130


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        pytest.param(
            signal.SIGHUP,
            129,
            marks=pytest.mark.skipif(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, reason="ignored, as by nohup"),
        ),
    ],
)
def test_a_signal_before_the_first_step_leaves_nothing_and_says_so(tmp_path: Path, monkeypatch, number, code) -> None:
    # after the vocabulary is learned
    monkeypatch.setattr("regard.training.setup.Setup.count", lambda *_, **__: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match="stopped before the first checkpoint, so nothing was saved") as found:
        train(job(recipe(tmp_path / "run")), Report(Console(quiet=True)))
    assert found.value.exit_code == code
    assert list(tmp_path.iterdir()) == []


def test_a_signal_before_a_run_resumes_names_its_checkpoint(uninterrupted: Path, tmp_path: Path, monkeypatch) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    step = checkpoint.newest(run)
    monkeypatch.setattr("regard.training.setup.Setup.count", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted, match=f"run the same command again to resume from step {step}$"):
        train(job(recipe(run)), Report(Console(quiet=True)))
    assert weights(run) == weights(uninterrupted)


def test_a_signal_during_validation_loses_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    run, training = tmp_path / "run", start(tmp_path / "run")

    def validate(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return Training._validate(training, *arguments)

    training._validate = validate  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match="resume from step 10$"):
        training.train()
    finish(run)
    assert weights(run) == weights(uninterrupted)
    assert weights(run, "model") == weights(uninterrupted, "model")


def test_a_second_signal_ends_a_process_that_is_busy_in_a_library() -> None:
    code = """if True:
        import hashlib
        from regard.training.interrupt import ending
        with ending(lambda: None):
            print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # takes minutes, without an instruction of Python
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(2):
            # the call has to begin first, and the system merges signals that were not yet delivered
            time.sleep(1)
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_signals_that_torchrun_and_the_system_repeat_count_as_one(monkeypatch) -> None:
    interrupts = Interrupts()
    with interrupts.remembered():
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.number == signal.SIGTERM
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
        monkeypatch.setattr("regard.training.interrupt.BURST", 0.0)
        with pytest.raises(Interrupted) as found:
            os.kill(os.getpid(), signal.SIGTERM)
        assert found.value.exit_code == 143


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
