"""A run starts and resumes only in a folder of its own, one process at a time."""

import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from regard import library
from regard.recipe import job, read
from regard.recipe import training as training_of
from regard.store.lock import locked
from regard.training.report import Report
from regard.training.run import train
from runs import custom_recipe, recipe, start, weights


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
    with pytest.raises(
        ValueError, match=r"recipe\.toml was not written by a run, or is damaged; choose another folder"
    ):
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
    with pytest.raises(
        ValueError, match=r"recipe\.toml was not written by a run, or is damaged; choose another folder"
    ):
        start(tmp_path)
    (tmp_path / "recipe.toml").unlink()
    with pytest.raises(ValueError, match="contains files that do not belong to a run"):
        start(tmp_path)
    assert all((tmp_path / name).read_text() == "mine" for name in names if name != "recipe.toml")


def test_a_recipe_of_ones_own_is_not_replaced_by_that_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("# Mine\n" + recipe(tmp_path).to_toml())
    with pytest.raises(ValueError, match=r"recipe\.toml was not written by a run"):
        train(job(read(str(tmp_path / "recipe.toml"))), Report(Console(quiet=True)))
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]
    assert (tmp_path / "recipe.toml").read_text().startswith("# Mine")


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


def test_two_trainings_in_one_folder_are_an_error_that_names_the_first(tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        before = sorted((tmp_path / "run").iterdir())
        with pytest.raises(ValueError, match=rf"run is in use: process {os.getpid()} on .* is training in it; wait"):
            train(job(recipe(tmp_path / "run")), Report(Console(quiet=True)))
        assert sorted((tmp_path / "run").iterdir()) == before
    assert train(job(recipe(tmp_path / "run", "train.steps=1")), Report(Console(quiet=True))).is_over
    assert not (tmp_path / "run" / "lock").exists()


def test_a_lock_does_not_outlive_its_process(tmp_path: Path) -> None:
    code = "import sys, time, pathlib\nfrom regard.store.lock import locked\n"
    code += "with locked(pathlib.Path(sys.argv[1])):\n    print('locked', flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "run"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(ValueError, match=f"process {process.pid} on"), locked(tmp_path / "run"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "run" / "lock").exists()
    with locked(tmp_path / "run"):
        assert f"process {os.getpid()} on" in (tmp_path / "run" / "lock").read_text()
    assert not (tmp_path / "run").exists()


def test_a_file_of_another_program_is_not_used_as_a_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("mine")
    with pytest.raises(ValueError, match="lock does not belong to a run; choose another folder"), locked(tmp_path):
        pass
    assert (tmp_path / "lock").read_text() == "mine"


@pytest.mark.parametrize("damage", ["data.train=none.tsv", "data.max_length=2", "device=cuda", "train.shard=true"])
def test_a_run_that_cannot_start_leaves_no_folder(tmp_path: Path, damage) -> None:
    with pytest.raises((ValueError, OSError)):
        train(job(custom_recipe(tmp_path, 60, damage)), Report(Console(quiet=True)))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.tsv"]


def test_a_disk_that_is_full_at_the_start_leaves_no_folder(tmp_path: Path, monkeypatch) -> None:
    def full(path: Path, _: str) -> None:
        path.with_name(f".{path.name}.new").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.training.report.write_text", full)
    with pytest.raises(OSError, match="No space left"):
        train(job(custom_recipe(tmp_path, 60)), Report(Console(quiet=True)))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.tsv"]


def test_a_run_that_cannot_start_leaves_an_existing_folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="contains files that do not belong to a run"):
        train(job(custom_recipe(tmp_path, 60)), Report(Console(quiet=True)))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_a_damaged_log_is_reported_and_the_run_resumes(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    before = (run / "log.jsonl").read_bytes()
    (run / "log.jsonl").write_bytes(b'5\n{"step": "x"}\n\xff\n[1]\n' + before)
    console = Console(record=True, file=io.StringIO(), width=1000)
    training_of(recipe(run), Report(console))
    lines = console.export_text().splitlines()
    assert [line for line in lines if "damaged" in line] == [
        f"{run / 'log.jsonl'}, line {number}: damaged, dropped" for number in (1, 2, 3, 4)
    ]
    assert (run / "log.jsonl").read_bytes() == before


def test_a_run_with_a_damaged_tokenizer_does_not_resume(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    path = run / "codecs" / "tokenizer.json"
    path.write_text(path.read_text().replace('"a"', '"b"', 1))
    with pytest.raises(ValueError, match=r"tokenizer\.json: damaged, its checksum is wrong; the same file may be in"):
        start(run)
    shutil.copy(run / "model" / "tokenizer.json", path)
    assert start(run).is_over


def test_a_model_is_read_between_the_two_renames_of_its_replacement(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    shutil.copytree(run / "last", run / ".model.new")
    (run / "model").rename(run / ".model.old")
    before = sorted(run.iterdir())
    expected = library.read(str(uninterrupted)).weights
    assert library.read(str(run)).weights.keys() == expected.keys()
    assert library.fingerprint(str(run)) == library.fingerprint(str(uninterrupted))
    assert sorted(run.iterdir()) == before  # the writer can still do its second rename


def test_an_interrupted_replacement_of_a_model_is_restored_by_training(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    (run / "model").rename(run / ".model.old")
    start(run)
    assert weights(run, "model") == weights(uninterrupted, "model")
    assert not (run / ".model.old").exists()


def test_an_old_model_that_was_not_removed_is_removed_by_training(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    shutil.copytree(run / "model", run / ".model.old")
    start(run)
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in uninterrupted.iterdir())
