"""Run folders: a run resumes only in a folder of the same recipe and the same data."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.config import Config, load
from regard.errors import RegardError
from regard.folders import restore, write_text
from regard.recipes import RUN_RECIPE
from regard.store import checkpoint
from regard.store.lock import LOCK

TEXT, CODECS, LOG = "text.json", "codecs", "log.jsonl"
TITLE = "# The recipe of this run, with all defaults. Run it again: regard train recipe.toml run=ANOTHER_FOLDER\n\n"
_UNUSED = {LOCK, f".{RUN_RECIPE}.new"}
"""Files that a process may leave in a folder that it has not yet made a run folder."""
OTHER = "choose another folder with run=..., or remove this one"
_MAY_CHANGE = {
    *("run", "threads", "device", "train.shard", "train.recompute", "train.steps", "train.epochs", "train.minutes"),
    *("train.patience", "train.checkpoint_every", "train.average_checkpoints", "train.tensorboard"),
}


def claim(run: Path, recipe: Config) -> None:
    """Creates the run folder, or makes sure that an existing one belongs to the same recipe."""
    path, mine = run / RUN_RECIPE, json.loads(recipe.to_json())
    if (run / "config.json").exists():
        raise RegardError(f"{run} is a model folder, not a run folder; {OTHER}")
    if not path.exists() and not is_unused(run):
        raise RegardError(f"{run} contains files that do not belong to a run; {OTHER}")
    theirs = _resolved(path, type(recipe)) if path.exists() else mine
    checkpoint.restore_all(run)
    for name in ("model", "last", CODECS):
        restore(run / name)
    has_checkpoints, has_model = bool(checkpoint.every(run)), (run / "model").exists()
    if has_checkpoints or has_model:
        differing = [key for key in _differing(theirs, mine) if key not in _MAY_CHANGE]
        if differing:
            raise RegardError(f"{run} contains a run of another recipe (different: {', '.join(differing)}); {OTHER}")
    if not has_checkpoints:
        if (run / "last").exists():
            raise RegardError(f"{run} contains a finished run without checkpoints to resume from; {OTHER}")
        # left over from a run that stopped before its first checkpoint
        _remove_preparation(run)
    run.mkdir(parents=True, exist_ok=True)
    write_text(path, TITLE + recipe.to_toml())


def is_unused(run: Path) -> bool:
    """Whether a folder is missing, or holds nothing."""
    return not run.exists() or all(path.name in _UNUSED for path in run.iterdir())


def discard(run: Path) -> None:
    """Removes what was written in a folder for a run that could not be started."""
    _remove_preparation(run)
    _remove(run / LOG)
    if all(
        path.name in {*_UNUSED, RUN_RECIPE} for path in run.iterdir()
    ):  # with other files, it marks the run's folder
        _remove(run / RUN_RECIPE)


def _remove(path: Path) -> None:
    """Removes a file, and what may be left over from writing it."""
    for each in (path, path.with_name(f".{path.name}.new")):
        each.unlink(missing_ok=True)


def _remove_preparation(run: Path) -> None:
    """Removes what is written between the recipe and the first checkpoint: the hashes of the data, and the codecs."""
    _remove(run / TEXT)
    for name in (CODECS, f".{CODECS}.new"):
        shutil.rmtree(run / name, ignore_errors=True)


def check_data(run: Path, keys: Sequence[str]) -> None:
    """Makes sure that a run resumes with the data it started with; the keys are hashes of all that data."""
    path, mine = run / TEXT, json.dumps(list(keys), indent=2)
    if not path.exists():
        write_text(path, mine)
    elif path.read_text("utf-8") != mine:
        raise RegardError(f"the training data of {run} have changed since it started; {OTHER}")


def _resolved(path: Path, kind: type[Config]) -> Any:
    """The recipe of a run; keys that were added to Regard since have their defaults."""
    if not path.read_text("utf-8", errors="replace").startswith(TITLE.partition(",")[0]):
        raise RegardError(f"{path} was not written by a run, or is damaged; {OTHER}")
    try:
        return json.loads(load(kind, path).to_json())
    except ValueError as error:
        raise RegardError(f"{path} was written by another version of Regard, or is damaged ({error})") from None


def _differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The dotted paths at which two recipes differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from _differing(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif one != other:
        yield path
