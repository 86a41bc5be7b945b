import re
from pathlib import Path
from typing import Any

import pytest
import torch

import small
from commands import run
from regard.config import ConfigError
from regard.errors import RegardError
from regard.recipe import job, read
from regard.recipes import RUN_RECIPE, bundled, find
from regard.store import runs


@pytest.mark.parametrize("name", bundled())
def test_every_bundled_recipe_has_a_title_and_builds_a_model(name) -> None:
    assert bundled()[name].read_text("utf-8").startswith("# ")
    with torch.device("meta"):
        assert sum(p.numel() for p in read(name).model.build().parameters()) > 0


def test_overrides_and_presets_apply_to_the_model() -> None:
    config = read("translate/transformer", ["model.preset=big", "model.heads=8"]).model
    assert (config.width, config.heads) == (1024, 8)


def test_a_preset_override_replaces_the_shape_in_the_recipe() -> None:
    config = read("gpt2/own-text", ["model.preset=small", "model.heads=8"]).model
    assert (config.width, config.heads, config.layers, config.context) == (768, 8, 12, 256)


def test_a_model_has_the_vocabulary_size_of_its_tokenizer() -> None:
    config = read("translate/transformer", ["tokenizer.vocab_size=500"]).model
    assert (config.vocab_size, config.source_vocab_size) == (500, None)
    config = read("translate/transformer", ["tokenizer.vocab_size=500", "tokenizer.joint=false"]).model
    assert (config.vocab_size, config.source_vocab_size) == (500, 500)
    with pytest.raises(
        ConfigError, match=r"model\.vocab_size = 9: differs from tokenizer\.vocab_size = 8000; leave it"
    ):
        read("translate/transformer", ["model.vocab_size=9"])
    with pytest.raises(ConfigError, match=r"model\.pad_id = 3: no such key"):
        read("translate/transformer", ["model.pad_id=3"])


def test_an_unknown_tokenizer_key_is_the_only_reported_problem() -> None:
    with pytest.raises(ConfigError, match=r"1 problem\n  tokenizer\.vocabsize = 3: no such key; did you mean"):
        read("translate/transformer", ["tokenizer.vocabsize=3"])


def test_training_needs_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("data.kind = 'dates'\ntokenizer = {}\nmodel.kind = 'transformer'\ntrain = {}\n")
    with pytest.raises(ConfigError, match=r"train\.steps: training needs a budget; set steps, epochs or minutes"):
        read(str(path))
    assert read(str(path), ["train.minutes=5"]).train.minutes == 5


def test_a_custom_recipe_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "data.kind = 'dates'\ntokenizer = {}\ntrain.steps = 1\n[model]\nkind = 'transformer'\nwidth = 30\nheads = 4\n"
    )
    with pytest.raises(ConfigError, match=r"mine\.toml: 1 problem\n  model\.width = 30: not divisible by heads = 4"):
        read(str(path))
    assert read(str(path), ["model.heads=3"]).model.width == 30


def test_init_outside_of_the_model_table_is_reported() -> None:
    with pytest.raises(ConfigError, match=r'init = "runs/a": write it as model\.init'):
        read("translate/transformer", ["init=runs/a"])


def test_an_unknown_recipe_name_is_reported() -> None:
    with pytest.raises(
        ValueError, match="no recipe and no file is named 'translate/transfomer'; did you mean translate/"
    ):
        find("translate/transfomer")


@pytest.mark.parametrize("change", ["tokenizer.vocab_size=16000", "tokenizer.vocabsize=3", "model.preset=tiny"])
def test_overrides_that_conflict_with_the_initial_model_are_reported(change) -> None:
    with pytest.raises(ConfigError, match="is already set by the model of model.init; leave it out"):
        read("translate/transformer", ["model.init=en-es", change])


def test_a_recipe_with_an_initial_model_has_no_tokenizer(tmp_path: Path) -> None:
    text = find("translate/transformer").read_text("utf-8").replace("[model]", '[model]\ninit = "en-es"')
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ConfigError, match="tokenizer: is already set by the model of model.init; leave it out"):
        read(str(tmp_path / "mine.toml"))


def read_again(recipe: Any, folder: Path, *overrides: str) -> Any:
    """Writes the recipe of a run and reads it back."""
    runs.claim(folder, recipe)
    return read(str(folder / RUN_RECIPE), overrides)


@pytest.mark.parametrize("name", bundled())
def test_the_recipe_of_a_run_is_read_back_unchanged(name, tmp_path: Path) -> None:
    recipe = read(name)
    assert read_again(recipe, tmp_path) == recipe
    assert read(str(tmp_path / RUN_RECIPE), ["run=again"]) == read(name, ["run=again"])


