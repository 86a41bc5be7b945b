"""A recipe = data + codecs + model + training. The kinds that its tables accept are derived from the systems."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal, Union

from pydantic import Field
from rich.console import Console
from torch import nn

from regard import library, systems
from regard.codecs.interface import CodecConfig
from regard.config import Config, ConfigError, FilePath, Natural, Problem, override, parse, read_toml
from regard.errors import RegardError
from regard.recipes import REQUIRED, find
from regard.tasks.pipeline import Pipeline
from regard.training import run
from regard.training.config import TrainConfig
from regard.training.loop import Training
from regard.training.report import Report
from regard.training.setup import InitialModel, Job, Setup


@dataclass(frozen=True, kw_only=True)
class _Recipe(Config):
    """The contents of a recipe file."""

    run: FilePath = "runs/regard"
    """Output folder of the run: checkpoints, log, model."""
    seed: Natural = 1
    """Random seed of weights, shuffling and dropout."""
    threads: Natural = 0
    """CPU threads; 0: as many as torch chooses, but no more than there are cores."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device to compute on; auto: a GPU, if there is one."""
    init: str | None = None
    """Model to take weights and codecs from. Written as `model.init`."""
    train: TrainConfig
    """Training: budget, batches, optimizer, learning rate, validation, checkpoints."""

    @property
    def codecs(self) -> dict[str, CodecConfig]:
        """The codecs that the recipe describes, by slot."""
        return {slot: config for slot in systems.slots() if (config := getattr(self, slot)) is not None}

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        recipe: Any = self
        kind, known = recipe.model.kind, [each.name for each, _ in systems.trained_on(type(recipe.data))]
        if kind not in known:
            text = f"data of kind '{recipe.data.kind}' require model.kind = {' or '.join(known)}"
            yield Problem("model.kind", text, kind)
        supported: dict[str, list[str]] = {}
        for configs in systems.system(kind).codecs.values():
            for config in configs:
                supported.setdefault(config.codec.slot, []).extend(_kinds(config))
        for slot in supported.keys() - self.codecs.keys():
            yield Problem(slot, "is required and missing; add it")
        for slot, codec in self.codecs.items():
            if slot not in supported:
                yield Problem(slot, f"a model of kind '{kind}' does not use it; leave it out")
            elif codec.kind not in supported[slot]:  # type: ignore[attr-defined]
                text = f"a model of kind '{kind}' requires {' or '.join(dict.fromkeys(supported[slot]))}"
                yield Problem(f"{slot}.kind", text, codec.kind)  # type: ignore[attr-defined]
            elif codec.is_known and self.init is None:
                for name, size in codec.expected().items():
                    if (value := getattr(recipe.model, name, size)) != size:
                        yield Problem(f"model.{name}", f"differs from {slot}.{name} = {size}; leave it out", value)


def _kinds(config: type[CodecConfig]) -> tuple[str, ...]:
    """The values of `kind` that a config accepts."""
    hint = next(field for field in dataclasses.fields(config) if field.name == "kind").type  # type: ignore[arg-type]
    return tuple(hint.__args__)  # type: ignore[union-attr]


def _one_of(configs: Sequence[type[Config]]) -> Any:
    """The type of a table that is any of these configs."""
    return Annotated[Union[tuple(configs)], Field(discriminator="kind")] if len(configs) > 1 else configs[0]  # noqa: UP007


def _field(meaning: str, **options: Any) -> Any:
    """A field with its meaning as metadata, because it has no source line that a docstring could follow."""
    return dataclasses.field(metadata={"meaning": meaning}, **options)


_CODEC = "Codec between data and numbers. Required, unless it comes with the model of `model.init`."
_DERIVED = [
    ("data", _one_of(systems.data_configs()), _field("Data to train on and to validate with.")),
    ("model", _one_of(systems.model_configs()), _field("Model: its architecture and its size.")),
    *((slot, _one_of(configs) | None, _field(_CODEC, default=None)) for slot, configs in systems.slots().items()),
]
Recipe: Any = dataclasses.make_dataclass(
    "Recipe",
    _DERIVED,
    bases=(_Recipe,),
    frozen=True,
    kw_only=True,
    namespace={"__doc__": _Recipe.__doc__, "__module__": __name__},
)


