"""Hugging Face's GPT-2: its folders as our models, and our models as its folders.

One table serves both directions. It says which of our tensors each of Hugging Face's is made of: there, as in the
authors' code, query, key and value are one matrix, and matrices have a row for each input (`Conv1D`), not one for each
output.
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
from regard.interop.files import ACTIVATIONS, WEIGHTS, expect_only, expect_room, expect_tensors, read_json, write_json
from regard.models.gpt2 import Gpt2Config


class Made(NamedTuple):
    """What a tensor, or a module, of Hugging Face's is made of."""

    parts: tuple[str, ...]
    """Ours, one below the other."""
    transposed: bool = False

    def join(self, ours: Mapping[str, Tensor]) -> Tensor:
        """Their tensor from ours."""
        whole = torch.cat([ours[part] for part in self.parts])
        return whole.T if self.transposed else whole

    def split(self, theirs: Tensor) -> dict[str, Tensor]:
        """Our tensors from theirs."""
        whole = theirs.T if self.transposed else theirs
        return dict(zip(self.parts, whole.chunk(len(self.parts)), strict=True))


MODEL_TYPE = "gpt2"
LAYER = {
    "ln_1": Made(("attention_residual.norm",)),
    "attn.c_attn": Made(("attention.query", "attention.key", "attention.value"), transposed=True),
    "attn.c_proj": Made(("attention.out",), transposed=True),
    "ln_2": Made(("feedforward_residual.norm",)),
    "mlp.c_fc": Made(("feedforward.inner",), transposed=True),
    "mlp.c_proj": Made(("feedforward.outer",), transposed=True),
}
PREFIX = "transformer."  # where there is a head beside it
TIED = "lm_head.weight"
EMBEDDING = "wte.weight"
BUFFERS = (".attn.bias", ".attn.masked_bias")  # masks, in files of old versions
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


def names(config: Gpt2Config) -> dict[str, Made]:
    """Hugging Face's tensors, by name, without the prefix."""
    table = {EMBEDDING: Made(("tokens.weight",)), "wpe.weight": Made(("positions.encoding.weight",))}
    modules = {"ln_f": Made(("norm",))}
    for layer in range(config.layers):
        for theirs, made in LAYER.items():
            modules[f"h.{layer}.{theirs}"] = made._replace(parts=tuple(f"layers.{layer}.{p}" for p in made.parts))
    for theirs, made in modules.items():
        table[f"{theirs}.weight"] = made._replace(parts=tuple(f"{part}.weight" for part in made.parts))
        table[f"{theirs}.bias"] = Made(tuple(f"{part}.bias" for part in made.parts))
    return table


# in


def read(folder: Path) -> tuple[Gpt2Config, dict[str, Tensor], dict[str, LosslessTokenizer]]:
    """A folder of Hugging Face's: config, weights and codecs."""
    theirs, tensors = read_json(folder / "config.json"), files.read_weights(folder)
    try:
        config = read_config(theirs)
        weights = read_weights(tensors, config)
    except RegardError as error:
        raise RegardError(f"{folder}: {error}") from None
    tokenizer = _read_tokenizer(folder)
    expect_room(folder, tokenizer.vocab_size, config.vocab_size)
    end = theirs.get("eos_token_id")
    # a config that nobody filled in names GPT-2's own, which a smaller table does not have
    if end is not None and end < config.vocab_size and end != tokenizer.end:
        raise RegardError(f"{folder}: texts end with token {end} (eos_token_id); only with {END!r} can it be converted")
    return config, weights, {"text": tokenizer}


