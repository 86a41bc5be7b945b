"""Import and export of Hugging Face's GPT-2.

One table serves both directions: it lists which of our tensors form each of Hugging Face's. There, as in the authors'
code, query, key and value are one matrix, and matrices have one row per input (`Conv1D`), not one per output.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.codecs.gpt2 import END, ByteBpe, LosslessTokenizer
from regard.config import parse
from regard.errors import RegardError
from regard.folders import write_tensors
from regard.interop import files
from regard.interop.files import (
    ACTIVATIONS,
    WEIGHTS,
    expect_only,
    expect_rows,
    expect_tensors,
    read_settings,
    write_json,
)
from regard.models.gpt2 import Gpt2Config
from regard.store.models import build_without_memory


class Composition(NamedTuple):
    """Our tensors, or modules, that form one of Hugging Face's."""

    parts: tuple[str, ...]
    """Their names, in the order in which their rows are concatenated."""
    transposed: bool = False

    def join(self, ours: Mapping[str, Tensor]) -> Tensor:
        """Hugging Face's tensor from ours."""
        whole = torch.cat([ours[part] for part in self.parts])
        return whole.T if self.transposed else whole

    def split(self, theirs: Tensor) -> dict[str, Tensor]:
        """Our tensors from Hugging Face's."""
        whole = theirs.T if self.transposed else theirs
        return dict(zip(self.parts, whole.chunk(len(self.parts)), strict=True))


