"""Models in folders: saved, found by name, opened.

A model is a folder with `config.json`, `model.safetensors`, its tokenizer and a card, `README.md`. Wherever a model is
asked for, a run's folder means the best model of the run, and a bare name one that comes with Regard.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.data.tokenizer import Tokenizer
from regard.folders import restore, verify, write_whole
from regard.recipe import AnyModelConfig, read_model
from regard.tasks.translation import Translator

ASSETS = Path(__file__).parent / "assets"


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model, each once: what is shared goes by its first name."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


@torch.no_grad()
def load_tensors(model: nn.Module, loaded: Mapping[str, Tensor], source: Path) -> None:
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
        raise ValueError("\n  ".join([f"{source}: does not fit its config", *sorted(problems)[:10]]))
    for name, tensor in own.items():
        tensor.copy_(loaded[name])


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file; a damaged one is named."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged ({error})") from None


def save(
    folder: Path, config: AnyModelConfig, weights: Mapping[str, Tensor], source: Tokenizer, target: Tokenizer, card: str
) -> None:
    """Writes a model's folder, all of it or nothing."""

    def fill(aside: Path) -> None:
        (aside / "config.json").write_text(config.to_json(), "utf-8")
        (aside / "README.md").write_text(card, "utf-8")
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, aside / "model.safetensors")
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


def load(name: str) -> Translator:
    """Opens a model, ready to translate."""
    folder = find(name)
    verify(folder)
    path = folder / "config.json"
    model = read_model(json.loads(path.read_text("utf-8")), str(path)).build()
    load_tensors(model, read_tensors(folder / "model.safetensors"), folder / "model.safetensors")
    return Translator(model, *load_tokenizers(folder))
