"""`regard plan` and `regard doctor`, which write no files."""

import json
import tempfile
from pathlib import Path

import pytest
import torch

from commands import run
from runs import SMALL

pytestmark = pytest.mark.usefixtures("restore_threads")


@pytest.fixture
def planned(tmp_path: Path, monkeypatch) -> dict:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    return json.loads(run("plan", "translate/dates", *SMALL, "run=mine", "--probe", "0.5", "--minutes", "2", "--json"))


@pytest.mark.usefixtures("planned")
def test_a_plan_writes_no_files(tmp_path: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == ["temporary"]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_plan_estimates_time_memory_and_disk(planned: dict) -> None:
    assert planned["steps"] == -(-2 * planned["steps_per_epoch"] // 1)  # the recipe's two epochs
    assert planned["seconds"] > planned["steps"] * planned["seconds_per_step"]
    assert planned["seconds_per_validation"] > 0
    # two minutes include steps, validations and checkpoints
    assert 0 < planned["fitting_steps"] * planned["seconds_per_step"] < 120 + planned["seconds_per_step"]
    assert planned["flops_per_step"] / planned["seconds_per_step"] == pytest.approx(
        planned["utilisation"] * planned["limit"]
    )
    # weights, EMA and two moments at four bytes each, plus names and random number generators
    assert planned["checkpoint_bytes"] > 16 * planned["parameters"]
    assert planned["peak_memory"] > 1e7


def test_a_plan_is_printed_as_text(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = run("plan", "translate/dates", *SMALL, "--probe", "0", "--minutes", "2.5").splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        *("parameters", "work", "speed", "epoch", "validation", "whole run", "peak memory", "checkpoint", "in 2.5 min"),
    ]
    assert "every 10 steps" in lines[4]


def test_the_doctor_checks_everything() -> None:
    found = json.loads(run("doctor", "--json"))
    expected = {"python", "torch", "graphics", "threads", "memory", "products", "bandwidth", "chromium", "cache"}
    assert found.keys() >= expected | {"plot", "serve", "export", "parquet"}
    assert all({"text", "remedy"} <= finding.keys() for finding in found.values())
    assert found["threads"]["chosen"] >= 1
    assert found["products"]["flops"]["1"] > 1e6
    assert found["torch"]["version"] == torch.__version__


def test_the_doctor_marks_problems(monkeypatch) -> None:
    monkeypatch.setattr("regard.training.doctor._version", lambda package: None if package == "uvicorn" else "1.0")
    monkeypatch.setattr("regard.training.machine.free_memory", lambda: 10**9)
    lines = run("doctor").splitlines()
    marked = {line.split()[1]: line for line in lines if line.startswith("!")}
    assert "uvicorn missing; to install: pip install 'regard[serve]'" in marked["serve"]
    assert "1.0 GB free" in marked["memory"]
    assert "train.recompute=true" in marked["memory"]
    assert "plot" not in marked
