"""A recipe says everything that makes a system; so far, its model. The types of `Recipe` are the registry."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.config import Config, load
from regard.models.transformer import TransformerConfig
from regard.recipes import find


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """The contents of a recipe file."""

    model: TransformerConfig


def read(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or in the file of that path, with overrides such as `model.heads=8` applied."""
    return load(Recipe, find(name), overrides)
