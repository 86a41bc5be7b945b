"""The recipes that come with Regard, and how to find one."""

from difflib import get_close_matches
from pathlib import Path

from regard.errors import RegardError

FOLDER = Path(__file__).parent
RUN_RECIPE = "recipe.toml"
"""The file in a run's folder that holds its recipe."""
REQUIRED = "REQUIRED, such as "
"""How a bundled recipe writes a path that only the user knows; an example follows."""


def bundled() -> dict[str, Path]:
    """The files of the bundled recipes by name, such as `translate/transformer`."""
    return {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.rglob("*.toml"))}


def find(name: str) -> Path:
    """The file of a recipe: a bundled one by its name, any by its path, a run's by its folder."""
    recipes = bundled()
    if name in recipes:
        return recipes[name]
    for path in (Path(name), Path(name) / RUN_RECIPE):
        if path.is_file():
            return path
    close = [each for each in recipes if name in each.split("/")] or get_close_matches(name, recipes, n=1)
    remedy = f"did you mean {' or '.join(close)}?" if close else f"bundled are {', '.join(recipes)}"
    raise RegardError(f"no recipe and no file is named '{name}'; {remedy}")
