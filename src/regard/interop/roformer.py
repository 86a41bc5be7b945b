"""Hugging Face's RoFormer: its folders as our models, and our models as its folders.

One table of names serves both directions, as for BERT, whose layers have the same names. There, a text's classifier
holds what is our pooler. No class has a pooler without a classifier, or asks for the next sentence: such models are not
written. Angles are a table of float32, written as long as their default; ours are computed for any length.
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
from regard.interop.bert import LAYER, about_encoder, read_answers, read_shape, read_tokenizer, untied, write_tokenizer
from regard.interop.files import WEIGHTS, expect_only, expect_tensors, read_json, write_json
from regard.models.heads import ClassificationHead, NoHead, PretrainingHead, RegressionHead
from regard.models.roformer import RoFormerConfig

MODEL_TYPE = "roformer"
ANGLES, LENGTH = "encoder.embed_positions.weight", 1536
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
    """Hugging Face's names of our tensors."""
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
    """Their table: the sines of all angles of a position, then the cosines."""
    head_width = config.width // config.heads
    table_TK: Tensor = Sinusoidal(head_width, split=True)(torch.zeros(1, length, head_width))
    return table_TK


# in


def read(folder: Path) -> tuple[RoFormerConfig, dict[str, Tensor], dict[str, WordPiece]]:
    """A folder of Hugging Face's: config, weights and codecs."""
    theirs = read_json(folder / "config.json")
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
    """Our config for a RoFormer."""
    embedding, width = theirs.get("embedding_size"), theirs.get("hidden_size", 768)
    if embedding not in (None, width):
        raise RegardError(f"embedding_size = {embedding}, hidden_size = {width}; only equal ones can be converted")
    architecture = (theirs.get("architectures") or [None])[0]
    if architecture not in ARCHITECTURES:
        raise RegardError(f"no head of ours answers like {architecture}'s; known are {', '.join(ARCHITECTURES)}")
    kind = ARCHITECTURES[architecture]
    head = {"kind": kind, "pooled": False} if kind in ("none", "pretraining") else read_answers(theirs, kind)
    data = {**read_shape(theirs, FIELDS), "head": head}
    return parse(RoFormerConfig, data, source="its config.json, in our names")


def read_weights(theirs: Mapping[str, Tensor], config: RoFormerConfig) -> dict[str, Tensor]:
    """Our tensors from Hugging Face's; what has no place is an error."""
    prefix = f"{MODEL_TYPE}."
    given = untied({name.removeprefix(prefix): tensor for name, tensor in theirs.items()})
    if ANGLES in given:
        _expect_angles(given.pop(ANGLES), config)
    table = {name.removeprefix(prefix): mine for name, mine in names(config).items()}
    with torch.device("meta"):
        wanted = config.build().state_dict()
    expect_tensors(given, {name: wanted[mine] for name, mine in table.items()}, "RoFormer")
    return {mine: given[name].float() for name, mine in table.items()}


def _expect_angles(theirs: Tensor, config: RoFormerConfig) -> None:
    """Raises `RegardError` unless a table has the paper's angles, as far as its dtype, or float32, tells them."""
    own_TK = _angles(config, theirs.size(0) if theirs.dim() else 0)
    expect_tensors({ANGLES: theirs}, {ANGLES: own_TK}, "RoFormer")
    rounding = max(torch.finfo(dtype).eps for dtype in (theirs.dtype, torch.float32))
    if not torch.allclose(theirs.float(), own_TK, rtol=0, atol=rounding):
        raise RegardError(f"{ANGLES} has other angles than the paper's, which alone can be converted")


def _expect_wordpiece(folder: Path) -> None:
    """Raises `RegardError` unless the tokenizer is BERT's. RoFormer's own has the same files, but cuts by words."""
    path = folder / "tokenizer_config.json"
    kind = (read_json(path) if path.is_file() else {}).get("tokenizer_class", "RoFormerTokenizer")
    if kind not in ("BertTokenizer", "BertTokenizerFast"):
        raise RegardError(
            f"{path}: tokenizer_class = {kind!r} splits Chinese into words with rjieba, and no tokenizer here does; "
            f"if the model is for other texts, or was trained with BERT's tokenizer, write BertTokenizer there"
        )


# out


def write(folder: Path, config: RoFormerConfig, weights: Mapping[str, Tensor], codecs: Mapping[str, WordPiece]) -> None:
    """Writes a folder that `from_pretrained` opens, of the architecture's class and of `AutoTokenizer`."""
    if isinstance(config.head, NoHead | PretrainingHead) and config.head.pooled:
        raise RegardError(
            "Hugging Face's RoFormer has no pooler but in a classifier, and no head for the next sentence; pre-train "
            "with data.next_sentence=false to convert the model"
        )
    kind = "classification" if isinstance(config.head, RegressionHead) else config.head.kind
    tensors = {theirs: weights[mine] for theirs, mine in names(config).items()}
    like = tensors[f"{_prefix(config)}embeddings.word_embeddings.weight"]
    write_tensors(folder / WEIGHTS, {**tensors, f"{_prefix(config)}{ANGLES}": _angles(config, LENGTH).to(like.dtype)})
    about = {
        "architectures": [next(name for name, other in ARCHITECTURES.items() if other == kind)],
        **ONLY,
        **about_encoder(config, FIELDS),
        "embedding_size": config.width,
        "max_position_embeddings": LENGTH,
        "pad_token_id": codecs["text"].pad,
    }
    write_json(folder / "config.json", about)
    write_tokenizer(folder, codecs["text"], model_max_length=LENGTH)
