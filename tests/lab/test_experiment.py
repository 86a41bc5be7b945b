from pathlib import Path

import numpy as np
import pytest
import typer

from commands import run
from regard.cli.lab import lab
from regard.lab.experiment import Claim, Experiment, Interval, Verdict
from regard.lab.registry import EXPERIMENTS


class Coins(Experiment):
    """Heads are 1, tails 0."""

    name = "coins"
    claim = Claim("A coin is fair", "Bernoulli 1713")
    prediction = "Half of all throws are heads."

    def __init__(self, throws: list[int]) -> None:
        self.throws = throws

    @classmethod
    def run(cls, throws: list[int]) -> "Coins":
        return cls(throws)

    @property
    def values(self) -> dict[str, float]:
        return {"heads": sum(self.throws) / len(self.throws)}

    @property
    def verdict(self) -> Verdict:
        interval = Interval.bootstrap("heads", self.throws)
        return Verdict(interval.low <= 0.5 <= interval.high, "as found", interval)

    def figure(self) -> None:
        return None


def test_an_experiment_has_a_complete_json_form() -> None:
    found = Coins.run([0, 1] * 50).to_json()
    assert found["heads"] == 0.5
    assert found["claim"] == {"text": "A coin is fair", "source": "Bernoulli 1713"}
    assert found["prediction"] == "Half of all throws are heads."
    assert found["verdict"]["holds"] is True
    assert found["verdict"]["interval"].keys() == {"of", "mean", "low", "high"}
    assert Coins.run([0, 1, 1, 1] * 50).verdict.holds is False


def test_a_verdict_is_formatted_as_text() -> None:
    assert str(Verdict(True, "all is well")) == "the prediction holds: all is well"
    assert str(Verdict(False, "it is not")) == "the prediction does not hold: it is not"
    interval = Interval("heads", 0.5, 0.4, 0.6)
    assert str(Verdict(None, "who knows", interval)) == (
        "undecided: who knows (heads: +0.50, 95 % interval +0.40 to +0.60)"
    )


def test_the_interval_equals_that_of_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(3)
    values = rng.choice([-1.0, 0.0, 2.5], size=400, p=[0.2, 0.5, 0.3])
    found = Interval.bootstrap("x", values.tolist())
    means = [rng.choice(values, size=400).mean() for _ in range(4000)]
    assert found.mean == pytest.approx(values.mean())
    # 4,000 samples leave quantiles an error of about 0.005
    assert [found.low, found.high] == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=0.02)
    assert found == Interval.bootstrap("x", values[::-1].tolist())
    same = Interval.bootstrap("x", [2.0, 2.0])
    assert (same.mean, same.low, same.high) == (2.0, 2.0, 2.0)


def test_the_interval_contains_the_true_mean_in_95_percent_of_samples() -> None:
    rng = np.random.default_rng(1)
    draws = [Interval.bootstrap("x", rng.normal(1.0, 2.0, 100).tolist(), samples=300) for _ in range(400)]
    held = np.mean([each.low <= 1.0 <= each.high for each in draws])
    assert 0.91 < held < 0.98  # 0.95, ± three standard errors and the bias of a sample of 100 values


def test_all_experiments_are_listed_and_have_a_command() -> None:
    lines = run("lab").splitlines()
    assert [line.split()[0] for line in lines] == [experiment.name for experiment in EXPERIMENTS]
    for line, experiment in zip(lines, EXPERIMENTS, strict=True):
        assert line.endswith(f"{experiment.claim.text} ({experiment.claim.source})")
    assert typer.main.get_command(lab).commands.keys() == {experiment.name for experiment in EXPERIMENTS}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_an_experiment_has_a_source_and_a_prediction(experiment) -> None:
    assert experiment.claim.text
    assert any(character.isdigit() for character in experiment.claim.source)  # at least the year
    assert experiment.prediction.endswith(".")


def test_every_experiment_of_the_package_is_registered() -> None:
    folder = Path(__file__).parents[2] / "src" / "regard" / "lab"
    written = {path.stem for path in folder.glob("*.py") if "(Experiment):" in path.read_text("utf-8")}
    assert written == {experiment.__module__.rpartition(".")[2] for experiment in EXPERIMENTS}
