"""A recipe says everything that makes a system; so far, its model. The types of `Recipe` are the registry."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from regard.config import Config, load
from regard.models.transformer import TransformerConfig

BUNDLED = Path(__file__).parent / "recipes"


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """The contents of a recipe file."""

    model: TransformerConfig


def bundled() -> dict[str, Path]:
    """The recipes that come with Regard, by name, such as `translate/transformer`."""
    return {path.relative_to(BUNDLED).with_suffix("").as_posix(): path for path in sorted(BUNDLED.rglob("*.toml"))}


def read(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or in the file of that path, with overrides such as `model.heads=8` applied."""
    return load(Recipe, find(name), overrides)


def find(name: str) -> Path:
    """The file of a recipe: a bundled one by its name, or any by its path."""
    recipes = bundled()
    if name in recipes:
        return recipes[name]
    if Path(name).is_file():
        return Path(name)
    close = get_close_matches(name, recipes, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"bundled are {', '.join(recipes)}"
    raise ValueError(f"no recipe and no file is named '{name}'; {remedy}")
