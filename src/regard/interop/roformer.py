"""Import and export of Hugging Face's RoFormer.

One table of tensor names serves both directions; layers have the same names as in BERT. Hugging Face's classifier of
texts contains our pooler. No class there has a pooler without a classifier, or a next-sentence head: such models are
not exported. Angles are a float32 table there, exported with its default length; ours are computed for any length.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.blocks.positions import Sinusoidal
from regard.codecs.wordpiece import WordPiece
from regard.config import parse
from regard.errors import RegardError
from regard.folders import write_tensors
from regard.interop import files
from regard.interop.bert import (
    LAYER,
    drop_tied_copies,
    encoder_entries,
    read_finetuned_head,
    read_hyperparameters,
    read_tokenizer,
    write_tokenizer,
)
from regard.interop.files import WEIGHTS, expect_only, expect_tensors, read_settings, write_json
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, RegressionHead
from regard.models.roformer import RoFormerConfig
from regard.store.models import build_without_memory

(MODEL_TYPE,) = MODEL_TYPES = ("roformer",)
ANGLES, DEFAULT_LENGTH = "encoder.embed_positions.weight", 1536
FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "intermediate_size": "ff_width",
    "num_hidden_layers": "layers",
    "type_vocab_size": "segments",
    "layer_norm_eps": "norm_eps",
    "hidden_dropout_prob": "dropout",
}
ARCHITECTURES = {
    "RoFormerModel": "none",
    "RoFormerForMaskedLM": "pretraining",
    "RoFormerForSequenceClassification": "classification",
    "RoFormerForTokenClassification": "tagging",
    "RoFormerForQuestionAnswering": "span",
}
ONLY = {"model_type": MODEL_TYPE, "rotary_value": False, "is_decoder": False, "add_cross_attention": False}


def names(config: RoFormerConfig) -> dict[str, str]:
    """Maps Hugging Face's tensor names to ours."""
    head = config.head
    modules = {
        "embeddings.word_embeddings": "tokens",
        "embeddings.token_type_embeddings": "segments",
        "embeddings.LayerNorm": "norm",
    }
    for layer in range(config.layers):
        modules |= {f"encoder.layer.{layer}.{theirs}": f"layers.{layer}.{mine}" for theirs, mine in LAYER.items()}
    modules = {f"{_prefix(config)}{theirs}": mine for theirs, mine in modules.items()}
    if isinstance(head, PretrainingHead):
        modules |= {"cls.predictions.transform.dense": "head.dense", "cls.predictions.transform.LayerNorm": "head.norm"}
    elif isinstance(head, ClassificationHead | RegressionHead):
        modules |= {"classifier.dense": "pooler", "classifier.out_proj": "head.1"}
    elif not isinstance(head, NoHead):
        modules["qa_outputs" if head.kind == "span" else "classifier"] = "head.1"
    result = {
        f"{theirs}.{kind}": f"{mine}.{kind}"
        for theirs, mine in modules.items()
        for kind in (("weight",) if theirs.endswith("_embeddings") else ("weight", "bias"))
    }
    if isinstance(head, PretrainingHead):
        result["cls.predictions.bias"] = "head.bias"
    return result


def _prefix(config: RoFormerConfig) -> str:
    return "" if isinstance(config.head, NoHead) else f"{MODEL_TYPE}."


def _angles(config: RoFormerConfig, length: int) -> Tensor:
    """Hugging Face's table: for each position, the sines of all angles, then the cosines."""
    head_width = config.width // config.heads
    table_TK: Tensor = Sinusoidal(head_width, split=True)(torch.zeros(1, length, head_width))
    return table_TK


# import


def read(folder: Path) -> tuple[RoFormerConfig, dict[str, Tensor], dict[str, WordPiece]]:
    """Reads a Hugging Face folder: config, weights and codecs."""
    theirs = read_settings(folder / "config.json")
    tensors = files.read_weights(folder)
    try:
        expect_only(theirs, ONLY)
        config = read_config(theirs)
        weights = read_weights(tensors, config)
    except RegardError as error:
        raise RegardError(f"{folder}: {error}") from None
    _expect_wordpiece(folder)
    return config, weights, {"text": read_tokenizer(folder, theirs, config.vocab_size)}