def read_config(theirs: Mapping[str, Any]) -> Gpt2Config:
    """Our config for a GPT-2."""
    expect_only(theirs, ONLY)
    for architecture in theirs.get("architectures") or ():
        if architecture not in ARCHITECTURES:
            raise RegardError(f"no model of ours answers like {architecture}; known are {', '.join(ARCHITECTURES)}")
    activation = theirs.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        raise RegardError(f"activation_function = {activation!r} is not known; known are {', '.join(ACTIVATIONS)}")
    # our defaults are theirs, so that a key that an old version did not write yet may be missing
    known = {mine: theirs[key] for key, mine in FIELDS.items() if theirs.get(key) is not None}
    if "n_ctx" in theirs:
        known.setdefault("context", theirs["n_ctx"])
    data = {**known, "activation": ACTIVATIONS[activation]}
    config = parse(Gpt2Config, data, source="its config.json, in our names")
    return config if "ff_width" in known else replace(config, ff_width=4 * config.width)


def read_weights(theirs: Mapping[str, Tensor], config: Gpt2Config) -> dict[str, Tensor]:
    """Our tensors from Hugging Face's; what has no place is an error."""
    given = {name.removeprefix(PREFIX): tensor for name, tensor in theirs.items() if not name.endswith(BUFFERS)}
    if TIED in given:
        tensor = given.pop(TIED)
        if not torch.equal(given.setdefault(EMBEDDING, tensor).float(), tensor.float()):
            raise RegardError(f"{TIED} is not {EMBEDDING}; only an output layer tied to the embedding is known")
    table = names(config)
    with torch.device("meta"):
        wanted = config.build().state_dict()
    expect_tensors(given, {name: made.join(wanted) for name, made in table.items()}, "GPT-2")
    return {
        mine: part.float().contiguous()
        for name, made in table.items()
        for mine, part in made.split(given[name]).items()
    }


def _read_tokenizer(folder: Path) -> LosslessTokenizer:
    path = folder / "tokenizer_config.json"
    if path.is_file() and read_json(path).get("add_prefix_space"):
        raise RegardError(f"{path}: add_prefix_space = true; only texts as they are can be converted")
    if (folder / "tokenizer.json").is_file():
        return LosslessTokenizer.load(folder / "tokenizer.json")
    return ByteBpe.from_folder(folder)


# out


def write(
    folder: Path, config: Gpt2Config, weights: Mapping[str, Tensor], codecs: Mapping[str, LosslessTokenizer]
) -> None:
    """Writes a folder that `GPT2LMHeadModel.from_pretrained` and `AutoTokenizer.from_pretrained` open."""
    tokenizer = codecs["text"]
    write_tensors(folder / WEIGHTS, {f"{PREFIX}{name}": made.join(weights) for name, made in names(config).items()})
    activations = {mine: theirs for theirs, mine in ACTIVATIONS.items()}
    ends = {"bos_token_id": tokenizer.begin, "eos_token_id": tokenizer.end}
    about = {
        "architectures": ["GPT2LMHeadModel"],
        **ONLY,
        **{theirs: getattr(config, mine) for theirs, mine in FIELDS.items()},
        "activation_function": activations[config.activation],
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,  # our attention weights are never dropped
        **ends,
    }
    write_json(folder / "config.json", about)
    write_json(folder / "generation_config.json", ends)
    _write_tokenizer(folder, config, tokenizer)


def _write_tokenizer(folder: Path, config: Gpt2Config, tokenizer: LosslessTokenizer) -> None:
    tokenizer.save(folder / "tokenizer.json")
    end = None if tokenizer.end is None else tokenizer.engine.id_to_token(tokenizer.end)
    about = {"model_max_length": config.context, "bos_token": end, "eos_token": end, "unk_token": end}
    if isinstance(tokenizer, ByteBpe):
        merges = json.loads(tokenizer.to_json())["model"]["merges"]
        write_json(folder / "vocab.json", tokenizer.engine.get_vocab())
        text = "".join(f"{left} {right}\n" for left, right in merges)
        (folder / "merges.txt").write_text(f"#version: 0.2\n{text}", "utf-8")
        about |= {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False}
    else:
        about |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    write_json(folder / "tokenizer_config.json", about)
