"""Models found by name, opened, converted.

Wherever a model is expected, a run's folder means the best model of the run, a bare name one that comes with Regard,
and `hf:PATH` a folder of Hugging Face's. An export, which another engine runs, is `ct2:PATH` (CTranslate2) or
`onnx:PATH` (ONNX).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import torch
from torch import Tensor, nn

from regard import folders
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.linear import laid_out
from regard.codecs import interface as codecs_
from regard.config import ConfigError, parse
from regard.data.corpus import file_hash
from regard.decoding.fast_decoder import join
from regard.errors import RegardError
from regard.folders import restore, verify, write_whole
from regard.interop.files import HUB_NAME
from regard.models.heads import NoHead
from regard.process_memory import release_memory
from regard.store import models
from regard.store.models import CONFIG, WEIGHTS, expect_tensors, load_tensors, tensors
from regard.systems import SYSTEMS, System, system
from regard.tasks.embedding import EmbeddingTask
from regard.tasks.pipeline import Pipeline
from regard.tasks.translation import Translator
from regard.training.task import Task

PipelineT = TypeVar("PipelineT", bound=Pipeline)
Engine = Literal["torch", "ct2"]
Quantize = Literal["int8"]
HUGGING_FACE, CT2, ONNX = "hf:", "ct2:", "onnx:"
EXPORTED = "regard.json"
"""What a model is, in a folder that another engine reads."""
ASSETS = Path(__file__).parent / "assets"


@dataclass(frozen=True)
class Contents:
    """A model as its folder has it."""

    task: str
    config: Any
    weights: Mapping[str, Tensor]
    codecs: Mapping[str, Any]
    """By role."""

    @property
    def system(self) -> System:
        """The system that it is a model of."""
        return system(self.config.kind)


def load_initial(model: Any, contents: Contents) -> None:
    """Gives a model the weights of another; a head for another task, or for other labels, starts untrained."""
    own = tensors(model)
    fresh: tuple[str, ...] = model.fresh if _asked(contents.config) != _asked(model.config) else ()
    weights = {key: x for key, x in contents.weights.items() if not key.startswith(fresh)}
    weights = {key: x for key, x in weights.items() if key in own or not key.startswith(model.optional)}
    untrained = [key for key in own if key.startswith(fresh + model.optional) and key not in weights]
    load_tensors(model, {**weights, **{key: own[key] for key in untrained}}, "the weights of model.init")


def _asked(config: Any) -> tuple[str | None, tuple[str, ...]]:
    """The task of a model and its labels, where these are not the same for all of its kind."""
    return getattr(config, "task", None), getattr(config, "labels", ())


def fingerprint(name: str) -> str:
    """A hash of the weights of a model, to see whether they are still the same."""
    return file_hash(*sorted(_place(name).glob("*.safetensors")))


def _place(name: str) -> Path:
    return Path(name.removeprefix(HUGGING_FACE)) if name.startswith(HUGGING_FACE) else find(name)


def save(folder: Path, config: Any, weights: Mapping[str, Tensor], codecs: Mapping[str, Any], card: str) -> None:
    """Writes a model folder; what the model is for is known from its config."""
    task = system(config.kind).task_of(config).name
    models.save(folder, task=task, config=config, weights=weights, codecs=codecs, card=card)


def find(name: str) -> Path:
    """The folder of a model: by its path, by the path of a run, or by the name of one that comes with Regard."""
    for folder in (Path(name), Path(name) / "model", ASSETS / name):
        restore(folder)
        if (folder / "config.json").is_file():
            return folder
    if name.startswith(ONNX):
        raise RegardError(f"{name}: ONNX is for other programs, and not opened here; name the model it was made from")
    known = sorted(path.parent.name for path in ASSETS.glob("*/config.json"))
    raise RegardError(
        f"no model is at '{name}': neither a model's folder nor a run's. "
        + (f"With Regard come {', '.join(known)}" if known else "Train one: regard train translate/dates")
    )


def read(name: str) -> Contents:
    """What is in a model's folder, once it is known to be whole; `hf:PATH` is a folder of Hugging Face's."""
    if name.startswith(HUGGING_FACE):
        return _read_hugging_face(Path(name.removeprefix(HUGGING_FACE)))
    folder = find(name)
    if (folder / EXPORTED).exists():
        raise RegardError(f"{folder} is an export; where CTranslate2 is to run it, it is {CT2}{folder}")
    saved = models.read(folder)
    return _contents(saved.task, saved.model, saved.codecs, saved.weights, folder / CONFIG)


def _contents(
    task: str,
    model: Mapping[str, Any],
    files: Mapping[str, models.CodecFile],
    weights: Mapping[str, Tensor],
    source: Path,
) -> Contents:
    of = system(model.get("kind"))
    of.task(task)  # which must be one of its tasks
    kinds = {role: of.codec(role, file.kind) for role, file in files.items()}
    loaded = {path: kinds[role].load(path) for role, (_, path) in files.items()}
    codecs = {role: loaded[path] for role, (_, path) in files.items()}
    try:
        config = parse(of.model, model)
    except ConfigError as error:
        raise ConfigError([problem.within("model") for problem in error.problems], str(source)) from None
    return Contents(task, config, weights, codecs)


def _read_old(folder: Path) -> Contents:
    """A model folder from before 0.1.0, without a format: what it is for is known from its config."""
    verify(folder)
    path = folder / CONFIG
    about = json.loads(path.read_text("utf-8"))
    of = system(about.get("kind"))
    # now a mask says where padding is
    config = parse(of.model, {key: value for key, value in about.items() if key != "pad_id"}, str(path))
    for kinds in _choices(of):
        try:
            found = codecs_.load(folder, kinds)
        except RegardError:
            continue
        if found is not None:
            return Contents(of.task_of(config).name, config, folders.read_tensors(folder / WEIGHTS), found)
    raise RegardError(f"{folder}: its tokenizer is missing, or none that a model of kind '{of.name}' reads")


def _choices(of: System) -> list[dict[str, type[Any]]]:
    """The codecs that the roles of a system may have, one choice for all roles at a time."""
    most = max(len(configs) for configs in of.codecs.values())
    return [{role: configs[min(i, len(configs) - 1)].codec for role, configs in of.codecs.items()} for i in range(most)]


def _read_hugging_face(folder: Path) -> Contents:
    path = folder / "config.json"
    if not folder.is_dir():
        name = str(folder)
        remedy = f"; to download it, regard convert --download {HUGGING_FACE}{name} runs/{folder.name}"
        raise RegardError(f"{HUGGING_FACE}{name}: no such folder" + (remedy if HUB_NAME.fullmatch(name) else ""))
    try:
        about = json.loads(path.read_text("utf-8"))
        kind = about.get("model_type")
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file; is it a folder of Hugging Face's?") from None
    except (ValueError, AttributeError):
        raise RegardError(f"{path}: damaged, it is not a model's config") from None
    families = {each.family.MODEL_TYPE: each for each in SYSTEMS if each.family is not None}
    if kind is None:  # the first of them did not say
        begins = [str(name).lower() for name in about.get("architectures") or ()]
        kind = next((known for known in families if any(name.startswith(known) for name in begins)), None)
    if kind not in families:
        raise RegardError(f"{folder}: models of type {kind!r} cannot be converted; those of {', '.join(families)} can")
    of = families[kind]
    assert of.family is not None
    config, weights, codecs = of.family.read(folder)
    return Contents(of.task_of(config).name, config, weights, codecs)


def convert(
    name: str,
    target: str,
    *,
    half: bool = False,
    quantize: Quantize | None = None,
    card: str | None = None,
    download: bool = False,
) -> str:
    """Writes a model to a folder that is not there yet: one of ours, or, by what `target` begins with, of others'.

    A folder of an older version of Regard is read, too, so that it can be written as this version has it. An export for
    another engine is compared with the model on random texts, and is not written where it differs. What was found is
    returned.

    Args:
        half: weights take half the space, rounded to 11 bits; they are computed with in float32 all the same.
        quantize: in an export for CTranslate2, weights have 8 bits, and are computed with in 8 bits.
        card: the text of the model's card.
        download: first download the model, `hf:NAME`, from the Hugging Face Hub.
    """
    engine, _, path = target.partition(":") if target.startswith((HUGGING_FACE, CT2, ONNX)) else ("", "", target)
    if quantize is not None and engine != "ct2":
        raise RegardError(f"only exports for CTranslate2 are quantized, and {target} is none; write to {CT2}{path}")
    if half and engine in ("ct2", "onnx"):
        raise RegardError(f"{target}: an export is not written in half precision; leave that out")
    folder = Path(path)
    if folder.exists():
        raise RegardError(f"{folder} is there already; choose another folder, or remove it")
    source = _downloaded(name) if download else name
    contents = _read_old(find(source)) if _is_old(source) else read(source)
    weights = {key: tensor.half() if half else tensor for key, tensor in contents.weights.items()}
    text = card or f"# {folder.name}\n\nConverted with Regard from {name}.\n"
    if not engine:
        about = {"task": contents.task, "config": contents.config, "codecs": contents.codecs}
        models.save(folder, **about, weights=weights, card=text)
        return ""
    found, family = "", contents.system.family
    if engine == "hf" and family is None:
        raise RegardError(f"a model of kind '{contents.config.kind}' has no counterpart in Hugging Face's library")

    def fill(aside: Path) -> None:
        nonlocal found
        if engine == "hf":
            assert family is not None
            family.write(aside, contents.config, weights, contents.codecs)
        else:
            found = _export(aside, contents, name, engine, quantize)
        (aside / "README.md").write_text(text, "utf-8")

    write_whole(folder, fill)
    return found


def _downloaded(name: str) -> str:
    """The name of the folder that holds a model of the Hugging Face Hub, once it is downloaded."""
    found = name.removeprefix(HUGGING_FACE)
    if found == name:
        raise RegardError(f"{name} is not downloaded; write it as {HUGGING_FACE}NAME, such as {HUGGING_FACE}gpt2")
    if Path(found).exists():
        raise RegardError(f"{found} is a folder here; leave --download out to convert it")
    return f"{HUGGING_FACE}{_module('hub', 'hub').download(found)}"


def _is_old(name: str) -> bool:
    """Whether a name is that of a model folder of an older version of Regard."""
    if name.startswith(HUGGING_FACE):
        return False
    folder = find(name)
    return not (folder / EXPORTED).exists() and models.is_old(json.loads((folder / CONFIG).read_text("utf-8")))


def _export(folder: Path, contents: Contents, name: str, engine: str, quantize: str | None) -> str:
    """Fills a folder for another engine, with all that we need to use it; gives what was found in checking it."""
    ours, task, config = _opened(contents, name), contents.task, contents.config
    if engine == "onnx":
        found: str = _module("onnx").write(folder, ours)
    else:
        _module("ct2").write(folder, ours.model, contents.codecs, quantize)
        found = _module("ct2_inference").check(folder, task, ours, quantize)
        if head := getattr(config, "head", None):
            # no other head is known there
            config, task = replace(config, head=NoHead(pooled=head.pooled)), EmbeddingTask.name
    models.write_about(folder / EXPORTED, task, config, contents.codecs)
    codecs_.save(folder, contents.codecs)
    return found


def _module(name: str, extra: str = "export") -> Any:
    """The module of another engine, imported only when it is needed."""
    try:
        return import_module(f"regard.interop.{name}")
    except ModuleNotFoundError as error:
        raise RegardError(f"{error.name} is not installed, which this needs; pip install 'regard[{extra}]'") from None


@overload
def load(name: Literal["en-es"]) -> Translator: ...
@overload
def load(name: str) -> Pipeline: ...
@overload
def load(name: str, kind: type[PipelineT]) -> PipelineT: ...


def load(name: str, kind: type[Pipeline] = Pipeline) -> Pipeline:
    """Opens a model, ready to do what it is for: a `Translator`, a `Classifier`, a `Completer` and so on.

    Args:
        name: a run's folder, a model's folder, the name of a bundled model, `hf:PATH` or `ct2:PATH`.
        kind: what it must be, so that an editor knows it, too: `regard.load("runs/mine", regard.Translator)`.
    """
    if not isinstance(name, str):
        raise RegardError(f"a model is named by a string, such as 'en-es' or the path of a folder; got {name!r}")
    found = _load(name)
    if not isinstance(found, kind):
        raise RegardError(f"{name} opens as {type(found).__name__}, not as {kind.__name__}")
    return found


def _load(name: str) -> Any:
    if name.startswith(CT2):

        def original() -> Any:
            raise RegardError(f"{name} can be used, but not looked into; ask the model that it was made from")

        return _load_export(Path(name.removeprefix(CT2)), original)
    return _opened(read(name), name)


def load_fast(name: str) -> Any:
    """Opens a model to be run by CTranslate2 in 8 bits; for that it is converted once, and kept for the next time."""
    if name.startswith(CT2):
        return _load(name)
    key = file_hash(
        *sorted(path for path in _place(name).iterdir() if path.suffix in (".json", ".safetensors", ".txt"))
    )
    folder = folders.cache() / "ct2" / key
    if not folder.exists():
        convert(name, f"{CT2}{folder}", quantize="int8")
    return _load_export(folder, cache(lambda: load(name)))


def _load_export(folder: Path, original: Callable[[], Any]) -> Any:
    path = folder / EXPORTED
    if not path.is_file() or not (folder / "model.bin").is_file():
        raise RegardError(f"{folder} is no export for CTranslate2; make one: regard convert MODEL {CT2}{folder}")
    verify(folder)
    contents = _contents(*models.read_about(path), {}, path)
    with torch.device("meta"):
        model = contents.config.build()  # of which only the shape is asked
    return _module("ct2_inference").opened(contents.task, folder, model, contents.codecs, original)


def _opened(contents: Contents, name: str) -> Any:
    with torch.device("meta"):  # so that no weights are made only to be replaced
        model = contents.config.build()
    expect_tensors(model, contents.weights, f"the weights of {name}")
    own = tensors(model)
    weights = {key: tensor.to(own[key].dtype) for key, tensor in contents.weights.items()}
    model.load_state_dict(weights, strict=False, assign=True)  # a name that shares its tensor with another is missing
    _lay_out(model)
    return contents.system.task(contents.task).open(model, contents.codecs)


def _lay_out(model: nn.Module) -> None:
    """Stores matrices as decoding reads them. All is copied, so that nothing holds on to the file it was read from."""
    matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear | TokenEmbedding)}
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = laid_out(tensor.data) if id(tensor) in matrices else tensor.data.clone()
    join(model)
    release_memory()


def default_for(verb: str) -> str:
    """The name of the bundled model that serves a verb; of several, first one that is made for it."""
    tasks = {path.parent.name: _task(path) for path in sorted(ASSETS.glob(f"*/{CONFIG}"))}
    serving = [name for name, task in tasks.items() if verb in task.verbs]
    if not serving:
        raise RegardError(f"no bundled model serves `regard {verb}`; name one with --model")
    return min(serving, key=lambda name: tasks[name].verbs[0] != verb)


def _task(path: Path) -> type[Task]:
    """What the model is for that a file describes."""
    task, model, _ = models.read_about(path)
    return system(model.get("kind")).task(task)


def load_for(verb: str, name: str | None = None, engine: Engine = "torch") -> Any:
    """Opens a model that must serve a verb, such as "translate"; without a name, the bundled one."""
    name = default_for(verb) if name is None else name
    if name.startswith(CT2):
        opened = _load(name)
        _expect_verb(verb, name, _task(Path(name.removeprefix(CT2)) / EXPORTED))
        return opened
    contents = read(name)
    _expect_verb(verb, name, contents.system.task(contents.task))
    return _opened(contents, name) if engine == "torch" else load_fast(name)


def _expect_verb(verb: str, name: str, task: type[Task]) -> None:
    if verb not in task.verbs:
        raise RegardError(f"{name} is a model for {task.name}, not for `regard {verb}`; try `regard {task.verbs[0]}`")
