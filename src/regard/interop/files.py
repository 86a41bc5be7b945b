"""Reads, checks and writes the files of Hugging Face folders, for all kinds of models."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard import folders
from regard.codecs.tokenizer_file import expect_short
from regard.errors import RegardError
from regard.folders import read_tensors

WEIGHTS, INDEX, PICKLED = "model.safetensors", "model.safetensors.index.json", "pytorch_model*.bin"
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
"""The name of a model on the Hugging Face Hub, such as `gpt2` or `Helsinki-NLP/opus-mt-en-de`."""
MIN_USED_ROWS = 0.5  # minimum fraction of an embedding's rows that have a token; some vocabularies are rounded up
CLASSES = (
    *(f"Bert{head}" for head in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")),
    *(f"RoFormer{head}" for head in ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")),
    *("BertForQuestionAnswering", "RoFormerForQuestionAnswering", "GPT2LMHeadModel", "GPT2Model", "MarianMTModel"),
    *("ViTForImageClassification", "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"),
)
"""Classes of Hugging Face's library that the command for pickled weights may name."""
# our activations by Hugging Face's names; of several names, the last is the one that all versions know
ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}
TYPES: dict[type, tuple[str, ...]] = {
    str: ("model_type", "hidden_act", "activation_function", "problem_type"),
    list: ("architectures",),
    dict: ("id2label", "weight_map"),
    bool: (
        *("do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space"),
        *("scale_embedding", "static_position_embeddings"),
        *("tie_word_embeddings", "share_encoder_decoder_embeddings"),
    ),
    int: (
        *("num_labels", "vocab_size", "decoder_vocab_size", "d_model"),
        *("pad_token_id", "eos_token_id", "decoder_start_token_id"),
    ),
}
"""The types of the entries that are used before a config of ours is made of them."""


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object from a file."""
    if not path.exists():
        raise RegardError(f"{path}: no such file; is this a Hugging Face folder?")
    value = folders.read_json(path)
    if not isinstance(value, dict):
        raise RegardError(f"{path}: expected a JSON object")
    return value


def read_settings(path: Path) -> dict[str, Any]:
    """Reads the entries of a config file that are not null; those in `TYPES` must have the right type."""
    settings = {key: value for key, value in read_json(path).items() if value is not None}
    for kind, keys in TYPES.items():
        for key in keys:
            if type(settings.get(key, kind())) is not kind:
                raise RegardError(f"{path}: {key} = {shortened(settings[key])}; its type must be {kind.__name__}")
    for name in (*settings.get("architectures", ()), *settings.get("weight_map", {}).values()):
        if not isinstance(name, str) or "/" in name:
            raise RegardError(f"{path}: {shortened(name)} is not the name of an architecture or of a file")
    return settings


def read_vocabulary(path: Path) -> dict[str, int]:
    """Reads the ids of tokens from a JSON file."""
    vocabulary = read_json(path)
    for token, number in vocabulary.items():
        if type(number) is not int:
            raise RegardError(
                f"{path}: the id of the token {shortened(token)} is {shortened(number)}; expected a number"
            )
    expect_short(vocabulary, str(path))
    return vocabulary


def shortened(value: Any) -> str:
    """A value for an error message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object to a file."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Reads the tensors of a folder, from one file or from several shards."""
    if (folder / WEIGHTS).is_file():
        return read_tensors(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        files = sorted(set(read_settings(folder / INDEX).get("weight_map", {}).values()))
        if missing := [name for name in files if not (folder / name).is_file()]:
            raise RegardError(f"{folder}: missing {', '.join(missing)}, listed in {INDEX}; download the folder again")
        return {name: tensor for file in files for name, tensor in read_tensors(folder / file).items()}
    if pickled := sorted(path.name for path in folder.glob(PICKLED)):
        # users will copy this command, so it contains nothing read from the untrusted files: a class is one of our list
        place, kind = shlex.quote(str(folder)), _class_of(folder)
        raise RegardError(
            f"{folder}: has {pickled[0]}, but no {WEIGHTS}. Pickled weights are not opened, because they can run any "
            f"code; to convert them, if you trust them: python -c 'import sys; from transformers import "
            f"{kind} as M; M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[1])' {place}"
        )
    raise RegardError(f"{folder}: has neither {WEIGHTS} nor {INDEX}")


def _class_of(folder: Path) -> str:
    """The name of the class in Hugging Face's library that loads the weights of a folder with their head."""
    path = folder / "config.json"
    named = read_settings(path).get("architectures") if path.is_file() else None
    return next(
        (known for known in CLASSES if isinstance(named, list) and known in named[:1]), "AutoModelForPreTraining"
    )


def expect_only(theirs: Mapping[str, Any], only: Mapping[str, Any]) -> None:
    """Raises `RegardError` if a config has a value that no model here supports."""
    for key, value in only.items():
        if (found := theirs.get(key, value)) != value:
            raise RegardError(f"{key} = {found!r}; only {value!r} can be converted")


def expect_tensors(given: Mapping[str, Tensor], expected: Mapping[str, Tensor], kind: str) -> None:
    """Raises `RegardError` unless the tensors have the expected names and shapes."""
    missing, unexpected = expected.keys() - given.keys(), given.keys() - expected.keys()
    if missing or unexpected:
        raise RegardError(
            f"not a {kind} with this config.json: missing {_listed(missing)}; unexpected {_listed(unexpected)}"
        )
    for name, like in expected.items():
        tensor, shape = given[name], tuple(like.shape)
        if tuple(tensor.shape) != shape or not tensor.is_floating_point():
            raise RegardError(
                f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)}, but config.json requires floats of {shape}"
            )


def expect_rows(folder: Path, tokens: int, rows: int) -> None:
    """Raises `RegardError` if a tokenizer has more tokens than the embedding has rows, or far fewer."""
    if not MIN_USED_ROWS * rows <= tokens <= rows:
        raise RegardError(
            f"{folder}: the tokenizer has {tokens} tokens, the embedding {rows} rows; do they belong to the same model?"
        )


def _listed(names: Iterable[str], limit: int = 40) -> str:
    """Names for an error message, at most `limit` of them."""
    ordered = sorted(names)
    more = f" and {len(ordered) - limit} more" if len(ordered) > limit else ""
    return (", ".join(ordered[:limit]) or "none") + more
