"""The reference of recipe keys is complete, correct and equal to the page."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field, TypeAdapter

import small
from commands import run as command
from regard import reference
from regard.config import Config, Natural, Positive, Rate, override
from regard.recipe import read
from regard.recipes import bundled
from regard.training.config import TrainConfig

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = json.loads(command("recipes", "--schema"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("kind", dict.fromkeys(reference.configs()), ids=lambda kind: kind.__name__)
def test_every_key_is_documented(kind) -> None:
    silent = [name for name, text in reference.meanings(kind).items() if not text]
    assert not silent, f"write a string below these fields of {kind.__name__}"


def test_the_page_equals_the_output_of_the_command(tmp_path: Path) -> None:
    command("recipes", "--keys", "-o", tmp_path / "keys.md")
    page = ROOT / "docs" / "recipe-keys.md"
    written = (tmp_path / "keys.md").read_text("utf-8")
    assert page.read_text("utf-8") == written, "run: regard recipes --keys -o docs/recipe-keys.md"


def test_terminal_and_json_have_every_key_of_every_table() -> None:
    tables = json.loads(command("recipes", "--keys", "--json"))
    assert len(tables) == len(set(reference.configs()))
    shown = command("recipes", "--keys")
    assert all(key["name"] in shown for table in tables for key in table["keys"])
    [bert] = [table for table in tables if table["kinds"] == ["bert"]]
    assert bert["places"] == ["model"]
    assert bert["presets"]["tiny"]["width"] == 128


@dataclass(frozen=True, kw_only=True)
class Sorts(Config):
    count: Positive
    some: Natural = 0
    rate: Rate = 0.1
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    side: Literal["left", "right"] = "left"
    names: Annotated[tuple[str, ...], Field(min_length=1)] = ("a",)
    size: Positive | None = None
    inner: tuple[TrainConfig, ...] = ()


def test_types_are_described_in_words() -> None:
    nodes = TypeAdapter(Sorts).json_schema(schema_generator=reference._Generator)["properties"]
    assert {name: reference.words(node) for name, node in nodes.items()} == {
        "count": "whole number ≥ 1",
        "some": "whole number ≥ 0",
        "rate": "number in [0, 1)",
        "weight": "number in (0, 1000]",
        "side": "one of left, right",
        "names": "list of text, length ≥ 1",
        "size": "whole number ≥ 1",
        "inner": "list of table",
    }


@pytest.mark.parametrize("name", bundled())
def test_bundled_recipes_and_recipes_of_their_runs_match_the_schema(name, validator) -> None:
    validator.validate(tomllib.loads(bundled()[name].read_text("utf-8")))
    validator.validate(tomllib.loads(read(name).to_toml()))


def test_the_recipe_of_a_run_with_an_initial_model_matches_the_schema(validator) -> None:
    validator.validate(tomllib.loads(read("translate/transformer", ["model.init=en-es"]).to_toml()))


@pytest.mark.parametrize("case", small.CASES, ids=small.NAMES)
def test_recipes_of_every_system_match_the_schema(case, validator, tmp_path: Path) -> None:
    validator.validate(tomllib.loads(small.small_recipe(*case, tmp_path).to_toml()))


FITTING: dict[str, Any] = {
    "task=sst2": True,
    "model.init=runs/a": True,
    "model.preset=big": True,
    'data.train={path="a.en", target="a.de"}': True,
    'data.train=["a.tsv", {path="b.tsv"}]': True,
    "model.preset=huge": False,
    "model.widht=512": False,
    "train.stesp=3": False,
    "seeed=1": False,
    "tokenizer.vocabsize=3": False,
    'tokenizer.vocab_size="300"': False,
    "data.kind=nothing": False,
    "data.train=3": False,
}


@pytest.mark.parametrize("change", FITTING)
def test_the_schema_accepts_valid_overrides_and_rejects_misspelt_ones(change, validator) -> None:
    data = override(tomllib.loads(bundled()["translate/transformer"].read_text("utf-8")), [change])
    assert validator.is_valid(data) == FITTING[change]