def read_config(theirs: Mapping[str, Any]) -> RoFormerConfig:
    """Converts a RoFormer's config.json."""
    embedding, width = theirs.get("embedding_size"), theirs.get("hidden_size", 768)
    if embedding not in (None, width):
        raise RegardError(
            f"embedding_size = {embedding} differs from hidden_size = {width}; only equal ones can be converted"
        )
    architecture = (theirs.get("architectures") or [None])[0]
    if architecture not in ARCHITECTURES:
        raise RegardError(f"architecture {architecture} is not supported; supported: {', '.join(ARCHITECTURES)}")
    kind = ARCHITECTURES[architecture]
    head = {"kind": kind, "pooled": False} if kind in ("none", "pretraining") else read_finetuned_head(theirs, kind)
    data = {**read_hyperparameters(theirs, FIELDS), "head": head}
    return parse(RoFormerConfig, data, source="config.json, with our key names")


def read_weights(theirs: Mapping[str, Tensor], config: RoFormerConfig) -> dict[str, Tensor]:
    """Converts Hugging Face's tensors to ours; missing and unexpected ones are an error."""
    prefix = f"{MODEL_TYPE}."
    given = drop_tied_copies({name.removeprefix(prefix): tensor for name, tensor in theirs.items()})
    if ANGLES in given:
        _expect_angles(given.pop(ANGLES), config)
    table = {name.removeprefix(prefix): mine for name, mine in names(config).items()}
    expected = build_without_memory(config, given, "config.json").state_dict()
    expect_tensors(given, {name: expected[mine] for name, mine in table.items()}, "RoFormer")
    return {mine: given[name].float() for name, mine in table.items()}


def _expect_angles(theirs: Tensor, config: RoFormerConfig) -> None:
    """Raises `RegardError` unless a table has the paper's angles, up to rounding in its dtype or in float32."""
    length = theirs.size(0) if theirs.dim() else 0
    # before the table is computed, whose width config.json determines
    expect_tensors(
        {ANGLES: theirs}, {ANGLES: torch.empty(length, config.width // config.heads, device="meta")}, "RoFormer"
    )
    expected_TK = _angles(config, length)
    rounding = max(torch.finfo(dtype).eps for dtype in (theirs.dtype, torch.float32))
    if not torch.allclose(theirs.float(), expected_TK, rtol=0, atol=rounding):
        raise RegardError(f"{ANGLES} differs from the paper's angles; only those can be converted")


def _expect_wordpiece(folder: Path) -> None:
    """Raises `RegardError` unless the tokenizer is BERT's; RoFormer's, in the same files, splits Chinese into words."""
    path = folder / "tokenizer_config.json"
    kind = (read_settings(path) if path.is_file() else {}).get("tokenizer_class", "RoFormerTokenizer")
    if kind not in ("BertTokenizer", "BertTokenizerFast"):
        raise RegardError(
            f"{path}: tokenizer_class = {kind!r} splits Chinese into words with rjieba, which is not supported; "
            f"if the model is for other languages or was trained with BERT's tokenizer, change it to BertTokenizer"
        )


# export


def write(folder: Path, config: RoFormerConfig, weights: Mapping[str, Tensor], codecs: Mapping[str, WordPiece]) -> None:
    """Writes a folder for `from_pretrained` of the architecture's class and of `AutoTokenizer`."""
    if isinstance(config.head, NoHead | PretrainingHead) and config.head.pooled:
        raise RegardError(
            "Hugging Face's RoFormer has a pooler only in a classifier, and no next-sentence head; to convert a model, "
            "pre-train it with data.next_sentence=false"
        )
    kind = "classification" if isinstance(config.head, RegressionHead) else config.head.kind
    tensors = {theirs: weights[mine] for theirs, mine in names(config).items()}
    embedding_VD = tensors[f"{_prefix(config)}embeddings.word_embeddings.weight"]
    write_tensors(
        folder / WEIGHTS,
        {**tensors, f"{_prefix(config)}{ANGLES}": _angles(config, DEFAULT_LENGTH).to(embedding_VD.dtype)},
    )
    entries = {
        "architectures": [next(name for name, other in ARCHITECTURES.items() if other == kind)],
        **ONLY,
        **encoder_entries(config, FIELDS),
        "embedding_size": config.width,
        "max_position_embeddings": DEFAULT_LENGTH,
        "pad_token_id": codecs["text"].pad,
    }
    write_json(folder / "config.json", entries)
    write_tokenizer(folder, codecs["text"], model_max_length=DEFAULT_LENGTH)
