"""Models in folders: what kinds there are, saved, found by name, opened.

A model is a folder with `config.json`, `model.safetensors`, its tokenizer and a card, `README.md`. Wherever a model is
asked for, a run's folder means the best model of the run, a bare name one that comes with Regard, and `hf:PATH` a
folder of Hugging Face's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config, parse
from regard.data.tokenizer import Tokenizer
from regard.folders import read_tensors, restore, verify, write_tensors, write_whole
from regard.interop import marian
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.translation import Translator

AnyModelConfig = TransformerConfig | RnnSeq2SeqConfig | ConvSeq2SeqConfig
ModelConfig = Annotated[AnyModelConfig, Field(discriminator="kind")]
HUGGING_FACE = "hf:"
ASSETS = Path(__file__).parent / "assets"


@dataclass(frozen=True, kw_only=True)
class _Model(Config):
    model: ModelConfig


def read_config(data: Mapping[str, Any], source: str) -> AnyModelConfig:
    """The config of a model, of whatever kind."""
    return parse(_Model, {"model": data}, source).model


@dataclass(frozen=True)
class Contents:
    """What a model's folder holds."""

    config: AnyModelConfig
    weights: Mapping[str, Tensor]
    source: Tokenizer
    target: Tokenizer


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model, each once: what is shared goes by its first name."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


@torch.no_grad()
def load_tensors(model: nn.Module, loaded: Mapping[str, Tensor], source: str) -> None:
    """Copies tensors into a model; all must be there and fit."""
    own = tensors(model)
    problems = [f"{name} is missing" for name in own.keys() - loaded.keys()]
    problems += [f"{name} is not known" for name in loaded.keys() - own.keys()]
    problems += [
        f"{name} has shape {tuple(loaded[name].shape)}, the config asks for {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in loaded and loaded[name].shape != tensor.shape
    ]
    if problems:
        raise ValueError("\n  ".join([f"{source}: not what the config asks for", *sorted(problems)[:10]]))
    for name, tensor in own.items():
        tensor.copy_(loaded[name])


def save(
    folder: Path, config: AnyModelConfig, weights: Mapping[str, Tensor], source: Tokenizer, target: Tokenizer, card: str
) -> None:
    """Writes a model's folder, all of it or nothing."""

    def fill(aside: Path) -> None:
        (aside / "config.json").write_text(config.to_json(), "utf-8")
        (aside / "README.md").write_text(card, "utf-8")
        write_tensors(aside / "model.safetensors", weights)
        save_tokenizers(aside, source, target)

    write_whole(folder, fill)


def save_tokenizers(folder: Path, source: Tokenizer, target: Tokenizer) -> None:
    """One file for a joint vocabulary, two for separate ones."""
    if source is target:
        source.save(folder / "tokenizer.json")
    else:
        source.save(folder / "tokenizer.source.json")
        target.save(folder / "tokenizer.target.json")


def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target, which may be one."""
    if (folder / "tokenizer.json").exists():
        joint = Tokenizer.load(folder / "tokenizer.json")
        return joint, joint
    return Tokenizer.load(folder / "tokenizer.source.json"), Tokenizer.load(folder / "tokenizer.target.json")


def find(name: str) -> Path:
    """The folder of a model: by its path, by the path of a run, or by the name of one that comes with Regard."""
    for folder in (Path(name), Path(name) / "model", ASSETS / name):
        restore(folder)
        if (folder / "config.json").is_file():
            return folder
    known = sorted(path.parent.name for path in ASSETS.glob("*/config.json"))
    raise ValueError(
        f"no model is at '{name}': neither a model's folder nor a run's. "
        + (f"With Regard come {', '.join(known)}" if known else "Train one: regard train translate/dates")
    )


def read(name: str) -> Contents:
    """What is in a model's folder, once it is known to be whole; `hf:PATH` is a folder of Hugging Face's."""
    if name.startswith(HUGGING_FACE):
        return Contents(*marian.read(Path(name.removeprefix(HUGGING_FACE))))
    folder = find(name)
    verify(folder)
    path = folder / "config.json"
    config = read_config(json.loads(path.read_text("utf-8")), str(path))
    return Contents(config, read_tensors(folder / "model.safetensors"), *load_tokenizers(folder))


def convert(name: str, target: str, *, half: bool = False, card: str | None = None) -> None:
    """Writes a model to a folder that is not there yet: one of ours, or, as `hf:PATH`, one of Hugging Face's.

    Args:
        half: weights take half the space, rounded to 11 bits; they are computed with in float32 all the same.
        card: the text of the model's card.
    """
    contents = read(name)
    weights = {key: tensor.half() if half else tensor for key, tensor in contents.weights.items()}
    folder = Path(target.removeprefix(HUGGING_FACE))
    if folder.exists():
        raise ValueError(f"{folder} is there already; choose another folder, or remove it")
    text = card or f"# {folder.name}\n\nConverted with Regard from {name}.\n"
    if not target.startswith(HUGGING_FACE):
        save(folder, contents.config, weights, contents.source, contents.target, text)
        return
    config = contents.config
    if not isinstance(config, TransformerConfig):
        raise ValueError(f"a model of kind '{config.kind}' has no counterpart in Hugging Face's library")

    def fill(aside: Path) -> None:
        marian.write(aside, config, weights, contents.source, contents.target)
        (aside / "README.md").write_text(text, "utf-8")

    write_whole(folder, fill)


def load(name: str) -> Translator:
    """Opens a model, ready to translate."""
    contents = read(name)
    model = contents.config.build()
    load_tensors(model, contents.weights, f"the weights of {name}")
    return Translator(model, contents.source, contents.target)