def read(name: str, overrides: Sequence[str] = (), changes: Mapping[str, Any] | None = None) -> Any:
    """Reads a bundled recipe by name, or a recipe file by path, and applies changes.

    Args:
        overrides: Dotted keys, such as `model.heads=8`.
        changes: The same as tables, such as `{"model": {"heads": 8}}`.
    """
    path = find(name)
    file, tables = read_toml(path), _plain(changes or {})
    if Path(name).is_dir():
        file["run"] = name  # the run folder may have been moved since its recipe was written
    data, changed = (override(_merged(table, tables), overrides) for table in (file, {}))
    init = data.pop("init", None)
    if "init" in changed:
        raise ConfigError([Problem("init", "write it as model.init", init)], str(path))
    if "task" in data:
        # each GLUE task has its own run, unless `run` is set
        task = data.pop("task")
        data = override(data, [f"data.task={task}", *([] if "run" in changed else [f"run=runs/{task}"])])
    model, slots, head = data.get("model", {}), systems.slots(), None
    if isinstance(model, dict) and all(isinstance(data.get(slot, {}), dict) for slot in slots):
        data["model"] = model = _without_shape(model, changed.get("model", {}))
        head = model.pop("head", None)
        # the recipe that a run writes has `init` at the top level
        is_of_run = init is not None and "init" not in model
        if is_of_run:
            model["init"] = init
        if "init" in model:
            # keys from the same source as `init` override the initial model; other model keys of the recipe are ignored
            source = data if is_of_run or "init" in file.get("model", {}) else changed
            found = _initial(source["model"], path)
            unused = [slot for slot in slots if slot in source and source[slot] != _without_none(found.get(slot, {}))]
            unused += [f"model.{key}" for key in {"preset"} & source["model"].keys()]
            if unused:
                why = "is already set by the model of model.init; leave it out"
                raise ConfigError([Problem(key, why) for key in unused], str(path))
            data = {**{key: value for key, value in data.items() if key not in slots}, **found}
        else:
            # a run's recipe contains sizes derived from its codecs; they are derived again, because codecs may change
            old, overridden = _sizes(file), changed.get("model", {})
            kept = {key: value for key, value in model.items() if key in overridden or value != old.get(key)}
            data["model"] = {**_expected(data), **kept}
    recipe = parse(Recipe, data, str(path))
    if head is not None and head != json.loads(recipe.model.to_json()).get("head"):
        raise ConfigError([Problem("model.head", "is determined by the data; leave it out")], str(path))
    return recipe


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a table with changes, applied to nested tables too."""
    result = dict(table)
    for key, value in changes.items():
        inner = result.get(key)
        result[key] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def _plain(value: Any) -> Any:
    """A value as TOML represents it: paths become strings."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _expected(data: dict[str, Any]) -> dict[str, Any]:
    """Model keys that depend on codecs and data: vocabulary sizes, and placeholders until the data are read."""
    found = _sizes(data)
    kinds = data.get("data", {}).get("kind"), data["model"].get("kind")
    for config_ in systems.data_configs():
        for each, task in systems.trained_on(config_):
            if (config_.kind, each.name) == kinds:  # type: ignore[attr-defined]
                found |= task.unknown
    return found


def _sizes(data: dict[str, Any]) -> dict[str, Any]:
    """Model keys that the codecs determine."""
    found: dict[str, Any] = {}
    for slot, configs in systems.slots().items():
        if isinstance(table := data.get(slot), dict):
            kind = table.setdefault("kind", _kinds(configs[0])[0])
            for config in configs:
                if kind in _kinds(config):
                    try:
                        found |= parse(config, table).expected()
                    except ConfigError:
                        # the error is reported when the recipe is parsed; defaults prevent errors about missing sizes
                        found |= config().expected()
    return found


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table without null values, which TOML does not have."""
    return {key: value for key, value in table.items() if value is not None}


def _without_shape(model: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """The model of a recipe; if `changed` selects a preset, without the file's own values for the keys of presets."""
    kinds: dict[Any, type[Config]] = {each.name: each.model for each in systems.SYSTEMS}
    presets = kinds[model["kind"]].presets if "preset" in changed and model.get("kind") in kinds else {}
    shape = {key for preset in presets.values() for key in preset}
    return {key: value for key, value in model.items() if key in changed or key not in shape}


