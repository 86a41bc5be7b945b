"""Import and export of Hugging Face's ViT and DeiT, with their image processors.

One table of tensor names and one of config keys serve both directions. DeiT is a ViT with a second class token, for
distillation, which may have a head of its own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.codecs.pixels import Pixels
from regard.config import parse
from regard.errors import RegardError
from regard.folders import write_tensors
from regard.interop import files
from regard.interop.files import ACTIVATIONS, WEIGHTS, expect_only, expect_tensors, read_settings, write_json
from regard.models.vit import ImageClassificationHead, VitConfig
from regard.store.models import build_without_memory

MODEL_TYPES = ("vit", "deit")
ARCHITECTURES = {
    "ViTForImageClassification": "none",
    "DeiTForImageClassification": "token",
    "DeiTForImageClassificationWithTeacher": "head",
}
"""By architecture, what our config calls its distillation."""
PROCESSORS = {"vit": "ViTImageProcessor", "deit": "DeiTImageProcessor"}
FIELDS = {
    "patch_size": "patch",
    "num_channels": "channels",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "intermediate_size": "ff_width",
    "num_hidden_layers": "layers",
    "layer_norm_eps": "norm_eps",
    "hidden_dropout_prob": "dropout",
}
DEFAULTS = {"image_size": 224, "patch_size": 16, "num_channels": 3, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0}
ONLY = {"qkv_bias": True}
LAYER = {
    "attention.attention.query": "attention.query",
    "attention.attention.key": "attention.key",
    "attention.attention.value": "attention.value",
    "attention.output.dense": "attention.out",
    "layernorm_before": "attention_residual.norm",
    "intermediate.dense": "feedforward.inner",
    "output.dense": "feedforward.outer",
    "layernorm_after": "feedforward_residual.norm",
}
CLASS, DISTILLATION, POSITIONS = (
    f"embeddings.{name}" for name in ("cls_token", "distillation_token", "position_embeddings")
)
PATCHES = "embeddings.patch_embeddings.projection.weight"
RESAMPLE = {2: "bilinear", 3: "bicubic"}
"""Pillow's numbers of the filters."""


def _type(config: VitConfig) -> str:
    return "vit" if config.distillation == "none" else "deit"


def names(config: VitConfig) -> dict[str, str]:
    """Hugging Face's names of our tensors, except those of the class tokens."""
    prefix = _type(config)
    modules = {"layernorm": "norm", "embeddings.patch_embeddings.projection": "embedding.stem.projection"}
    for layer in range(config.layers):
        modules |= {f"encoder.layer.{layer}.{theirs}": f"layers.{layer}.{mine}" for theirs, mine in LAYER.items()}
    modules = {f"{prefix}.{theirs}": mine for theirs, mine in modules.items()}
    if config.distillation == "head":
        modules |= {"cls_classifier": "head.1", "distillation_classifier": "distilled.1"}
    else:
        modules["classifier"] = "head.1"
    table = {f"{theirs}.{kind}": f"{mine}.{kind}" for theirs, mine in modules.items() for kind in ("weight", "bias")}
    return {**table, f"{prefix}.{POSITIONS}": "positions.encoding.weight"}


# import


def read(folder: Path) -> tuple[VitConfig, dict[str, Tensor], dict[str, Pixels]]:
    """Reads a Hugging Face folder: config, weights and the image codec."""
    theirs = {**DEFAULTS, **read_settings(folder / "config.json")}
    tensors = files.read_weights(folder)
    try:
        expect_only(theirs, ONLY)
        config = read_config(theirs)
        weights = read_weights(tensors, config)
        codec = read_codec(folder, config)
    except RegardError as error:
        raise RegardError(f"{folder}: {error}") from None
    return config, weights, {"image": codec}


def read_config(theirs: Mapping[str, Any]) -> VitConfig:
    """Converts a ViT's or a DeiT's config.json."""
    architecture = (theirs.get("architectures") or [None])[0]
    if architecture not in ARCHITECTURES:
        raise RegardError(f"architecture {architecture} is not supported; supported: {', '.join(ARCHITECTURES)}")
    activation = theirs.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise RegardError(f"hidden_act = {activation!r} is not supported; supported: {', '.join(ACTIVATIONS)}")
    labels = theirs.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    data = {
        **{mine: theirs[key] for key, mine in FIELDS.items() if key in theirs},
        "image_size": _pair(theirs["image_size"]),
        "activation": ACTIVATIONS[activation],
        "distillation": ARCHITECTURES[architecture],
        "head": {"kind": "classification", "labels": [labels[key] for key in sorted(labels, key=int)]},
    }
    return parse(VitConfig, data, source="config.json, with our key names")


def _pair(size: Any) -> list[Any]:
    return list(size) if isinstance(size, list | tuple) else [size, size]