@pytest.mark.parametrize("case", small.CASES, ids=small.NAMES)
def test_the_recipe_of_every_system_is_read_back_unchanged(case, tmp_path: Path) -> None:
    recipe = small.small_recipe(*case, tmp_path)
    assert read_again(recipe, tmp_path / "run") == recipe


def test_the_recipe_of_a_run_with_an_initial_model_is_read_back_unchanged(tmp_path: Path) -> None:
    changes = ["model.init=en-es", "model.dropout=0.2"]
    recipe = read("translate/transformer", changes)
    assert read_again(recipe, tmp_path) == recipe
    path = str(tmp_path / RUN_RECIPE)
    assert read(path, ["model.dropout=0.3"]) == read("translate/transformer", [*changes, "model.dropout=0.3"])
    assert read(path, ["model.init=en-es"]).model.dropout == 0.1
    with pytest.raises(ConfigError, match="tokenizer: is already set by the model of model.init; leave it out"):
        read(path, ["tokenizer.vocab_size=16000"])


def test_the_tokenizer_of_a_saved_recipe_can_be_changed(tmp_path: Path) -> None:
    changed = read_again(read("translate/transformer"), tmp_path, "tokenizer.vocab_size=500", "tokenizer.joint=false")
    assert (changed.model.vocab_size, changed.model.source_vocab_size) == (500, 500)


def test_a_run_folder_can_be_given_as_recipe_even_if_moved(tmp_path: Path) -> None:
    runs.claim(tmp_path / "old", read("translate/dates", [f"run={tmp_path / 'old'}", "seed=7"]))
    (tmp_path / "old").rename(tmp_path / "new")
    recipe = read(str(tmp_path / "new"))
    assert (recipe.run, recipe.seed) == (str(tmp_path / "new"), 7)


def test_the_head_is_determined_by_the_data(tmp_path: Path) -> None:
    recipe = read_again(read("bert/pretrain"), tmp_path)
    assert recipe.model.head.kind == "pretraining"
    for name in ("bert/pretrain", str(tmp_path / RUN_RECIPE)):
        with pytest.raises(ConfigError, match=r"model\.head: is determined by the data; leave it out"):
            read(name, ["model.head.kind=span"])


@pytest.mark.parametrize("name", sorted(bundled().keys() - {"translate/dates", "bert/glue"}))
def test_a_bundled_recipe_names_no_file_that_may_exist(name: str) -> None:
    chosen = read(name)
    assert chosen.model.build  # which describe needs no data for
    with pytest.raises(RegardError, match=r"^data\.(train|text) is missing: name your file with "):
        job(chosen)


def test_a_missing_file_is_asked_for_by_its_key(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = "data.train is missing: name your file with data.train=my.en-de.tsv"
    for verb in (["train"], ["plan", "--probe", "0"]):
        with pytest.raises(RegardError, match=f"^{re.escape(message)}$"):
            run(*verb, "translate/transformer")
    assert not list(tmp_path.iterdir())
    recipe = read("translate/transformer", ['data.train=["a.tsv", {path="b.en", target="b.de"}]'])
    assert [part.path for part in job(recipe).data.train] == ["a.tsv", "b.en"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate/transformer", "data.train=x.tsv"], "data.train = 'x.tsv': no such file"),
        (["translate/transformer", "data.train=own.tsv", "data.valid=x.tsv"], "data.valid = 'x.tsv': no such file"),
        (["translate/rnn", 'data.train=["own.tsv", "x.tsv"]'], "data.train = 'x.tsv': no such file"),
        (["bert/classify", "data.train=x.tsv"], "data.train = 'x.tsv': no such file"),
        (["tag/rnn", "data.train=own.tsv", "data.valid=x.conllu"], "data.valid = 'x.conllu': no such file"),
        (["gpt2/characters", "data.text=x.txt"], "data.text = 'x.txt': no such file"),
        (["bert/pretrain", "data.text=books/*.txt"], "data.text = 'books/*.txt': no such file"),
        (["bert/glue", "data.folder=x"], "data.folder = 'x': no train file of sst2; looked for x/SST-2/train.tsv"),
    ],
)
def test_an_error_about_a_file_names_its_key(tmp_path: Path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.tsv").write_text("one\tuno\n" * 30)
    for verb in (["train"], ["plan", "--probe", "0"]):
        with pytest.raises(RegardError, match=f"^{re.escape(message)}"):
            run(*verb, *arguments)