def _initial(model: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The parts of a recipe that its initial model determines."""
    init = model["init"]
    if not isinstance(init, str):
        raise ConfigError([Problem("model.init", "expected the name or folder of a model", init)], str(path))
    contents = library.read(init)
    changes = {key: value for key, value in model.items() if key not in ("init", "head")}
    known = json.loads(contents.config.to_json())
    return {"init": init, **_codecs(contents), "model": {**known, **changes}}


def _codecs(contents: library.Contents) -> dict[str, Any]:
    """The configs of the codecs of a model, by slot."""
    found: dict[str, Any] = {}
    for role, codec in contents.codecs.items():
        for config in contents.system.codecs[role]:
            if config.codec is type(codec) and codec.slot not in found:
                same = [other for other in contents.codecs.values() if other.slot == codec.slot]
                found[codec.slot] = json.loads(config.of(same).to_json())
    return found


def _expect_paths(data: Config) -> None:
    """Raises `RegardError` if a path that a bundled recipe leaves to the user is missing."""
    values = json.loads(data.to_json()).items()
    missing = {key: text for key, value in values for text in _strings(value) if text.startswith(REQUIRED)}
    if missing:
        keys = " and ".join(f"data.{key}" for key in missing)
        verb, files = ("are", "files") if len(missing) > 1 else ("is", "file")
        remedy = " ".join(quote(f"data.{key}={text.removeprefix(REQUIRED)}") for key, text in missing.items())
        raise RegardError(f"{keys} {verb} missing: name your {files} with {remedy}")


def _strings(value: Any) -> Iterator[str]:
    """All strings of a value as JSON holds it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _prepared(task: Callable[[Setup], Any], data: Config, setup: Setup) -> Any:
    """The task of a recipe; an error about a file that a key of the recipe names also names the key."""
    try:
        return task(setup)
    except RegardError as error:
        for key, value in json.loads(data.to_json()).items():
            for name in _strings(value):
                if str(error).startswith(f"{name}: "):
                    raise RegardError(f"data.{key} = {name!r}{str(error).removeprefix(name)}") from None
        raise


def job(recipe: Any) -> Job:
    """A recipe as a job for the training engine."""
    _expect_paths(recipe.data)
    each, task = next(
        (each, task) for each, task in systems.trained_on(type(recipe.data)) if each.name == recipe.model.kind
    )
    start = None
    if recipe.init:
        codecs, load = library.read(recipe.init).codecs, partial(_initial_model, recipe.init)
        start = InitialModel(library.fingerprint(recipe.init), codecs, load)
    return Job(
        recipe=recipe,
        run=Path(recipe.run),
        seed=recipe.seed,
        threads=recipe.threads,
        device=recipe.device,
        train=recipe.train,
        data=recipe.data,
        model=recipe.model,
        codecs={role: recipe.codecs[configs[0].codec.slot] for role, configs in each.codecs.items()},
        prepare=partial(_prepared, task, recipe.data),
        start=start,
    )


def _initial_model(name: str, model: nn.Module) -> None:
    """Initializes a model with the weights of another; they are read only now, to save memory."""
    library.load_initial(model, library.read(name))


def training(recipe: Any, report: Report) -> Training:
    """The training of a recipe, not yet started."""
    return Training(job(recipe), report)


def train(recipe: str, **changes: object) -> Pipeline:
    """Trains a recipe and loads the best model of the run. If training is interrupted, the same call resumes it.

    Args:
        recipe: The name of a bundled recipe, or the path of a file.
        changes: Keys to change, tables as dictionaries: `train("translate/dates", run="runs/a", train={"steps": 500})`.
    """
    chosen = read(recipe, changes=changes)
    run.train(job(chosen), Report(Console(stderr=True)))
    return library.load(str(chosen.run))
