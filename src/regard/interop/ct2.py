"""CTranslate2: our models as its folders, which it runs in 8 bits faster than torch does in 32.

Its specification of a Transformer is filled from our modules directly. Positions become a table of `context` rows, but
for rotary ones, which it turns itself. What it cannot compute is refused.
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
    """Writes a model's weights, whole or in 8 bits, and its vocabulary as CTranslate2 reads them."""
    makers: dict[str, Callable[..., Any]] = {"transformer": _transformer, "gpt2": _gpt2, "bert": _bert}
    kind = model.config.kind
    if kind not in makers:
        raise RegardError(f"CTranslate2 does not know models of kind '{kind}'; those of {', '.join(makers)} it does")
    spec = makers[kind](model, model.config, **codecs)
    spec.validate()
    spec.optimize(quantization=quantize or "float32")
    spec.save(str(folder))


def _transformer(model: Any, config: TransformerConfig, source: Any, target: Any) -> Any:
    if config.norm != "layer":
        raise RegardError(f"CTranslate2 has no norm = '{config.norm}'; only models with norm = 'layer' are exported")
    if config.position_merge != "add":
        raise RegardError(
            f"CTranslate2 has no position_merge = '{config.position_merge}'; only models with 'add' are exported"
        )
    about: dict[str, Any] = {
        "num_heads": config.heads,
        "pre_norm": config.norm_placement == "pre",
        "activation": ACTIVATIONS[config.activation],
        "rotary_dim": config.width // config.heads if config.positions == "rotary" else None,
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(config.encoder_layers, **about),
        transformer_spec.TransformerDecoderSpec(config.decoder_layers, **about),
    )
    spec.encoder.embeddings[0].weight = _whole(model.source_embedding.weight)
    spec.decoder.embeddings.weight = _whole(model.target_embedding.weight)
    weight_VD, bias_V = model.output_parameters()
    spec.decoder.projection.weight = _whole(weight_VD)
    if bias_V is not None:
        spec.decoder.projection.bias = _whole(bias_V)
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
    # rows that stand for no token, which our completions leave out of account, are left out
    for table in (spec.decoder.embeddings, spec.decoder.projection):
        table.weight = _whole(model.tokens.weight[: text.vocab_size])
    spec.decoder.position_encodings.encodings = _table(model.positions, config)
    _layers(spec.decoder.layer, model.layers)
    _norm(spec.decoder.layer_norm, model.norm)
    names = text.names(text.vocab_size)
    spec.register_vocabulary(names)
    if text.end is not None:  # without one, the end is a token that CTranslate2 adds and nothing ever says
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
    encoder.embeddings[0].weight = _whole(model.tokens.weight)
    encoder.embeddings[1].weight = _whole(model.segments.weight)
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
    """Matrices that are multiplied with the same vectors are one matrix there."""
    *asking, out = spec.linear
    parts = attention.query, attention.key, attention.value
    for linear, some in zip(asking, [parts] if len(asking) == 1 else [parts[:1], parts[1:]], strict=True):
        _linear(linear, *some)
    _linear(out, attention.out)
    _norm(spec.layer_norm, norm)


def _linear(spec: Any, *linears: Any) -> None:
    spec.weight = _whole(torch.cat([linear.weight for linear in linears]))
    spec.bias = _whole(torch.cat([linear.bias for linear in linears]))


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _whole(norm.weight), _whole(norm.bias)


def _table(positions: nn.Module | None, config: Any) -> Tensor:
    """What is added to the vectors at each position, which is nothing where there are no positions."""
    nothing_1TD = torch.zeros(1, config.context, config.width)
    return _whole(nothing_1TD if positions is None else positions(nothing_1TD))[0]


def _whole(x: Tensor) -> Tensor:
    # a copy, or else it would be our model that is brought into 8 bits, in place
    return x.detach().float().clone(memory_format=torch.contiguous_format)
