"""Model folders: `config.json`, `model.safetensors`, the codecs by role, and a model card, `README.md`.

`config.json` holds the format of the folder, the version of Regard, the task of the model, and the model's config. The
type of the loaded pipeline is read from it, never inferred.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.codecs import interface as codecs_
from regard.codecs.interface import Codec
from regard.config import Config, parse
from regard.errors import RegardError
from regard.folders import CARD, read_json, read_tensors, verify, write_folder, write_tensors
from regard.version import __version__

FORMAT = 2
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class CodecFile(NamedTuple):
    """The file of a codec, not yet loaded."""

    kind: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class _Codec(Config):
    kind: str
    file: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    """File name in the same folder."""


@dataclass(frozen=True, kw_only=True)
class FolderConfig(Config):
    """The contents of `config.json`."""

    format: int
    regard: str
    task: str
    model: dict[str, Any]
    codecs: dict[str, _Codec]


@dataclass(frozen=True)
class Saved:
    """The contents of a model folder."""

    task: str
    model: Mapping[str, Any]
    """The model's config, as plain data."""
    codecs: Mapping[str, CodecFile]
    """By role."""
    weights: Mapping[str, Tensor]


def save(
    folder: Path,
    *,
    task: str,
    config: Config,
    weights: Mapping[str, Tensor],
    codecs: Mapping[str, Codec],
    card: str,
) -> None:
    """Writes a model folder atomically."""

    def fill(temporary: Path) -> None:
        write_about(temporary / CONFIG, task, config, codecs)
        (temporary / CARD).write_text(card, "utf-8")
        write_tensors(temporary / WEIGHTS, weights)
        codecs_.save(temporary, codecs)

    write_folder(folder, fill)


def write_about(path: Path, task: str, config: Config, codecs: Mapping[str, Codec]) -> None:
    """Writes `config.json`: everything about a model except its weights."""
    files = codecs_.files(codecs)
    about = {
        "format": FORMAT,
        "regard": __version__,
        "task": task,
        "model": json.loads(config.to_json()),
        "codecs": {role: {"kind": codec.kind, "file": files[role]} for role, codec in codecs.items()},
    }
    path.write_text(json.dumps(about, indent=2) + "\n", "utf-8")


def read_about(path: Path) -> tuple[str, dict[str, Any], dict[str, CodecFile]]:
    """Reads what `write_about` wrote: the task, the model's config and the files of the codecs."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise RegardError(f"{path}: damaged, expected a JSON object")
    if is_old(data):
        raise RegardError(
            f"{path.parent} was written by an older version of Regard; convert it: regard convert {path.parent} NEW"
        )
    if isinstance(data["format"], int) and data["format"] > FORMAT:
        raise RegardError(
            f"{path.parent} was written by Regard {data.get('regard')} in format {data['format']}, but this version "
            f"({__version__}) reads formats up to {FORMAT}; update Regard"
        )
    about = parse(FolderConfig, data, str(path))
    files = {role: CodecFile(each.kind, path.parent / each.file) for role, each in about.codecs.items()}
    return about.task, about.model, files


def is_old(data: Any) -> bool:
    """Whether this is a bare model config, as old versions of Regard wrote it, before folders had a format."""
    return not isinstance(data, dict) or "format" not in data


def read(folder: Path) -> Saved:
    """Verifies and reads a model folder."""
    verify(folder)
    task, model, files = read_about(folder / CONFIG)
    return Saved(task, model, files, read_tensors(folder / WEIGHTS))


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model; shared tensors appear once, under their first name."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


@torch.no_grad()
def load_tensors(model: nn.Module, loaded: Mapping[str, Tensor], source: str) -> None:
    """Copies tensors into a model; names and shapes must match."""
    expect_tensors(model, loaded, source)
    for name, tensor in tensors(model).items():
        tensor.copy_(loaded[name])


def build_without_memory(config: Any, loaded: Mapping[str, Tensor], source: str) -> nn.Module:
    """The model of a config, on the device "meta"; a config with more layers than there are tensors is an error."""
    names = ("layers", "encoder_layers", "decoder_layers")
    if (layers := sum(getattr(config, name, 0) for name in names)) > len(loaded):
        raise RegardError(f"{source}: {layers:,} layers in the config, but only {len(loaded):,} tensors")
    with torch.device("meta"):
        model: nn.Module = config.build()
    return model


def expect_finite(loaded: Mapping[str, Tensor], source: str) -> None:
    """Raises `RegardError` if a tensor contains NaN or infinity."""
    for name, tensor in loaded.items():
        # the extremes, because they are NaN if any value is, and need no memory
        if tensor.is_floating_point() and tensor.numel() and not torch.stack(tensor.aminmax()).isfinite().all():
            raise RegardError(f"{source}: {name} contains NaN or infinity; get the model again, or train it again")


def expect_tensors(model: nn.Module, loaded: Mapping[str, Tensor], source: str) -> None:
    """Raises `RegardError` if names, shapes or kinds of numbers of tensors do not match those of a model."""
    own = tensors(model)
    problems = [f"{name} is missing" for name in own.keys() - loaded.keys()]
    problems += [f"{name} is unexpected" for name in loaded.keys() - own.keys()]
    problems += [
        f"{name} has shape {tuple(loaded[name].shape)}, but the config requires {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in loaded and loaded[name].shape != tensor.shape
    ]
    problems += [
        f"{name} is {loaded[name].dtype}, but the model computes with {tensor.dtype}"
        for name, tensor in own.items()
        if name in loaded and loaded[name].is_floating_point() != tensor.is_floating_point()
    ]
    if problems:
        raise RegardError("\n  ".join([f"{source}: tensors do not match the config", *sorted(problems)[:10]]))
