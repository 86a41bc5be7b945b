"""Finds models by name, loads them, and converts them.

Wherever a model is expected, a run folder means the best model of the run, a bare name means a bundled model, and
`hf:PATH` means a Hugging Face model folder. Exports for other engines are `ct2:PATH` (CTranslate2) and `onnx:PATH`
(ONNX).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np
import torch
from torch import Tensor, nn

from regard import folders
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.linear import laid_out
from regard.codecs import interface as codecs_
from regard.config import ConfigError, parse
from regard.data.cache import CT2_EXPORTS, mark_used
from regard.data.corpus import file_hash
from regard.decoding.fast_decoder import join
from regard.errors import RegardError
from regard.folders import CARD, places, read_folder, verify, write_folder
from regard.interop.files import HUB_NAME, read_settings
from regard.models.heads import NoHead
from regard.process_memory import release_memory
from regard.store import models
from regard.store.models import (
    CONFIG,
    WEIGHTS,
    build_without_memory,
    expect_finite,
    expect_tensors,
    load_tensors,
    tensors,
)
from regard.systems import SYSTEMS, System, system
from regard.tasks.completion import Completer
from regard.tasks.embedding import EmbeddingTask
from regard.tasks.pipeline import Pipeline
from regard.tasks.tagging import Tagger
from regard.tasks.translation import Translator
from regard.training.task import Task

PipelineT = TypeVar("PipelineT", bound=Pipeline)
Engine = Literal["torch", "ct2"]
Quantize = Literal["int8"]
HUGGING_FACE, CT2, ONNX = "hf:", "ct2:", "onnx:"
EXPORTED = "regard.json"
"""File in an export folder that describes the model: its task, config and codecs."""
ASSETS = Path(__file__).parent / "assets"


@dataclass(frozen=True)
class Contents:
    """The contents of a model folder, with codecs loaded."""

    task: str
    config: Any
    weights: Mapping[str, Tensor]
    codecs: Mapping[str, Any]
    """By role."""

    @property
    def system(self) -> System:
        """The system that the model belongs to."""
        return system(self.config.kind)


def load_initial(model: Any, contents: Contents) -> None:
    """Copies the weights of another model into a model; a head for another task or other labels starts untrained."""
    own = tensors(model)
    fresh: tuple[str, ...] = model.fresh if _objective(contents.config) != _objective(model.config) else ()
    weights = {key: x for key, x in contents.weights.items() if not key.startswith(fresh)}
    weights = {key: x for key, x in weights.items() if key in own or not key.startswith(model.optional)}
    untrained = [key for key in own if key.startswith(fresh + model.optional) and key not in weights]
    expect_finite(weights, "the weights of model.init")
    load_tensors(model, {**weights, **{key: own[key] for key in untrained}}, "the weights of model.init")


def _objective(config: Any) -> tuple[str | None, tuple[str, ...]]:
    """The task and the labels of a model, if its config has them."""
    return getattr(config, "task", None), getattr(config, "labels", ())


def fingerprint(name: str) -> str:
    """A hash of the weights of a model, to detect whether they have changed."""
    return _hash(name, ".safetensors")


def _hash(name: str, *suffixes: str) -> str:
    """A hash of the files of a model with these suffixes."""

    def of(folder: Path) -> str:
        return file_hash(*sorted(path for path in folder.iterdir() if path.suffix in suffixes))

    return read_folder(lambda: _folder(name), of)


def _folder(name: str) -> Path:
    return Path(name.removeprefix(HUGGING_FACE)) if name.startswith(HUGGING_FACE) else find(name)


def save(folder: Path, config: Any, weights: Mapping[str, Tensor], codecs: Mapping[str, Any], card: str) -> None:
    """Writes a model folder; the task is derived from the config."""
    task = system(config.kind).task_of(config).name
    models.save(folder, task=task, config=config, weights=weights, codecs=codecs, card=card)


def find(name: str) -> Path:
    """The folder of a model, given its path, the path of its run, or the name of a bundled model."""
    for folder in _places(name):
        if (folder / CONFIG).is_file():
            return folder
    if name.startswith(ONNX):
        raise RegardError(f"{name}: Regard cannot load ONNX exports; use the model that was exported")
    known = sorted(path.parent.name for path in ASSETS.glob("*/config.json"))
    raise RegardError(
        f"no model at '{name}': it is neither a model folder, nor a run folder, nor a bundled model. "
        + (f"Bundled models: {', '.join(known)}" if known else "Train one: regard train translate/dates")
    )


def is_model(name: str) -> bool:
    """Whether a name is one of a model: its folder, a run that has one, a bundled model, `hf:PATH` or `ct2:PATH`."""
    return name.startswith((HUGGING_FACE, CT2)) or any((folder / CONFIG).is_file() for folder in _places(name))


def _places(name: str) -> list[Path]:
    """Where the folder of a model may be, in order."""
    return [path for folder in (Path(name), Path(name) / "model", ASSETS / name) for path in places(folder)]


def read_about(name: str) -> Contents:
    """The contents of a model; those of an export have no weights."""
    if not name.startswith(CT2):
        return read(name)
    path = Path(name.removeprefix(CT2)) / EXPORTED
    return _contents(*models.read_about(path), {}, path)


def read(name: str) -> Contents:
    """Verifies and reads a model folder; `hf:PATH` is a Hugging Face model folder."""
    if name.startswith(HUGGING_FACE):
        return _read_hugging_face(Path(name.removeprefix(HUGGING_FACE)))
    return read_folder(lambda: find(name), _read)


def _read(folder: Path) -> Contents:
    if (folder / EXPORTED).exists():
        raise RegardError(f"{folder} is an export for another engine; open a CTranslate2 export as {CT2}{folder}")
    saved = models.read(folder)
    return _contents(saved.task, saved.model, saved.codecs, saved.weights, folder / CONFIG)


def _contents(
    task: str,
    model: Mapping[str, Any],
    files: Mapping[str, models.CodecFile],
    weights: Mapping[str, Tensor],
    source: Path,
) -> Contents:
    its_system = system(model.get("kind"))
    its_system.task(task)  # raises an error if the system does not have this task
    kinds = {role: its_system.codec(role, file.kind) for role, file in files.items()}
    if missing := its_system.codecs.keys() - kinds.keys():
        raise RegardError(f"{source}: lists no codec for {' or '.join(sorted(missing))}")
    loaded = {path: kinds[role].load(path) for role, (_, path) in files.items()}
    codecs = {role: loaded[path] for role, (_, path) in files.items()}
    try:
        config = parse(its_system.model, model)
    except ConfigError as error:
        raise ConfigError([problem.within("model") for problem in error.problems], str(source)) from None
    _expect_room(config, codecs, source)
    return Contents(task, config, weights, codecs)


def _expect_room(config: Any, codecs: Mapping[str, Any], source: Path) -> None:
    """Raises `RegardError` if a codec has more tokens than the model has embeddings."""
    for role, codec in codecs.items():
        for key, size in codec.sizes().items():
            own = getattr(config, f"{role}_{key}", None) or getattr(config, key)
            if np.shape(own) != np.shape(size) or np.any(np.array(own) < size):
                raise RegardError(f"{source}: model.{key} is {own}, but the {role} tokenizer has {size}")


def _read_old(folder: Path) -> Contents:
    """Reads a model folder from before 0.1.0, which has no format number; the task is derived from the config."""
    verify(folder)
    path = folder / CONFIG
    about = folders.read_json(path)
    its_system = system(about.get("kind"))
    # configs no longer have `pad_id`, because masks mark the padding
    config = parse(its_system.model, {key: value for key, value in about.items() if key != "pad_id"}, str(path))
    for kinds in _codec_choices(its_system):
        try:
            found = codecs_.load(folder, kinds)
        except RegardError:
            continue
        if found is not None:
            task = its_system.task_of(config).name
            return Contents(task, config, folders.read_tensors(folder / WEIGHTS), found)
    raise RegardError(f"{folder}: the tokenizer is missing, or a model of kind '{its_system.name}' cannot use it")


def _codec_choices(its_system: System) -> list[dict[str, type[Any]]]:
    """The codec classes that the roles of a system can have, as one dictionary per choice."""
    codecs = its_system.codecs
    count = max(map(len, codecs.values()))
    return [{role: configs[min(i, len(configs) - 1)].codec for role, configs in codecs.items()} for i in range(count)]


def _read_hugging_face(folder: Path) -> Contents:
    if not folder.is_dir():
        name = str(folder)
        remedy = f"; to download it, regard convert --download {HUGGING_FACE}{name} runs/{folder.name}"
        raise RegardError(f"{HUGGING_FACE}{name}: no such folder" + (remedy if HUB_NAME.fullmatch(name) else ""))
    about = read_settings(folder / "config.json")
    kind = about.get("model_type")
    families = {kind: each for each in SYSTEMS if each.family is not None for kind in each.family.MODEL_TYPES}
    if kind is None:  # the oldest config files have no model_type
        architectures = [name.lower() for name in about.get("architectures", ())]
        kind = next((known for known in families if any(name.startswith(known) for name in architectures)), None)
    if kind not in families:
        supported = ", ".join(families)
        raise RegardError(f"{folder}: models of type {kind!r} cannot be converted; supported types: {supported}")
    its_system = families[kind]
    assert its_system.family is not None
    config, weights, codecs = its_system.family.read(folder)
    return Contents(its_system.task_of(config).name, config, weights, codecs)


def convert(
    name: str,
    target: str,
    *,
    half: bool = False,
    quantize: Quantize | None = None,
    card: str | None = None,
    download: bool = False,
) -> str:
    """Converts a model to a new folder, in the format that the prefix of `target` names; without one, Regard's own.

    Model folders of older versions of Regard are converted to the current format. An export for another engine is
    compared with the model on random texts; if they differ too much, nothing is written. The result of the comparison
    is returned.

    Args:
        half: Whether weights are stored in float16; computation remains in float32.
        quantize: Quantizes the weights of an export for CTranslate2 to 8 bits, in which it also computes.
        card: The text of the model card.
        download: Whether the model, `hf:NAME`, is first downloaded from the Hugging Face Hub.
    """
    engine, _, path = target.partition(":") if target.startswith((HUGGING_FACE, CT2, ONNX)) else ("", "", target)
    if quantize is not None and engine != "ct2":
        raise RegardError(f"{target} cannot be quantized: only CTranslate2 exports can; use {CT2}{path}")
    if half and engine in ("ct2", "onnx"):
        raise RegardError(f"{target}: exports for other engines cannot be in half precision; leave it out")
    folder = Path(path)
    if folder.exists():
        raise RegardError(f"{folder} already exists; choose another folder, or remove it")
    source = _downloaded(name) if download else name
    contents = _read_old(find(source)) if _is_old(source) else read(source)
    weights = {key: tensor.half() if half else tensor for key, tensor in contents.weights.items()}
    expect_finite(weights, f"the weights of {name}" + (" in 16 bits" if half else ""))
    text = card or f"# {folder.name}\n\nConverted with Regard from {_public_name(source)}.\n"
    if not engine:
        about = {"task": contents.task, "config": contents.config, "codecs": contents.codecs}
        models.save(folder, **about, weights=weights, card=text)
        return ""
    found, family = "", contents.system.family
    if engine == "hf" and family is None:
        kind = contents.config.kind
        raise RegardError(f"models of kind '{kind}' cannot be converted: Hugging Face's library has no such model")

    def fill(temporary: Path) -> None:
        nonlocal found
        if engine == "hf":
            assert family is not None
            family.write(temporary, contents.config, weights, contents.codecs)
        else:
            found = _export(temporary, contents, name, engine, quantize)
        (temporary / CARD).write_text(text, "utf-8")

    write_folder(folder, fill)
    return found


def _public_name(name: str) -> str:
    """The name of a model without the place of its folder, and a hash of its weights."""
    folder = _folder(name).absolute()
    run_or_model = folder.parent if folder.name == "model" else folder
    return f"{run_or_model.name} (hash of the weights: {fingerprint(name)[:16]})"


def _downloaded(name: str) -> str:
    """The name of the folder that holds a model of the Hugging Face Hub, once it is downloaded."""
    found = name.removeprefix(HUGGING_FACE)
    if found == name:
        raise RegardError(f"{name} is not downloaded; write it as {HUGGING_FACE}NAME, such as {HUGGING_FACE}gpt2")
    if Path(found).exists():
        raise RegardError(f"{found} is a folder here; leave --download out to convert it")
    return f"{HUGGING_FACE}{_module('hub', 'hub').download(found)}"


def _is_old(name: str) -> bool:
    """Whether a model folder was written by a version of Regard before 0.1.0."""
    if name.startswith(HUGGING_FACE):
        return False
    folder = find(name)
    return not (folder / EXPORTED).exists() and models.is_old(folders.read_json(folder / CONFIG))


def _export(folder: Path, contents: Contents, name: str, engine: str, quantize: str | None) -> str:
    """Writes an export with all files that Regard needs to use it; returns the result of its check."""
    ours, task, config = _open(contents, name), contents.task, contents.config
    if engine == "onnx":
        found: str = _module("onnx").write(folder, ours)
    else:
        _module("ct2").write(folder, ours.model, contents.codecs, quantize)
        found = _module("ct2_inference").check(folder, task, ours, quantize)
        if head := getattr(config, "head", None):
            # CTranslate2 exports of encoders have no head
            config, task = replace(config, head=NoHead(pooled=head.pooled)), EmbeddingTask.name
    models.write_about(folder / EXPORTED, task, config, contents.codecs)
    codecs_.save(folder, contents.codecs)
    return found


def _module(name: str, extra: str = "export") -> Any:
    """The module of another engine, imported only when it is needed."""
    try:
        return import_module(f"regard.interop.{name}")
    except ModuleNotFoundError as error:
        raise RegardError(f"{error.name} is required but not installed; run: pip install 'regard[{extra}]'") from None


@overload
def load(name: Literal["en-es"]) -> Translator: ...
@overload
def load(name: Literal["en-pos"]) -> Tagger: ...
@overload
def load(name: Literal["shakespeare"]) -> Completer: ...
@overload
def load(name: str) -> Pipeline: ...
@overload
def load(name: str, kind: type[PipelineT]) -> PipelineT: ...


def load(name: str, kind: type[Pipeline] = Pipeline) -> Pipeline:
    """Loads a model as the pipeline for its task: a `Translator`, a `Classifier`, a `Completer` and so on.

    Args:
        name: A run folder, a model folder, the name of a bundled model, `hf:PATH` or `ct2:PATH`.
        kind: The expected class, also for type checkers: `regard.load("runs/mine", regard.Translator)`.
    """
    if not isinstance(name, str):
        raise RegardError(f"the name of a model is a string, such as 'en-es' or the path of a folder; got {name!r}")
    found = _load(name)
    if not isinstance(found, kind):
        raise RegardError(f"{name} loads as {type(found).__name__}, not as {kind.__name__}; change or omit `kind`")
    return found


def _load(name: str) -> Any:
    if name.startswith(CT2):

        def original() -> Any:
            raise RegardError(f"{name} is an export and cannot be inspected; use the model that was exported")

        return _load_export(Path(name.removeprefix(CT2)), original)
    return _open(read(name), name)


def load_fast(name: str) -> Any:
    """Loads a model for CTranslate2 in 8 bits; the first call converts it and stores the export in the cache."""
    if name.startswith(CT2):
        return _load(name)
    folder = folders.cache() / CT2_EXPORTS / _hash(name, ".json", ".safetensors", ".txt")
    if not folder.exists():
        convert(name, f"{CT2}{folder}", quantize="int8")
    mark_used(folder)
    return _load_export(folder, cache(lambda: load(name)))


def _load_export(folder: Path, original: Callable[[], Any]) -> Any:
    path = folder / EXPORTED
    if not path.is_file() or not (folder / "model.bin").is_file():
        raise RegardError(f"{folder} is not a CTranslate2 export; to create one: regard convert MODEL {CT2}{folder}")
    verify(folder)
    contents = _contents(*models.read_about(path), {}, path)
    with torch.device("meta"):
        model = contents.config.build()  # only the shapes are used
    pipeline = _module("ct2_inference").opened(contents.task, folder, model, contents.codecs, original)
    pipeline.loaded_from = f"{CT2}{folder}"
    return pipeline


def _open(contents: Contents, name: str) -> Any:
    source = f"the weights of {name}"
    # without memory, because the weights are replaced anyway
    model = build_without_memory(contents.config, contents.weights, source)
    expect_tensors(model, contents.weights, source)
    own = tensors(model)
    weights = {key: tensor.to(own[key].dtype) for key, tensor in contents.weights.items()}
    expect_finite(weights, source)
    model.load_state_dict(weights, strict=False, assign=True)  # not strict: shared tensors have one name
    _optimize_layout(model)
    pipeline: Any = contents.system.task(contents.task).open(model, contents.codecs)
    pipeline.loaded_from = name
    return pipeline


def _optimize_layout(model: nn.Module) -> None:
    """Stores matrices in the layout for decoding; copies all tensors, so that none refers to the weights file."""
    matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear | TokenEmbedding)}
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = laid_out(tensor.data) if id(tensor) in matrices else tensor.data.clone()
    join(model)
    release_memory()


def default_for(verb: str) -> str:
    """The name of the bundled model for a verb, preferably one whose main verb it is."""
    tasks = {path.parent.name: _task(path) for path in sorted(ASSETS.glob(f"*/{CONFIG}"))}
    serving = [name for name, task in tasks.items() if verb in task.verbs]
    if not serving:
        raise RegardError(f"no bundled model supports `regard {verb}`; choose a model with --model")
    return min(serving, key=lambda name: tasks[name].verbs[0] != verb)


def _task(path: Path) -> type[Task]:
    """The task of the model that a file describes."""
    task, model, _ = models.read_about(path)
    return system(model.get("kind")).task(task)


def load_for(verb: str, name: str | None = None, engine: Engine = "torch") -> Any:
    """Loads a model that supports a verb, such as "translate"; without a name, the bundled one."""
    name = default_for(verb) if name is None else name
    if name.startswith(CT2):
        pipeline = _load(name)
        _expect_verb(verb, name, _task(Path(name.removeprefix(CT2)) / EXPORTED))
        return pipeline
    contents = read(name)
    _expect_verb(verb, name, contents.system.task(contents.task))
    return _open(contents, name) if engine == "torch" else load_fast(name)


def _expect_verb(verb: str, name: str, task: type[Task]) -> None:
    if verb not in task.verbs:
        raise RegardError(f"{name} is a model for {task.name}, not for `regard {verb}`; try `regard {task.verbs[0]}`")
