import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load_file

from helpers import assert_same
from regard import library
from regard.data.parallel import pair_batch
from regard.recipe import read
from regard.recipe import training as training_of
from regard.store import checkpoint
from regard.training.loop import Training
from regard.training.report import Report
from runs import SMALL, custom_recipe, finish, recipe, start, weights


def die_at(training: Training, step: int) -> None:
    """Trains up to this step and dies before its checkpoint is saved."""

    def dying_step(*arguments: Any) -> Any:
        if training.state.step == step:
            raise KeyboardInterrupt
        return Training.step(training, *arguments)

    training.step = dying_step  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        training.train()


def test_a_run_folder_is_complete(uninterrupted: Path) -> None:
    assert {path.name for path in uninterrupted.iterdir()} == {
        "recipe.toml", "text.json", "codecs", "log.jsonl", "checkpoints", "model", "last", "curves.png",
    }  # fmt: skip
    assert len(list((uninterrupted / "checkpoints").iterdir())) == 2
    log = [json.loads(line) for line in (uninterrupted / "log.jsonl").read_text().splitlines()]
    losses = [line["valid_loss"] for line in log if "valid_loss" in line]
    assert losses[-1] < losses[0]
    assert library.load(str(uninterrupted)).translate(["May 5, 1955"])[0][0].text


