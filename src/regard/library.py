"""Models in folders: what kinds there are, saved, found by name, opened.

A model is a folder with `config.json`, `model.safetensors`, its tokenizer and a card, `README.md`. Wherever a model is
asked for, a run's folder means the best model of the run, a bare name one that comes with Regard, and `hf:PATH` a
folder of Hugging Face's. An export, which another engine runs, is `ct2:PATH` (CTranslate2) or `onnx:PATH` (ONNX).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard import folders
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.linear import laid_out
from regard.config import Config, parse
from regard.data.corpus import file_hash
from regard.data.gpt import TextTokenizer
from regard.data.tokenizer import Tokenizer
from regard.data.wordpiece import WordPiece
from regard.data.words import Words
from regard.decoding.lean import join
from regard.errors import RegardError
from regard.folders import read_tensors, restore, verify, write_tensors, write_whole
from regard.interop import bert, gpt2, marian
from regard.memory import give_back
from regard.models.bert import BertConfig
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.gpt2 import Gpt2Config
from regard.models.heads import NoHead
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.tagger import TaggerConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.classification import Classifier
from regard.tasks.completion import Completer
from regard.tasks.encoding import Encoder
from regard.tasks.pretraining import Guesser
from regard.tasks.tagging import PieceTagger, WordTagger
from regard.tasks.translation import Translator

TranslatorConfig = TransformerConfig | RnnSeq2SeqConfig | ConvSeq2SeqConfig
AnyModelConfig = TranslatorConfig | BertConfig | TaggerConfig | Gpt2Config
ModelConfig = Annotated[AnyModelConfig, Field(discriminator="kind")]
AnyTokenizer = Tokenizer | WordPiece | Words | TextTokenizer
TOKENIZERS: dict[str, type[AnyTokenizer]] = {"bert": WordPiece, "tagger": Words, "gpt2": TextTokenizer}
"""By the kind of model; all others have one for their source and one for their target, which may be the same."""
ENCODERS: dict[str, type[Encoder]] = {
    "pretraining": Guesser,
    "classification": Classifier,
    "regression": Classifier,
    "tagging": PieceTagger,
}
"""What a BERT does, by its head; any other gives vectors."""
Opened = Translator | Encoder | WordTagger | Completer
AnOpened = TypeVar("AnOpened", bound=Opened)
Engine = Literal["torch", "ct2"]
Quantize = Literal["int8"]
HUGGING_FACE, CT2, ONNX = "hf:", "ct2:", "onnx:"
EXPORTED = "regard.json"
"""Our config in a folder that another engine reads."""
ASSETS = Path(__file__).parent / "assets"


@dataclass(frozen=True, kw_only=True)
class _Model(Config):
    model: ModelConfig


def read_config(data: Mapping[str, Any], source: str) -> AnyModelConfig:
    """The config of a model, of whatever kind."""
    # folders of older versions name the token that they pad with; now a mask says where padding is
    known = {key: value for key, value in data.items() if key != "pad_id"}
    return parse(_Model, {"model": known}, source).model


@dataclass(frozen=True)
class Contents:
    """What a model's folder holds."""

    config: AnyModelConfig
    weights: Mapping[str, Tensor]
    tokenizers: tuple[AnyTokenizer, ...]
    """One; or, of a translator, that of the source and that of the target."""


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers of a model, each once: what is shared goes by its first name."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


@torch.no_grad()
def load_tensors(model: nn.Module, loaded: Mapping[str, Tensor], source: str) -> None:
    """Copies tensors into a model; all must be there and fit."""
    _expect(model, loaded, source)
    for name, tensor in tensors(model).items():
        tensor.copy_(loaded[name])


def _expect(model: nn.Module, loaded: Mapping[str, Tensor], source: str) -> None:
    """Raises `RegardError` unless tensors are those of a model."""
    own = tensors(model)
    problems = [f"{name} is missing" for name in own.keys() - loaded.keys()]
    problems += [f"{name} is not known" for name in loaded.keys() - own.keys()]
    problems += [
        f"{name} has shape {tuple(loaded[name].shape)}, the config asks for {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in loaded and loaded[name].shape != tensor.shape
    ]
    if problems:
        raise RegardError("\n  ".join([f"{source}: not what the config asks for", *sorted(problems)[:10]]))


def begin_with(model: Any, name: str) -> None:
    """Gives a model the weights of another; a head for another task, or for other labels, starts untrained."""
    contents, own = read(name), tensors(model)
    fresh: tuple[str, ...] = model.fresh if _asked(contents.config) != _asked(model.config) else ()
    weights = {key: x for key, x in contents.weights.items() if not key.startswith(fresh)}
    weights = {key: x for key, x in weights.items() if key in own or not key.startswith(model.optional)}
    untrained = [key for key in own if key.startswith(fresh + model.optional) and key not in weights]
    load_tensors(model, {**weights, **{key: own[key] for key in untrained}}, f"the weights of {name}")


