"""The card of a trained model: it is published with the model, so it names files and their hashes, but no folders."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from regard.config import Config
from regard.data.corpus import file_hash

HASH_LENGTH = 16  # hexadecimal digits


def card(title: str, results: Sequence[str], recipe: Config) -> str:
    """A model card: the results, and the recipe without the places of files."""
    data = json.loads(recipe.to_json())
    # the settings of the model name no files, but its labels may look like paths
    public = {key: value if key == "model" else _without_folders(value) for key, value in data.items()}
    lines = [f"# {title}", "", *results, "", "The recipe:", "", "```json", json.dumps(public, indent=2), "```", ""]
    return "\n".join(lines)


def _without_folders(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    if not isinstance(value, str):
        return value
    path = Path(value)
    return f"{path.name} (hash: {_hash(path)})" if path.is_file() else path.name


@cache
def _hash(path: Path) -> str:
    """A hash of a file, computed once, as the data do not change while a model is trained."""
    return file_hash(path)[:HASH_LENGTH]