def test_a_run_interrupted_at_any_step_resumes_with_bit_identical_weights(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "interrupted"
    for step in (3, 8, 9, 13):
        die_at(start(run), step)
    finish(run)
    assert weights(run) == weights(uninterrupted)
    assert weights(run, "model") == weights(uninterrupted, "model")
    same = [(path / "log.jsonl").read_text().splitlines() for path in (run, uninterrupted)]
    kept = [[json.loads(line) for line in lines if "valid_loss" in line or "pairs" in line] for lines in same]
    for line in (*kept[0], *kept[1]):
        line.pop("minutes", None)  # depends on the clock
    assert kept[0] == kept[1]


def test_a_killed_run_resumes_with_bit_identical_weights(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "killed"
    command = [sys.executable, "-m", "regard", "train", "translate/dates", *SMALL, f"run={run}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for more in (0.0, 0.05):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        begun = max((run / "checkpoints").glob("step-*"), default=run)
        while max((run / "checkpoints").glob("step-*"), default=run) == begun:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(more)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert weights(run) == weights(uninterrupted)


def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_is_used(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "damaged"
    die_at(start(run), 16)
    newest = max((run / "checkpoints").iterdir()) / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    console = Console(record=True, file=io.StringIO())
    training = training_of(recipe(run), Report(console))
    assert "tensors.safetensors: damaged" in console.export_text().replace("\n", "")
    assert training.state.step == 7
    training.train()
    assert weights(run) == weights(uninterrupted)


def test_a_full_disk_while_saving_keeps_the_previous_checkpoint(
    uninterrupted: Path, tmp_path: Path, monkeypatch
) -> None:
    run = tmp_path / "full"
    training = start(run)

    def full(*_: Any, **__: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        save = training.save

        def sometimes() -> None:
            if training.state.step > 7:
                patch.setattr("regard.folders.save_file", full)
            save()

        training.save = sometimes  # type: ignore[method-assign]
        with pytest.raises(OSError, match="tensors.safetensors: cannot be written .*No space left"):
            training.train()
    finish(run)
    assert weights(run) == weights(uninterrupted)


def test_the_same_command_on_a_finished_run_changes_nothing(uninterrupted: Path) -> None:
    before = weights(uninterrupted)
    assert start(uninterrupted).is_over
    assert finish(uninterrupted).state.step > 0
    assert weights(uninterrupted) == before


def test_a_run_killed_after_the_last_checkpoint_is_resumed_and_completed(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    shutil.rmtree(run / "last")
    finish(run)
    assert weights(run) == weights(uninterrupted)


def test_validation_uses_the_ema_and_leaves_the_weights_unchanged(tmp_path: Path) -> None:
    training = start(tmp_path / "run")
    training.step([next(training.batches) for _ in range(2)], 0.01)
    before = {name: p.detach().clone() for name, p in training.parameters.items()}
    training.validate()
    judged = dict(training.validation_model.named_parameters())
    assert all(torch.equal(before[name], p) for name, p in training.parameters.items())
    assert all(torch.equal(training.ema[name], p) for name, p in judged.items())
    assert any(not torch.equal(before[name], p) for name, p in judged.items())


def test_a_run_resumes_with_a_larger_budget(tmp_path: Path) -> None:
    run = tmp_path / "longer"
    step = finish(run, "train.epochs=1").state.step
    assert finish(run, "train.epochs=2").state.step > step


def test_steps_minutes_and_early_stopping_end_a_run(tmp_path: Path) -> None:
    assert finish(tmp_path / "steps", "train.steps=4").state.step == 4
    training = finish(tmp_path / "minutes", "train.minutes=0.001")
    assert training.progress == 1
    assert training.state.step >= 1
    assert (tmp_path / "minutes" / "model" / "config.json").exists()
    training = start(tmp_path / "patience", "train.patience=1", "train.learning_rate=1e-30", "train.validate_every=1")
    training.train()
    assert training.state.step < 10
    assert training.state.stale == 1


def test_a_loss_that_is_not_finite_stops_the_run_and_saves_the_batch(tmp_path: Path) -> None:
    training = start(tmp_path / "nan")
    with torch.no_grad():
        training.model.target_embedding.weight[5] = float("nan")
    with pytest.raises(
        ValueError, match=r"the loss of step 0 is not a finite number; the batch was saved in .*bad-batch"
    ):
        training.train()
    names = ("source_BS", "target_BT", "next_BT", "is_padding_BS")
    assert set(load_file(tmp_path / "nan" / "bad-batch.safetensors")) == {f"{name}.0" for name in names}


def test_gradient_accumulation_equals_one_large_batch(tmp_path: Path) -> None:
    # every token has the same weight, in any batch
    pairs = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9, 10]), ([9, 8], [7])]
    gradients = []
    for groups in ([[0, 1, 2]], [[0], [1, 2]]):
        training = start(tmp_path / "run", "model.dropout=0.0")
        training.model.double()
        training.optimizer.step = lambda: None  # type: ignore[method-assign]
        training.optimizer.zero_grad = lambda: None  # type: ignore[method-assign]
        training.ema = {}
        training.config = training.config.__class__(**{**vars(training.config), "clip_norm": 1e9})
        training.step([pair_batch(*([pairs[i][side] for i in group] for side in (0, 1))) for group in groups], 1.0)
        gradients.append({name: p.grad for name, p in training.parameters.items()})
    for name, gradient in gradients[0].items():
        assert_same(gradients[1][name], gradient)


def test_a_run_can_be_initialised_from_another(uninterrupted: Path, tmp_path: Path) -> None:
    changes = [f"model.init={uninterrupted}", "model.dropout=0.3", "train.learning_rate=1e-30", "train.ema=0.0"]
    training = finish(tmp_path / "tuned", *changes, "train.steps=1")
    old, new = (load_file(folder / "model" / "model.safetensors") for folder in (uninterrupted, tmp_path / "tuned"))
    for name, tensor in old.items():
        assert_same(new[name], tensor, tolerance=1e-7)  # the learning rate is almost zero
    assert training.task.config.dropout == 0.3
    assert training.task.config.width == 16
    assert (tmp_path / "tuned/codecs/tokenizer.json").read_bytes() == (
        uninterrupted / "codecs/tokenizer.json"
    ).read_bytes()
    # it resumes from its own checkpoint
    assert finish(tmp_path / "tuned", *changes, "train.steps=3", "train.learning_rate=1e-30").state.step == 3


def test_an_initial_model_must_have_the_shape_of_the_config(uninterrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the weights of .*: tensors do not match the config\n.*has shape \(16"):
        start(tmp_path / "run", f"model.init={uninterrupted}", "model.width=32")


def test_the_mean_of_the_last_checkpoints_is_saved_if_it_is_better(tmp_path: Path) -> None:
    run = tmp_path / "run"
    training = finish(run, "train.average_checkpoints=3", "train.ema=0.0")
    last = [load_file(folder / "tensors.safetensors") for folder in sorted(run.glob("checkpoints/step-*"))]
    assert len(last) == 3
    kept = load_file(run / "model" / "model.safetensors")
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    best = min(line["valid_loss"] for line in lines if "valid_loss" in line)
    mean = {name: sum(tensors[f"model.{name}"] for tensors in last) / 3 for name in kept}
    loss = training._validation_values(mean)["valid_loss"]
    is_mean = all(torch.allclose(kept[name], mean[name], atol=1e-6) for name in kept)
    assert is_mean == (loss < best)
    # the saved model is the better of the two
    assert training._validation_values(kept)["valid_loss"] == pytest.approx(min(loss, best), abs=1e-5)
    # and a resumed run has to beat it
    assert start(run, "train.average_checkpoints=3", "train.ema=0.0").state.best == pytest.approx(min(loss, best))


def test_a_damaged_checkpoint_is_excluded_from_the_mean(tmp_path: Path) -> None:
    run, target = tmp_path / "run", []
    for step, value in ((1, 1.0), (2, 2.0), (3, 9.0)):
        checkpoint.save(run, step, {"model.x": torch.full((2,), value), "other": torch.zeros(1)}, {}, kept=3)
    path = run / "checkpoints" / "step-000000003" / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert checkpoint.mean(run, 3, "model.", target.append)["x"].tolist() == [1.5, 1.5]
    assert "step-000000003" in target[0]
    assert checkpoint.mean(run, 2, "model.", target.append)["x"].tolist() == [2.0, 2.0]


def test_a_run_ends_with_a_plot_of_its_learning_curves(uninterrupted: Path) -> None:
    assert (uninterrupted / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_low_precision_trains(tmp_path: Path) -> None:
    training = finish(tmp_path / "low", "train.precision=bfloat16", "train.steps=2")
    assert all(p.dtype == torch.float32 for p in training.parameters.values())
    gradients = {}
    for precision in ("float32", "bfloat16"):
        training = start(tmp_path / precision, "model.dropout=0.0", f"train.precision={precision}")
        training.optimizer.zero_grad = lambda: None  # type: ignore[method-assign]
        training.step([next(training.batches)], 0.0)
        gradients[precision] = torch.cat([p.grad.flatten() for p in training.parameters.values()])
    similar = torch.cosine_similarity(gradients["float32"], gradients["bfloat16"], dim=0)
    assert 0.99 < similar < 1 - 1e-6  # similar, but not equal


@pytest.mark.parametrize("name", ["translate/rnn", "translate/conv"])
def test_low_precision_trains_other_models_too(tmp_path: Path, name) -> None:
    data = tmp_path / "data.tsv"
    data.write_text("".join(f"one two {i}\tuno dos {i}\n" for i in range(60)))
    small = ["tokenizer.vocab_size=300", "model.width=16", "train.steps=2", "train.batch_tokens=200", "threads=1"]
    changes = [f"data.train={data}", f"run={tmp_path / 'run'}", "train.precision=bfloat16"]
    training = training_of(read(name, [*small, *changes]), Report(Console(quiet=True)))
    training.train()
    assert training.state.step == 2


def test_an_unavailable_device_is_reported(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="device = cuda is not available"):
        start(tmp_path / "run", "device=cuda")


def test_time_spent_on_validation_counts(tmp_path: Path, monkeypatch) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1e-6
        return now[0]

    monkeypatch.setattr("regard.training.loop.time.perf_counter", clock)
    training = start(tmp_path / "run", "train.minutes=1", "train.validate_every=1")

    def validate() -> None:
        now[0] += 25

    training.validate = validate  # type: ignore[method-assign]
    training.train()
    assert training.state.step == 3  # the minute is over after three validations


def test_the_progress_line_shows_the_last_bleu(tmp_path: Path) -> None:
    training, lines = start(tmp_path / "live"), []
    training.report.step = lambda _, *parts: lines.append("  ".join(parts))
    training.train()
    first = recipe(tmp_path).train.validate_every
    assert "BLEU" not in lines[first - 1]
    assert re.search(r"loss [\d.]+  step \d+  valid loss [\d.]+  BLEU [\d.]+  [\d,]+ tokens/s", lines[first])


@pytest.mark.parametrize(
    ("changes", "ended_by"),
    [
        (["train.steps=3"], "train.steps = 3"),
        (["train.epochs=1", "train.steps=500"], "train.epochs = 1"),
        (
            ["train.validate_every=1", "train.patience=2", "train.learning_rate=1e-30"],
            "early stopping: no improvement in 2 validations (train.patience = 2)",
        ),
    ],
)
def test_the_log_names_the_budget_that_ended_a_run(tmp_path: Path, changes: list[str], ended_by: str) -> None:
    run, said = tmp_path / "run", []
    training = start(run, *changes)
    training.report.say = said.append
    training.train()
    assert f"ended by {ended_by}" in said
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [line["ended_by"] for line in lines if "ended_by" in line] == [ended_by]
    again = start(run, *changes)
    again.report.say = said.append
    again.train()
    assert said[-1] == f"{run}: already finished at step {training.state.step}, ended by {ended_by}"


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_last_epoch_has_the_number_of_the_budget(tmp_path: Path, accumulate: int) -> None:
    # with 3 batches a step, the last step takes a batch of the next epoch
    training, said = start(tmp_path / "run", f"train.accumulate={accumulate}", "train.validate_every=1000"), []
    training.report.say = said.append
    training.train()
    assert training.state.epoch == 2
    assert (training.state.batch > 0) == (accumulate == 3)
    assert [re.search(r"epoch (\d+)", line)[1] for line in said if "valid loss" in line] == ["2"]


def test_of_steps_and_epochs_the_log_names_the_budget_that_ends_first(tmp_path: Path) -> None:
    said = []
    training = start(tmp_path / "run", "train.epochs=1", "train.steps=500", "train.accumulate=1")
    training.report.say = said.append
    training.train()
    assert said[0] == f"budget: train.epochs = 1 (about {training.state.step} steps) ends before train.steps = 500"
    training = start(tmp_path / "other", "train.epochs=1", "train.steps=1")
    training.report.say = said.append
    training.train()
    assert any(line.startswith("budget: train.steps = 1 ends before train.epochs = 1 (about ") for line in said)


def test_a_gradient_that_is_not_finite_stops_the_run_before_the_weights_change(tmp_path: Path) -> None:
    training = start(tmp_path / "nan")
    before = {name: p.detach().clone() for name, p in training.model.named_parameters()}
    weight = training.model.target_embedding.weight
    weight.register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(ValueError, match=r"the gradient of step 0 is not a finite number"):
        training.train()
    assert all(torch.equal(p, before[name]) for name, p in training.model.named_parameters())
    # two accumulated batches of four tensors
    assert len(load_file(tmp_path / "nan" / "bad-batch.safetensors")) == 2 * 4


def test_a_checkpoint_whose_replacement_was_interrupted_is_restored(uninterrupted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(uninterrupted, run)
    older, newer = sorted((run / "checkpoints").iterdir())
    shutil.rmtree(older)
    newer.rename(newer.with_name(f".{newer.name}.old"))
    assert start(run).is_over


def test_three_pairs_are_enough_to_train(tmp_path: Path) -> None:
    training = training_of(custom_recipe(tmp_path, 3), Report(Console(quiet=True)))
    assert len(training.task.valid_pairs) == 1


def test_the_numbers_of_kept_and_dropped_pairs_are_in_the_log(tmp_path: Path) -> None:
    own = custom_recipe(tmp_path, 60)
    with (tmp_path / "mine.tsv").open("a") as file:
        file.write(f"{'word ' * 200}\tword\nword\t\n")
    training_of(own, Report(Console(quiet=True)))
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert lines == [
        {"step": 0, "pairs": "training", "kept": 57, "empty": 1, "long": 1},
        {"step": 0, "pairs": "validation", "kept": 3, "empty": 0, "long": 0},
        {"step": 0, "pairs": "split", "same_source": 0},
    ]


def test_pairs_with_the_source_of_a_validation_pair_are_counted_in_the_log(tmp_path: Path) -> None:
    own, console = custom_recipe(tmp_path, 50), Console(file=io.StringIO(), width=40)
    rows = (tmp_path / "mine.tsv").read_text()
    (tmp_path / "mine.tsv").write_text(rows * 2)
    training_of(own, Report(console))
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    kept = {line["pairs"]: line["kept"] for line in lines if "kept" in line}
    (excluded,) = (line["same_source"] for line in lines if "same_source" in line)
    assert excluded > 0
    assert kept["training"] + kept["validation"] + excluded == 100
    text = f"validation: {kept['validation']} pairs split from training, and {excluded} with the same source excluded"
    assert text in console.file.getvalue()


def test_sentences_longer_than_the_context_are_reported_before_training(tmp_path: Path) -> None:
    changes = ["model.positions=learned", "model.context=4"]
    with pytest.raises(ValueError, match=r"a text has \d+ tokens, end token included, but the model's limit is 4"):
        training_of(custom_recipe(tmp_path, 60, *changes), Report(Console(quiet=True)))
