"""Export to CTranslate2, which runs models in 8 bits faster than torch does in 32.

Our modules directly fill CTranslate2's specification of a Transformer. Positions become a table of `context` rows,
except rotary ones, which CTranslate2 computes itself. Models that it cannot compute are refused.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from ctranslate2.specs import common_spec, transformer_spec
from torch import Tensor, nn

from regard.codecs.subword import BEGIN, END, PAD_ID
from regard.errors import RegardError
from regard.models.bert import BertConfig
from regard.models.gpt2 import Gpt2Config
from regard.models.transformer import TransformerConfig

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_tanh": common_spec.Activation.GELUTanh,
    "swish": common_spec.Activation.SWISH,
}


def write(folder: Path, model: Any, codecs: Mapping[str, Any], quantize: str | None) -> None:
    """Writes a model's weights, in float32 or quantized, and its vocabulary in CTranslate2's format."""
    converters: dict[str, Callable[..., Any]] = {"transformer": _transformer, "gpt2": _gpt2, "bert": _bert}
    kind = model.config.kind
    if kind not in converters:
        raise RegardError(f"CTranslate2 does not support models of kind '{kind}'; supported: {', '.join(converters)}")
    spec = converters[kind](model, model.config, **codecs)
    spec.validate()
    spec.optimize(quantization=quantize or "float32")
    spec.save(str(folder))


def _transformer(model: Any, config: TransformerConfig, source: Any, target: Any) -> Any:
    if config.norm != "layer":
        raise RegardError(
            f"CTranslate2 does not support norm = '{config.norm}'; train with model.norm=layer to export the model"
        )
    if config.position_merge != "add":
        raise RegardError(
            f"CTranslate2 does not support position_merge = '{config.position_merge}'; "
            f"train with model.position_merge=add to export the model"
        )
    options: dict[str, Any] = {
        "num_heads": config.heads,
        "pre_norm": config.norm_placement == "pre",
        "activation": ACTIVATIONS[config.activation],
        "rotary_dim": config.width // config.heads if config.positions == "rotary" else None,
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(config.encoder_layers, **options),
        transformer_spec.TransformerDecoderSpec(config.decoder_layers, **options),
    )
    spec.encoder.embeddings[0].weight = _copy(model.source_embedding.weight)
    spec.decoder.embeddings.weight = _copy(model.target_embedding.weight)
    weight_VD, bias_V = model.output_parameters()
    spec.decoder.projection.weight = _copy(weight_VD)
    if bias_V is not None:
        spec.decoder.projection.bias = _copy(bias_V)
    for part, ours in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        if config.positions != "rotary":
            part.position_encodings.encodings = _table(ours.positions, config)
        _layers(part.layer, ours.layers)
        if ours.norm is not None:
            _norm(part.layer_norm, ours.norm)
    names = target.names(config.vocab_size)
    spec.register_source_vocabulary(source.names(config.source_vocab_size or config.vocab_size))
    spec.register_target_vocabulary(names)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = names[PAD_ID], names[BEGIN], names[END]
    spec.config.decoder_start_token = names[BEGIN]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.decoder.layers[0].attention_residual.norm.eps
    return spec


def _gpt2(model: Any, config: Gpt2Config, text: Any) -> Any:
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        config.layers, config.heads, activation=ACTIVATIONS[config.activation]
    )
    spec.decoder.scale_embeddings = False
    # rows without a token are left out; our own completion ignores them, too
    for table in (spec.decoder.embeddings, spec.decoder.projection):
        table.weight = _copy(model.tokens.weight[: text.vocab_size])
    spec.decoder.position_encodings.encodings = _table(model.positions, config)
    _layers(spec.decoder.layer, model.layers)
    _norm(spec.decoder.layer_norm, model.norm)
    names = text.names(text.vocab_size)
    spec.register_vocabulary(names)
    if text.end is not None:  # otherwise CTranslate2 adds an end token that is never generated
        spec.config.unk_token = spec.config.eos_token = names[text.end]
    spec.config.bos_token = names[text.begin]
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _bert(model: Any, config: BertConfig, text: Any) -> Any:
    encoder = transformer_spec.TransformerEncoderSpec(
        config.layers,
        config.heads,
        pre_norm=False,
        activation=ACTIVATIONS[config.activation],
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
        layernorm_embedding=True,
    )
    spec = transformer_spec.TransformerEncoderModelSpec(encoder, pooling_layer=config.head.pooled)
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = _copy(model.tokens.weight)
    encoder.embeddings[1].weight = _copy(model.segments.weight)
    encoder.position_encodings.encodings = _table(model.positions, config)
    _norm(encoder.layernorm_embedding, model.norm)
    _layers(encoder.layer, model.layers)
    if config.head.pooled:
        _linear(spec.pooler_dense, model.pooler)
    names = text.names(config.vocab_size)
    spec.register_vocabulary(names)
    spec.config.unk_token = names[text.unknown]
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _layers(specs: Iterable[Any], layers: Iterable[Any]) -> None:
    for spec, layer in zip(specs, layers, strict=True):
        _attention(spec.self_attention, layer.attention, layer.attention_residual.norm)
        if hasattr(spec, "attention"):
            _attention(spec.attention, layer.cross, layer.cross_residual.norm)
        _linear(spec.ffn.linear_0, layer.feedforward.inner)
        _linear(spec.ffn.linear_1, layer.feedforward.outer)
        _norm(spec.ffn.layer_norm, layer.feedforward_residual.norm)


def _attention(spec: Any, attention: Any, norm: nn.Module) -> None:
    """CTranslate2 stores matrices that are applied to the same vectors as one."""
    *merged, out = spec.linear
    parts = attention.query, attention.key, attention.value
    for linear, group in zip(merged, [parts] if len(merged) == 1 else [parts[:1], parts[1:]], strict=True):
        _linear(linear, *group)
    _linear(out, attention.out)
    _norm(spec.layer_norm, norm)


def _linear(spec: Any, *linears: Any) -> None:
    spec.weight = _copy(torch.cat([linear.weight for linear in linears]))
    spec.bias = _copy(torch.cat([linear.bias for linear in linears]))


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _table(positions: nn.Module | None, config: Any) -> Tensor:
    """The vector that is added at each position; zeros if the model adds none."""
    zeros_1TD = torch.zeros(1, config.context, config.width)
    return _copy(zeros_1TD if positions is None else positions(zeros_1TD))[0]


def _copy(x: Tensor) -> Tensor:
    # a copy, because quantization would change our model in place
    return x.detach().float().clone(memory_format=torch.contiguous_format)
