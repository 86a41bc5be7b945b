"""Without `--model`, a verb uses the bundled model that serves it."""

import shutil
from pathlib import Path

import pytest
import typer

from commands import run
from regard import library
from regard.cli.main import app


def verbs() -> dict[str, typer.core.TyperCommand]:
    command = typer.main.get_command(app)
    lab = command.commands["lab"]
    return {name: each for name, each in {**command.commands, **lab.commands}.items() if each is not lab}


def test_no_verb_needs_the_option_model() -> None:
    options = {name: p for name, each in verbs().items() for p in each.params if "--model" in p.opts}
    assert options.keys() >= {"translate", "complete", "classify", "tag", "embed", "look", "explore", "layers"}
    assert not any(option.required for option in options.values())
    assert all("-m" in option.opts for option in options.values())
    assert len({option.help for option in options.values()}) == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("en-es", ["translate"]),
        ("en-es", ["look", "--target", "Comemos pan."]),
        ("en-pos", ["tag"]),
        ("shakespeare", ["complete", "--max-tokens", "5"]),
    ],
)
def test_a_bundled_model_is_the_default(name, arguments) -> None:
    assert run(*arguments, "We eat bread.") == run(*arguments, "--model", name, "We eat bread.")


def test_a_verb_that_no_bundled_model_serves_asks_for_one() -> None:
    for verb in ("translate", "look", "explore", "evaluate", "score", "compare"):
        assert library.default_for(verb) == "en-es"
    for verb in ("classify", "embed"):
        with pytest.raises(
            ValueError, match=f"^no bundled model supports `regard {verb}`; choose a model with --model$"
        ):
            run(verb, stdin="bread\n")


def test_of_several_bundled_models_the_one_made_for_the_verb_is_used(models: Path, tmp_path: Path, monkeypatch) -> None:
    for name, bundled in {"pos": "a", "plain": "b", "sst2": "c"}.items():
        shutil.copytree(models / name, tmp_path / bundled)
    monkeypatch.setattr(library, "ASSETS", tmp_path)
    found = {verb: library.default_for(verb) for verb in ("tag", "embed", "classify", "look")}
    assert found == {"tag": "a", "embed": "b", "classify": "c", "look": "a"}
    assert run("classify", "good food") == run("classify", "--model", models / "sst2", "good food")