def _asked(config: AnyModelConfig) -> tuple[str | None, tuple[str, ...]]:
    """The task of a model and its labels, where these are not the same for all of its kind."""
    return getattr(config, "task", None), getattr(config, "labels", ())


def fingerprints(name: str | None) -> list[str]:
    """A hash of the weights of a model, to see whether they are still the same; none for no model."""
    if name is None:
        return []
    return [file_hash(*sorted(_place(name).glob("*.safetensors")))]


def _place(name: str) -> Path:
    return Path(name.removeprefix(HUGGING_FACE)) if name.startswith(HUGGING_FACE) else find(name)


def save(
    folder: Path,
    config: AnyModelConfig,
    weights: Mapping[str, Tensor],
    tokenizers: Sequence[AnyTokenizer],
    card: str,
) -> None:
    """Writes a model's folder, all of it or nothing."""

    def fill(aside: Path) -> None:
        (aside / "config.json").write_text(config.to_json(), "utf-8")
        (aside / "README.md").write_text(card, "utf-8")
        write_tensors(aside / "model.safetensors", weights)
        save_tokenizers(aside, tokenizers)

    write_whole(folder, fill)


def save_tokenizers(folder: Path, tokenizers: Sequence[AnyTokenizer]) -> None:
    """One file for one vocabulary, two for those of source and target."""
    if tokenizers[0] is tokenizers[-1]:
        tokenizers[0].save(folder / "tokenizer.json")
    else:
        for name, tokenizer in zip(("source", "target"), tokenizers, strict=True):
            tokenizer.save(folder / f"tokenizer.{name}.json")


def load_tokenizers(folder: Path, config: AnyModelConfig) -> tuple[AnyTokenizer, ...]:
    """The tokenizers of a model of that kind."""
    if config.kind in TOKENIZERS:
        return (TOKENIZERS[config.kind].load(folder / "tokenizer.json"),)
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
    verify(folder)
    path = folder / "config.json"
    config = read_config(json.loads(path.read_text("utf-8")), str(path))
    return Contents(config, read_tensors(folder / "model.safetensors"), load_tokenizers(folder, config))


def _read_hugging_face(folder: Path) -> Contents:
    path = folder / "config.json"
    try:
        about = json.loads(path.read_text("utf-8"))
        kind = about.get("model_type")
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file; is it a folder of Hugging Face's?") from None
    except (ValueError, AttributeError):
        raise RegardError(f"{path}: damaged, it is not a model's config") from None
    if kind is None and any(str(name).startswith("Bert") for name in about.get("architectures") or ()):
        kind = "bert"  # the first of them did not say
    readers: dict[str, Callable[[Path], tuple[Any, ...]]] = {
        "bert": bert.read,
        "gpt2": gpt2.read,
        "marian": marian.read,
    }
    if kind not in readers:
        raise RegardError(f"{folder}: models of type {kind!r} cannot be converted; those of {', '.join(readers)} can")
    config, weights, *tokenizers = readers[kind](folder)
    return Contents(config, weights, tuple(tokenizers))


def convert(
    name: str, target: str, *, half: bool = False, quantize: Quantize | None = None, card: str | None = None
) -> str:
    """Writes a model to a folder that is not there yet: one of ours, or, by what `target` begins with, of others'.

    An export for another engine is compared with the model on random texts, and is not written where it differs. What
    was found is returned.

    Args:
        half: weights take half the space, rounded to 11 bits; they are computed with in float32 all the same.
        quantize: in an export for CTranslate2, weights have 8 bits, and are computed with in 8 bits.
        card: the text of the model's card.
    """
    system, _, path = target.partition(":") if target.startswith((HUGGING_FACE, CT2, ONNX)) else ("", "", target)
    if quantize is not None and system != "ct2":
        raise RegardError(f"only exports for CTranslate2 are quantized, and {target} is none; write to {CT2}{path}")
    if half and system in ("ct2", "onnx"):
        raise RegardError(f"{target}: an export is not written in half precision; leave that out")
    contents, folder = read(name), Path(path)
    weights = {key: tensor.half() if half else tensor for key, tensor in contents.weights.items()}
    if folder.exists():
        raise RegardError(f"{folder} is there already; choose another folder, or remove it")
    text = card or f"# {folder.name}\n\nConverted with Regard from {name}.\n"
    if not system:
        save(folder, contents.config, weights, contents.tokenizers, text)
        return ""
    config, found = contents.config, ""
    writers: dict[str, Callable[..., None]] = {"transformer": marian.write, "bert": bert.write, "gpt2": gpt2.write}
    if system == "hf" and config.kind not in writers:
        raise RegardError(f"a model of kind '{config.kind}' has no counterpart in Hugging Face's library")

    def fill(aside: Path) -> None:
        nonlocal found
        if system == "hf":
            writers[config.kind](aside, config, weights, *contents.tokenizers)
        else:
            found = _export(aside, contents, name, system, quantize)
        (aside / "README.md").write_text(text, "utf-8")

    write_whole(folder, fill)
    return found