def read_weights(theirs: Mapping[str, Tensor], config: VitConfig) -> dict[str, Tensor]:
    """Converts Hugging Face's tensors to ours; missing and unexpected ones are an error."""
    table, prefix = names(config), _type(config)
    expected = build_without_memory(config, theirs, "config.json").state_dict()
    like = {name: expected[mine] for name, mine in table.items()}
    token = expected["embedding.class_tokens"][:1, None]
    like |= dict.fromkeys(_class_tokens(config), token)
    like[f"{prefix}.{POSITIONS}"] = like[f"{prefix}.{POSITIONS}"][None]
    patch = like[f"{prefix}.{PATCHES}"]
    like[f"{prefix}.{PATCHES}"] = patch.unflatten(1, (config.channels, config.patch, config.patch))
    expect_tensors(theirs, like, "ViT")
    weights = {mine: theirs[name].reshape(expected[mine].shape).float() for name, mine in table.items()}
    tokens = torch.cat([theirs[name][0].float() for name in _class_tokens(config)])
    return {**weights, "embedding.class_tokens": tokens}


def _class_tokens(config: VitConfig) -> list[str]:
    """Hugging Face's names of the class tokens."""
    return [f"{_type(config)}.{name}" for name in (CLASS, DISTILLATION)[: config.extra]]


def read_codec(folder: Path, config: VitConfig) -> Pixels:
    """Converts an image processor; without one, pixels are scaled to −1 ... 1, as ViT's authors did."""
    path = folder / "preprocessor_config.json"
    theirs = read_settings(path) if path.is_file() else {}
    half = [0.5] * config.channels
    size = theirs.get("crop_size") if theirs.get("do_center_crop") else theirs.get("size")
    height, width = config.image_size
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        height, width = size["height"], size["width"]
    resample = theirs.get("resample", 2)
    if resample not in RESAMPLE:
        raise RegardError(f"{path}: resample = {resample!r} is not supported; supported: 2 (bilinear), 3 (bicubic)")
    data = {
        "height": height,
        "width": width,
        "channels": config.channels,
        "mean": theirs.get("image_mean", half),
        "spread": theirs.get("image_std", half),
        "fit": "crop" if theirs.get("do_center_crop") else "squash",
        "resample": RESAMPLE[resample],
    }
    return parse(Pixels, data, source=str(path))


# export


def write(folder: Path, config: VitConfig, weights: Mapping[str, Tensor], codecs: Mapping[str, Pixels]) -> None:
    """Writes a folder for `from_pretrained` of the architecture's class and of `AutoImageProcessor`."""
    wanted = {"stem": "linear", "pool": "class", "positions": "learned"}
    differing = [
        f"model.{name} = {getattr(config, name)!r}" for name in wanted if getattr(config, name) != wanted[name]
    ]
    if differing or not isinstance(config.head, ImageClassificationHead):
        remedy = " ".join(f"model.{name}={value}" for name, value in wanted.items())
        what = ", ".join(differing) or "models without a classification head"
        raise RegardError(f"Hugging Face's ViT does not support {what}; to convert a model, train it with {remedy}")
    prefix, codec = _type(config), codecs["image"]
    tensors = {theirs: weights[mine] for theirs, mine in names(config).items()}
    tensors[f"{prefix}.{POSITIONS}"] = tensors[f"{prefix}.{POSITIONS}"][None]
    shape = (config.channels, config.patch, config.patch)
    tensors[f"{prefix}.{PATCHES}"] = tensors[f"{prefix}.{PATCHES}"].unflatten(1, shape)
    for name, token_D in zip(_class_tokens(config), weights["embedding.class_tokens"], strict=True):
        tensors[name] = token_D.clone()[None, None]
    write_tensors(folder / WEIGHTS, tensors)
    activations = {mine: theirs for theirs, mine in ACTIVATIONS.items()}
    architecture = next(name for name, kind in ARCHITECTURES.items() if kind == config.distillation)
    write_json(
        folder / "config.json",
        {
            "architectures": [architecture],
            "model_type": prefix,
            **ONLY,
            **{theirs: getattr(config, mine) for theirs, mine in FIELDS.items()},
            "image_size": list(config.image_size),
            "attention_probs_dropout_prob": 0.0,  # Regard has no dropout on attention weights
            "hidden_act": activations[config.activation],
            "id2label": {str(i): label for i, label in enumerate(config.labels)},
            "label2id": {label: i for i, label in enumerate(config.labels)},
        },
    )
    write_json(folder / "preprocessor_config.json", _processor(prefix, codec))


def _processor(prefix: str, codec: Pixels) -> dict[str, Any]:
    size = {"height": codec.height, "width": codec.width}
    if codec.fit != "squash":
        # Hugging Face resizes the shorter side and crops only on request
        size_and_crop = {
            "size": {"shortest_edge": min(codec.height, codec.width)},
            "do_center_crop": True,
            "crop_size": size,
        }
    else:
        size_and_crop = {"size": size}
    numbers = {name: number for number, name in RESAMPLE.items()}
    return {
        "image_processor_type": PROCESSORS[prefix],
        "do_resize": True,
        **size_and_crop,
        "resample": numbers[codec.resample],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(codec.mean),
        "image_std": list(codec.spread),
    }
