"""Which packages the rooms of the house need."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"


def imported(path: Path) -> set[str]:
    """The full names of the modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize("path", sorted((SOURCE / "blocks").glob("*.py")), ids=lambda path: path.stem)
def test_blocks_need_torch_and_nothing_else(path) -> None:
    assert all(name.split(".")[0] == "torch" or name.startswith("regard.blocks") for name in imported(path))


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    # pydantic brings its core
    packages = {"pydantic_core": "pydantic"}
    used = {name.partition(".")[0] for path in SOURCE.rglob("*.py") for name in imported(path)} - {"regard"}
    assert {packages.get(name, name) for name in used} <= declared
