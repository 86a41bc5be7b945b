"""Whose folder is it? A run begins and goes on where it is its own only."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from regard import library
from regard.recipe import training as training_of
from regard.training.report import Report
from runs import own_text, start, weights


def test_a_run_of_another_recipe_is_left_alone(straight: Path) -> None:
    with pytest.raises(
        ValueError, match=r"holds a run of another recipe \(other: model\.width, seed\)|\(other: seed, model"
    ):
        start(straight, "model.width=32", "seed=2")


def test_an_attempt_that_came_to_nothing_is_no_hindrance(tmp_path: Path) -> None:
    start(tmp_path / "run", "tokenizer.vocab_size=290")
    assert start(tmp_path / "run", "model.width=32").task.target.vocab_size == 300


def test_a_damaged_recipe_is_named(straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(straight, run)
    (run / "recipe.toml").write_text("")
    with pytest.raises(ValueError, match=r"recipe\.toml: of another version of Regard, or damaged"):
        start(run)


def test_a_model_s_folder_is_not_taken_for_a_run(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "model", tmp_path / "model")
    with pytest.raises(ValueError, match="is a model's folder, not a run's; choose another folder with run="):
        start(tmp_path / "model")
    assert library.load(str(tmp_path / "model"))


def test_a_folder_with_files_that_are_not_of_a_run_is_left_alone(straight: Path, tmp_path: Path) -> None:
    shutil.copytree(straight / "model", tmp_path / "work" / "model")
    with pytest.raises(ValueError, match="holds files that are not of a run, and they are left alone"):
        start(tmp_path / "work")
    assert weights(tmp_path / "work", "model") == weights(straight, "model")


def test_files_of_ones_own_with_our_names_are_left_alone(tmp_path: Path) -> None:
    names = ("text.json", "log.jsonl", "recipe.toml", "tokenizer_words.json", "curves.png", "tokenizer.json")
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=r"recipe\.toml: of another version of Regard, or damaged"):
        start(tmp_path)
    (tmp_path / "recipe.toml").unlink()
    with pytest.raises(ValueError, match="holds files that are not of a run"):
        start(tmp_path)
    assert all((tmp_path / name).read_text() == "mine" for name in names if name != "recipe.toml")


def test_a_finished_run_without_checkpoints_is_not_begun_anew(straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(straight, run)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(ValueError, match="holds a finished run without the checkpoints to go on from"):
        start(run)
    shutil.rmtree(run / "last")
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        start(run, "seed=2")
    assert weights(run, "model") == weights(straight, "model")


def test_where_every_checkpoint_is_damaged_nothing_is_overwritten(straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(straight, run)
    for path in run.glob("checkpoints/*/tensors.safetensors"):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="no checkpoint of .* is whole; to begin anew, remove the folder"):
        start(run)
    assert weights(run, "model") == weights(straight, "model")


def test_text_that_has_changed_under_a_run_is_told(tmp_path: Path) -> None:
    training_of(own_text(tmp_path, 60), Report(Console(quiet=True))).train()
    with pytest.raises(ValueError, match="the text that .* is trained on has changed since it began"):
        training_of(own_text(tmp_path, 50, "train.epochs=3"), Report(Console(quiet=True)))