(MODEL_TYPE,) = MODEL_TYPES = ("gpt2",)
LAYER = {
    "ln_1": Composition(("attention_residual.norm",)),
    "attn.c_attn": Composition(("attention.query", "attention.key", "attention.value"), transposed=True),
    "attn.c_proj": Composition(("attention.out",), transposed=True),
    "ln_2": Composition(("feedforward_residual.norm",)),
    "mlp.c_fc": Composition(("feedforward.inner",), transposed=True),
    "mlp.c_proj": Composition(("feedforward.outer",), transposed=True),
}
PREFIX = "transformer."  # if the model has a head
TIED = "lm_head.weight"
EMBEDDING = "wte.weight"
BUFFERS = (".attn.bias", ".attn.masked_bias")  # causal masks, stored by old versions
FIELDS = {
    "vocab_size": "vocab_size",
    "n_embd": "width",
    "n_head": "heads",
    "n_inner": "ff_width",
    "n_layer": "layers",
    "n_positions": "context",
    "layer_norm_epsilon": "norm_eps",
    "resid_pdrop": "dropout",
}
ARCHITECTURES = ("GPT2LMHeadModel", "GPT2Model")
ONLY = {
    "model_type": MODEL_TYPE,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def names(config: Gpt2Config) -> dict[str, Composition]:
    """Our tensors that form each of Hugging Face's, by its name without the prefix."""
    table = {EMBEDDING: Composition(("tokens.weight",)), "wpe.weight": Composition(("positions.encoding.weight",))}
    modules = {"ln_f": Composition(("norm",))}
    for layer in range(config.layers):
        for theirs, ours in LAYER.items():
            modules[f"h.{layer}.{theirs}"] = ours._replace(parts=tuple(f"layers.{layer}.{p}" for p in ours.parts))
    for theirs, ours in modules.items():
        table[f"{theirs}.weight"] = ours._replace(parts=tuple(f"{part}.weight" for part in ours.parts))
        table[f"{theirs}.bias"] = Composition(tuple(f"{part}.bias" for part in ours.parts))
    return table


# import


def read(folder: Path) -> tuple[Gpt2Config, dict[str, Tensor], dict[str, LosslessTokenizer]]:
    """Reads a Hugging Face folder: config, weights and codecs."""
    theirs, tensors = read_settings(folder / "config.json"), files.read_weights(folder)
    try:
        config = read_config(theirs)
        weights = read_weights(tensors, config)
    except RegardError as error:
        raise RegardError(f"{folder}: {error}") from None
    tokenizer = _read_tokenizer(folder)
    expect_rows(folder, tokenizer.vocab_size, config.vocab_size)
    end = theirs.get("eos_token_id")
    # the default is GPT-2's own end token, which a smaller vocabulary does not have
    if end is not None and end < config.vocab_size and end != tokenizer.end:
        raise RegardError(f"{folder}: eos_token_id = {end}; only models whose texts end with {END!r} can be converted")
    return config, weights, {"text": tokenizer}


def read_config(theirs: Mapping[str, Any]) -> Gpt2Config:
    """Converts a GPT-2's config.json."""
    expect_only(theirs, ONLY)
    for architecture in theirs.get("architectures") or ():
        if architecture not in ARCHITECTURES:
            raise RegardError(f"architecture {architecture} is not supported; supported: {', '.join(ARCHITECTURES)}")
    activation = theirs.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        supported = ", ".join(ACTIVATIONS)
        raise RegardError(f"activation_function = {activation!r} is not supported; supported: {supported}")
    # our defaults equal Hugging Face's, so keys that old versions did not write may be missing
    known = {mine: theirs[key] for key, mine in FIELDS.items() if theirs.get(key) is not None}
    if "n_ctx" in theirs:
        known.setdefault("context", theirs["n_ctx"])
    data = {**known, "activation": ACTIVATIONS[activation]}
    config = parse(Gpt2Config, data, source="config.json, with our key names")
    return config if "ff_width" in known else replace(config, ff_width=4 * config.width)


def read_weights(theirs: Mapping[str, Tensor], config: Gpt2Config) -> dict[str, Tensor]:
    """Converts Hugging Face's tensors to ours; missing and unexpected ones are an error."""
    given = {name.removeprefix(PREFIX): tensor for name, tensor in theirs.items() if not name.endswith(BUFFERS)}
    if TIED in given:
        tensor = given.pop(TIED)
        if not torch.equal(given.setdefault(EMBEDDING, tensor).float(), tensor.float()):
            raise RegardError(f"{TIED} differs from {EMBEDDING}; only tied output layers can be converted")
    table = names(config)
    expected = build_without_memory(config, given, "config.json").state_dict()
    expect_tensors(given, {name: ours.join(expected) for name, ours in table.items()}, "GPT-2")
    return {
        mine: part.float().contiguous()
        for name, ours in table.items()
        for mine, part in ours.split(given[name]).items()
    }


def _read_tokenizer(folder: Path) -> LosslessTokenizer:
    path = folder / "tokenizer_config.json"
    if path.is_file() and read_settings(path).get("add_prefix_space"):
        raise RegardError(
            f"{path}: add_prefix_space = true; only tokenizers that add no space before a text can be converted"
        )
    if (folder / "tokenizer.json").is_file():
        return LosslessTokenizer.load(folder / "tokenizer.json")
    return ByteBpe.from_folder(folder)


# export


def write(
    folder: Path, config: Gpt2Config, weights: Mapping[str, Tensor], codecs: Mapping[str, LosslessTokenizer]
) -> None:
    """Writes a folder for `GPT2LMHeadModel.from_pretrained` and `AutoTokenizer.from_pretrained`."""
    tokenizer = codecs["text"]
    write_tensors(folder / WEIGHTS, {f"{PREFIX}{name}": ours.join(weights) for name, ours in names(config).items()})
    activations = {mine: theirs for theirs, mine in ACTIVATIONS.items()}
    ends = {"bos_token_id": tokenizer.begin, "eos_token_id": tokenizer.end}
    entries = {
        "architectures": ["GPT2LMHeadModel"],
        **ONLY,
        **{theirs: getattr(config, mine) for theirs, mine in FIELDS.items()},
        "activation_function": activations[config.activation],
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,  # Regard has no dropout on attention weights
        **ends,
    }
    write_json(folder / "config.json", entries)
    write_json(folder / "generation_config.json", ends)
    _write_tokenizer(folder, config, tokenizer)


def _write_tokenizer(folder: Path, config: Gpt2Config, tokenizer: LosslessTokenizer) -> None:
    tokenizer.save(folder / "tokenizer.json")
    end = None if tokenizer.end is None else tokenizer.engine.id_to_token(tokenizer.end)
    entries = {"model_max_length": config.context, "bos_token": end, "eos_token": end, "unk_token": end}
    if isinstance(tokenizer, ByteBpe):
        merges = json.loads(tokenizer.to_json())["model"]["merges"]
        write_json(folder / "vocab.json", tokenizer.engine.get_vocab())
        text = "".join(f"{left} {right}\n" for left, right in merges)
        (folder / "merges.txt").write_text(f"#version: 0.2\n{text}", "utf-8")
        entries |= {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False}
    else:
        entries |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    write_json(folder / "tokenizer_config.json", entries)
