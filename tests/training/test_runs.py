"""A run starts and resumes only in a folder of its own."""

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from regard import library
from regard.recipe import training as training_of
from regard.training.report import Report
from runs import custom_recipe, start, weights


def test_a_run_of_another_recipe_is_not_overwritten(uninterrupted: Path) -> None:
    with pytest.raises(
        ValueError, match=r"contains a run of another recipe \(different: model\.width, seed\)|\(different: seed, model"
    ):
        start(uninterrupted, "model.width=32", "seed=2")


def test_a_run_without_a_checkpoint_can_be_replaced(tmp_path: Path) -> None:
    start(tmp_path / "run", "tokenizer.vocab_size=290")
    assert start(tmp_path / "run", "model.width=32").task.target.vocab_size == 300


def test_a_damaged_recipe_is_reported(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    (run / "recipe.toml").write_text("")
    with pytest.raises(ValueError, match=r"recipe\.toml was written by another version of Regard, or is damaged"):
        start(run)


def test_a_model_folder_is_not_used_as_a_run_folder(uninterrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(uninterrupted / "model", tmp_path / "model")
    with pytest.raises(ValueError, match="is a model folder, not a run folder; choose another folder with run="):
        start(tmp_path / "model")
    assert library.load(str(tmp_path / "model"))


def test_a_folder_with_other_files_is_not_overwritten(uninterrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(uninterrupted / "model", tmp_path / "work" / "model")
    with pytest.raises(ValueError, match="contains files that do not belong to a run"):
        start(tmp_path / "work")
    assert weights(tmp_path / "work", "model") == weights(uninterrupted, "model")


def test_other_files_with_the_names_of_run_files_are_not_overwritten(tmp_path: Path) -> None:
    names = ("text.json", "log.jsonl", "recipe.toml", "tokenizer_words.json", "curves.png", "tokenizer.json")
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=r"recipe\.toml was written by another version of Regard, or is damaged"):
        start(tmp_path)
    (tmp_path / "recipe.toml").unlink()
    with pytest.raises(ValueError, match="contains files that do not belong to a run"):
        start(tmp_path)
    assert all((tmp_path / name).read_text() == "mine" for name in names if name != "recipe.toml")


def test_a_finished_run_without_checkpoints_is_not_started_again(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(ValueError, match="contains a finished run without checkpoints to resume from"):
        start(run)
    shutil.rmtree(run / "last")
    with pytest.raises(ValueError, match="contains a run of another recipe"):
        start(run, "seed=2")
    assert weights(run, "model") == weights(uninterrupted, "model")


def test_if_all_checkpoints_are_damaged_nothing_is_overwritten(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    for path in run.glob("checkpoints/*/tensors.safetensors"):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="all checkpoints of .* are damaged; to start again, remove the folder"):
        start(run)
    assert weights(run, "model") == weights(uninterrupted, "model")


def test_resuming_with_changed_training_data_is_an_error(tmp_path: Path) -> None:
    training_of(custom_recipe(tmp_path, 60), Report(Console(quiet=True))).train()
    with pytest.raises(ValueError, match="the training data of .* have changed since it started"):
        training_of(custom_recipe(tmp_path, 50, "train.epochs=3"), Report(Console(quiet=True)))
