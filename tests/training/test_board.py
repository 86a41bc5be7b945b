import json
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from runs import finish, start


def logged(run: Path, name: str) -> list[tuple[int, float]]:
    """The values of a key in the log, by step."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [(line["step"], line[name]) for line in lines if name in line]


def shown(run: Path, name: str) -> list[tuple[int, float]]:
    """The values of a curve as TensorBoard shows them, by step."""
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_tensorboard_shows_the_log_without_duplicate_steps_after_an_interruption(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("regard.training.loop.LOG_EVERY", 2)
    run = tmp_path / "run"
    changes = ["train.tensorboard=true", "train.steps=12", "train.checkpoint_every=5", "train.validate_every=3"]
    training = start(run, *changes)
    for step in range(1, 10):  # dies after step 9; the last checkpoint is that of step 5
        training.advance()
        if step % 3 == 0:
            training.validate()
        if step == 5:
            training.save()
    training.report.close()
    finish(run, *changes)
    for name in ("loss", "rate", "valid_loss", "bleu", "minutes"):
        steps, values = zip(*logged(run, name), strict=True)
        found_steps, found_values = zip(*shown(run, name), strict=True)
        assert found_steps == steps
        assert found_values == pytest.approx(values, rel=1e-6)  # events hold 32-bit numbers
    assert [step for step, _ in shown(run, "valid_loss")] == [3, 6, 9, 12]


def test_a_run_without_the_key_writes_no_events_and_imports_no_tensorboard(uninterrupted: Path) -> None:
    assert not (uninterrupted / "tensorboard").exists()
    code = "import sys, regard.training.loop; assert 'tensorboard' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_may_begin_to_write_events_when_it_is_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    finish(run, "train.steps=2")
    finish(run, "train.steps=4", "train.tensorboard=true")
    assert [step for step, _ in shown(run, "valid_loss")] == [4]


def test_without_tensorboard_the_error_names_the_extra_before_anything_is_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "regard.training.board", None)
    monkeypatch.delattr("regard.training.board", raising=False)
    with pytest.raises(ValueError, match=r"needs tensorboard; install it with: pip install 'regard\[board\]'"):
        start(tmp_path / "run", "train.tensorboard=true")
    assert not (tmp_path / "run").exists()