def _export(folder: Path, contents: Contents, name: str, system: str, quantize: str | None) -> str:
    """Fills a folder for another engine, with all that we need to use it; gives what was found in checking it."""
    ours = _opened(contents, name)
    config = contents.config
    if system == "onnx":
        found = _module("onnx").write(folder, ours)
    else:
        _module("ct2").write(folder, ours.model, contents.tokenizers, quantize)
        found = _module("ct2_run").check(folder, ours, quantize)
        if isinstance(config, BertConfig):
            config = replace(config, head=NoHead(pooled=config.head.pooled))  # no other head is known there
    (folder / EXPORTED).write_text(config.to_json(), "utf-8")
    save_tokenizers(folder, contents.tokenizers)
    return found


def _module(name: str) -> Any:
    """What speaks with another engine, which need not be there unless it is asked for."""
    try:
        return import_module(f"regard.interop.{name}")
    except ModuleNotFoundError as error:
        raise RegardError(f"{error.name} is not installed, which this needs; pip install 'regard[export]'") from None


def load(name: str) -> Any:
    """Opens a model, ready to do what it is for: a `Translator`, a `Classifier`, a `Guesser` and so on."""
    if name.startswith(CT2):

        def original() -> Any:
            raise RegardError(f"{name} can be used, but not looked into; ask the model that it was made from")

        return _load_export(Path(name.removeprefix(CT2)), original)
    return _opened(read(name), name)


def load_fast(name: str) -> Any:
    """Opens a model to be run by CTranslate2 in 8 bits; for that it is converted once, and kept for the next time."""
    if name.startswith(CT2):
        return load(name)
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
    config = read_config(json.loads(path.read_text("utf-8")), str(path))
    if isinstance(config, Gpt2Config):
        raise RegardError(f"{folder}: texts are completed by torch here; ctranslate2.Generator opens this folder")
    run = _module("ct2_run")
    kind = run.FastEncoder if isinstance(config, BertConfig) else run.FastTranslator
    with torch.device("meta"):
        model = config.build()  # of which only the shape is asked
    return kind(folder, model, *load_tokenizers(folder, config), original)


def _opened(contents: Contents, name: str) -> Any:
    with torch.device("meta"):  # so that no weights are made only to be replaced
        model = contents.config.build()
    _expect(model, contents.weights, f"the weights of {name}")
    own = tensors(model)
    weights = {key: tensor.to(own[key].dtype) for key, tensor in contents.weights.items()}
    model.load_state_dict(weights, strict=False, assign=True)  # a name that shares its tensor with another is missing
    _lay_out(model)
    return ready(model, contents.tokenizers)


def _lay_out(model: nn.Module) -> None:
    """Stores matrices as decoding reads them. All is copied, so that nothing holds on to the file it was read from."""
    matrices = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear | TokenEmbedding)}
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = laid_out(tensor.data) if id(tensor) in matrices else tensor.data.clone()
    join(model)
    give_back()


def load_as(
    kind: type[AnOpened] | tuple[type[AnOpened], ...], name: str, purpose: str, engine: Engine = "torch"
) -> AnOpened:
    """Opens a model that must be of this kind, because it is to serve a purpose, such as "translate"."""
    found = load(name) if engine == "torch" else load_fast(name)
    if not isinstance(found, kind):
        config = found.model.config
        head = f" with a head for {config.head.kind}" if isinstance(config, BertConfig) else ""
        raise RegardError(f"{name} is a model of kind '{config.kind}'{head}, which does not {purpose}")
    return found


def ready(model: Any, tokenizers: Sequence[Any]) -> Opened:
    """A model, ready to do what it is for."""
    config = model.config
    if isinstance(config, BertConfig):
        return ENCODERS.get(config.head.kind, Encoder)(model, *tokenizers)
    others: dict[str, type[Opened]] = {"tagger": WordTagger, "gpt2": Completer}
    return others.get(config.kind, Translator)(model, *tokenizers)
