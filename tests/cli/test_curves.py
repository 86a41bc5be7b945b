import json
from pathlib import Path

import pytest

from commands import run
from runs import finish


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with its log."""
    folder = tmp_path_factory.mktemp("curves") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.loop.LOG_EVERY", 2)
        finish(folder, "train.epochs=1", "train.validate_every=3", "train.accumulate=1")
    return folder


def written(folder: Path, *entries: dict[str, float]) -> Path:
    folder.mkdir()
    # the last line is just being written
    (folder / "log.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries) + '{"step": 9, "lo')
    return folder


def test_the_curves_of_a_run_are_those_of_its_log(trained: Path) -> None:
    lines = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    for by in ("step", "epoch", "minutes"):
        found = json.loads(run("curves", trained, "--by", by, "--json"))
        assert found["by"] == by
        (curves,) = found["runs"].values()
        assert list(curves) == ["loss", "valid_loss", "bleu", "chrf", "exact"]
        for name, points in curves.items():
            assert points == [[line[by], line[name]] for line in lines if name in line]


def test_epochs_on_the_axis_end_with_the_budget(trained: Path) -> None:
    found = json.loads(run("curves", trained, "--by", "epoch", "--json"))
    epochs = [x for x, _ in found["runs"][str(trained)]["valid_loss"]]
    assert epochs == sorted(epochs)
    assert epochs[-1] == 1


def test_curves_of_several_runs_are_drawn_in_one_figure(trained: Path, tmp_path: Path, monkeypatch) -> None:
    other = written(tmp_path / "other", {"step": 5, "valid_loss": 1.0, "valid_accuracy": 0.5})
    monkeypatch.chdir(tmp_path)
    said = run("curves", trained, other)
    assert said == "curves.png: loss, valid_loss, bleu, chrf, exact, valid_accuracy of 2 runs\n"
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_json_alone_draws_nothing(tmp_path: Path, monkeypatch) -> None:
    other = written(tmp_path / "other", {"step": 5, "valid_loss": 1.0})
    monkeypatch.chdir(tmp_path)
    assert json.loads(run("curves", other, "--json"))["runs"] == {str(other): {"valid_loss": [[5, 1.0]]}}
    assert not (tmp_path / "curves.png").exists()


def test_runs_without_curves_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing has no log\.jsonl; give the folder of a run"):
        run("curves", tmp_path / "missing")
    with pytest.raises(ValueError, match=r"log\.jsonl has no values yet; wait for the first validation"):
        run("curves", written(tmp_path / "new", {"step": 0}))
    old = written(tmp_path / "old", {"step": 5, "valid_loss": 1.0})
    with pytest.raises(ValueError, match=r"has no minutes, because an older version of Regard wrote it; use --by step"):
        run("curves", old, "--by", "minutes")
    with pytest.raises(ValueError, match=r"curves\.gif: unknown format; use \.pdf, \.png, \.svg"):
        run("curves", old, "-o", tmp_path / "curves.gif")
