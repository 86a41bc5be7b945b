import json
from pathlib import Path

import pytest
import torch

from regard.recipe import TrainConfig
from regard.training.task import Tally
from regard.training.throughput import COUNTED_FIRST, WARM_UP, Forecast, Throughput, forecast
from runs import start

PACE = {"epoch": 40.5, "step": 2.0, "validation": 30.0, "checkpoint": 10.0}


@pytest.mark.parametrize(
    ("budget", "steps"),
    [({"steps": 95}, 95), ({"epochs": 2}, 81), ({"epochs": 2, "steps": 50}, 50), ({"steps": 95, "minutes": 3.5}, 30)],
)
def test_a_forecast_covers_the_first_budget_with_validations_and_checkpoints(budget, steps) -> None:
    # a step takes 2 s, every tenth is followed by a validation of 30, every fifth by a checkpoint of 10
    found = forecast(TrainConfig(**budget, validate_every=10, checkpoint_every=5), **PACE)
    assert found.steps == steps
    assert found.seconds == steps * 2 + -(-steps // 10) * 30 + -(-steps // 5) * 10


def test_the_prediction_error_is_measured_per_step() -> None:
    assert Forecast(100, 60.0).error(100, 66.0) == pytest.approx(0.1)
    assert Forecast(100, 60.0).error(50, 27.0) == pytest.approx(-0.1)  # stopped early, but faster


def test_flops_of_the_first_steps_are_counted_and_steps_after_the_warm_up_are_timed(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr("regard.training.throughput.time.perf_counter", lambda: now[0])
    throughput, products = Throughput(limit=1e6), torch.ones(10, 10)

    def take() -> Tally:
        now[0] += 100.0 if throughput.steps < WARM_UP else 2.0
        tally = Tally()
        tally.counts["tokens"] = 5 if throughput.steps < COUNTED_FIRST else 1000
        _ = products @ products
        return tally

    for _ in range(20):
        throughput.step(take)
    assert throughput.seconds("step") == 2.0
    assert throughput.flops_per_token == 2000 / 5
    assert throughput.utilisation(tokens_per_second=250) == 0.1


def test_utilisation_memory_and_prediction_error_are_logged(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("regard.training.loop.LOG_EVERY", 5)
    monkeypatch.setattr("regard.training.loop.PREDICTED_AFTER", 8)
    training, target = start(tmp_path / "run"), []
    training.report.say = target.append
    training.train()
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    logged = [line for line in lines if "utilisation" in line]
    assert [line["step"] for line in logged] == list(range(5, training.state.step + 1, 5))
    assert all(line["utilisation"] > 0 and line["peak_memory"] > 1e7 for line in logged)
    (prediction,) = (line for line in lines if "predicted_steps" in line)
    assert prediction["step"] == 8
    assert prediction["predicted_steps"] == training.state.step  # two epochs, counted in batches
    last = lines[-1]
    assert last["minutes"] == training.state.seconds / 60
    assert last["prediction_error"] == pytest.approx(last["minutes"] / prediction["predicted_minutes"] - 1)
    assert f"predicted {prediction['predicted_minutes']:.1f} min for {training.state.step} steps, took" in target[-1]
    assert f"time per step {last['prediction_error']:+.0%} compared with the prediction" in target[-1]


def test_a_resumed_run_remembers_the_prediction(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("regard.training.loop.PREDICTED_AFTER", 5)
    training = start(tmp_path / "run", "train.checkpoint_every=6", "train.steps=6")
    training.train()
    assert training.state.predicted_steps == 6
    assert start(tmp_path / "run", "train.checkpoint_every=6", "train.steps=6").state.predicted_steps == 6
