"""Import and export of Hugging Face's Marian, the architecture of OPUS-MT.

One table of tensor names serves both directions. Token ids are reassigned on import: padding, beginning and end come
first, as everywhere in Regard. Marian starts a sentence with its padding token, so our beginning token gets the
embedding of Marian's padding token.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine
from torch import Tensor

from regard.codecs.subword import BEGIN, END, FOREIGN, PAD_ID, SubwordTokenizer
from regard.codecs.tokenizer import library_errors
from regard.codecs.tokenizer_file import expect_short, expect_short_replacements
from regard.errors import RegardError
from regard.folders import read_tensors, write_tensors
from regard.interop import sentencepiece
from regard.interop.files import ACTIVATIONS, expect_tensors, read_settings, read_vocabulary, write_json
from regard.interop.sentencepiece import SentencePiece
from regard.models.transformer import TransformerConfig
from regard.store.models import build_without_memory

(MODEL_TYPE,) = MODEL_TYPES = ("marian",)
MAX_VOCABULARY = 10**6
UNKNOWN_PENALTY = 10.0  # SentencePiece scores an unknown character this much below the lowest piece
IMPOSSIBLE = -6e4  # a logit with probability 0 that 16 bits can represent
UNKNOWN = "<unk>"
LAYER = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.out_proj": "attention.out",
    "self_attn_layer_norm": "attention_residual.norm",
    "encoder_attn.q_proj": "cross.query",
    "encoder_attn.k_proj": "cross.key",
    "encoder_attn.v_proj": "cross.value",
    "encoder_attn.out_proj": "cross.out",
    "encoder_attn_layer_norm": "cross_residual.norm",
    "fc1": "feedforward.inner",
    "fc2": "feedforward.outer",
    "final_layer_norm": "feedforward_residual.norm",
}
OPTIONAL = {  # second names of an embedding, and positions, which we compute
    "lm_head.weight",
    "model.shared.weight",
    *(f"model.{half}.embed_{what}.weight" for half in ("encoder", "decoder") for what in ("tokens", "positions")),
}


def names(config: TransformerConfig) -> dict[str, str]:
    """Maps Marian's tensor names to ours."""
    result = {"final_logits_bias": "output_bias"}
    if config.source_vocab_size is None and config.tied:
        result["model.shared.weight"] = "target_embedding.weight"
    else:
        source = "target_embedding" if config.source_vocab_size is None else "source_embedding"
        result["model.encoder.embed_tokens.weight"] = f"{source}.weight"
        result["model.decoder.embed_tokens.weight"] = "target_embedding.weight"
    if not config.tied:
        result["lm_head.weight"] = "output.weight"
    for half, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for layer in range(layers):
            for theirs, mine in LAYER.items():
                if half == "decoder" or not theirs.startswith("encoder_attn"):
                    for kind in ("weight", "bias"):
                        result[f"model.{half}.layers.{layer}.{theirs}.{kind}"] = f"{half}.layers.{layer}.{mine}.{kind}"
    return result


# import


def read_config(theirs: Mapping[str, Any], order: "TokenOrder") -> TransformerConfig:
    """Converts a Marian model's config.json."""
    get = theirs.get
    for name, expected, default in (("scale_embedding", True, False), ("static_position_embeddings", True, True)):
        if get(name, default) is not expected:
            raise RegardError(f"{name} = {get(name, default)}; only {expected} can be converted")
    for name in ("attention_heads", "ffn_dim"):
        if theirs[f"encoder_{name}"] != theirs[f"decoder_{name}"]:
            raise RegardError(f"encoder_{name} and decoder_{name} differ; only equal ones can be converted")
    if get("activation_function", "gelu") not in ACTIVATIONS:
        supported = ", ".join(ACTIVATIONS)
        raise RegardError(
            f"activation_function = {theirs['activation_function']!r} is not supported; supported: {supported}"
        )
    tied = get("tie_word_embeddings", True)
    # if the output layer is not tied, source and target have separate embeddings, too
    shared = get("share_encoder_decoder_embeddings", True) and tied
    return TransformerConfig(
        vocab_size=len(order.target),
        source_vocab_size=None if shared else len(order.source),
        width=theirs["d_model"],
        heads=theirs["encoder_attention_heads"],
        ff_width=theirs["encoder_ffn_dim"],
        encoder_layers=theirs["encoder_layers"],
        decoder_layers=theirs["decoder_layers"],
        positions="sinusoidal_split",
        norm_placement="post",
        activation=ACTIVATIONS[get("activation_function", "gelu")],  # type: ignore[arg-type]
        dropout=get("dropout", 0.1),
        tied=tied,
        output_bias=True,
    )


def write_config(config: TransformerConfig) -> dict[str, Any]:
    """Marian's config.json for our config."""
    activations = {mine: theirs for theirs, mine in ACTIVATIONS.items()}
    return {
        "architectures": ["MarianMTModel"],
        "model_type": MODEL_TYPE,
        "vocab_size": config.source_vocab_size or config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "share_encoder_decoder_embeddings": config.source_vocab_size is None and config.tied,
        "tie_word_embeddings": config.tied,
        "d_model": config.width,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.ff_width,
        "decoder_ffn_dim": config.ff_width,
        "activation_function": activations[config.activation],
        "dropout": config.dropout,
        "max_position_embeddings": config.context,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "pad_token_id": PAD_ID,
        "decoder_start_token_id": BEGIN,
        "eos_token_id": END,
        "forced_eos_token_id": None,
        "bos_token_id": None,
    }


class TokenOrder:
    """Marian's token ids in the order of ours, for source and target."""

    def __init__(self, theirs: Mapping[str, Any]) -> None:
        pad, end = theirs["pad_token_id"], theirs["eos_token_id"]
        begin = theirs.get("decoder_start_token_id", pad)
        sizes = {"source": theirs["vocab_size"], "target": theirs.get("decoder_vocab_size", theirs["vocab_size"])}
        first = (pad, begin, end)
        for size in sizes.values():
            if not 0 < size <= MAX_VOCABULARY or not all(0 <= token < size for token in first):
                raise RegardError(
                    f"a vocabulary of {size:,} tokens with the special tokens {first} cannot be converted"
                )
        self.source, self.target = (
            [*first, *(token for token in range(sizes[side]) if token not in first)] for side in ("source", "target")
        )


def read_weights(theirs: Mapping[str, Tensor], config: TransformerConfig, order: TokenOrder) -> dict[str, Tensor]:
    """Converts Marian's tensors to ours; missing and unexpected ones are an error."""
    table = names(config)
    # one embedding may be stored under several names, and positions may be stored or not
    given = {name: tensor for name, tensor in theirs.items() if name in table or name not in OPTIONAL}
    for name in ("model.shared.weight", "model.decoder.embed_tokens.weight"):
        for other in ("model.decoder.embed_tokens.weight", "lm_head.weight") if config.tied and name in table else ():
            if name not in given and other in theirs:
                given[name] = theirs[other]
    missing, unexpected = sorted(table.keys() - given.keys()), sorted(given.keys() - table.keys())
    if missing or unexpected:
        raise RegardError(
            f"not a Marian model with this config.json: missing {missing[:5]}; unexpected {unexpected[:5]}"
        )
    orders = {
        "output_bias": order.target,
        "target_embedding.weight": order.target,
        "source_embedding.weight": order.source,
        "output.weight": order.target,
    }
    expected = dict(build_without_memory(config, given, "config.json").state_dict())
    for mine, side in orders.items():
        if mine in expected:  # if our beginning token is Marian's padding token, Marian has one row less
            expected[mine] = expected[mine][: max(side) + 1]
    expected["output_bias"] = expected["output_bias"][None]
    expect_tensors(
        {name: given[name] for name in table}, {name: expected[mine] for name, mine in table.items()}, "Marian"
    )
    weights = {mine: given[name].float() for name, mine in table.items()}
    weights["output_bias"] = weights["output_bias"].flatten()
    for mine, side in orders.items():
        if mine in weights:
            weights[mine] = weights[mine][side]
    weights["output_bias"][[PAD_ID, BEGIN]] = IMPOSSIBLE  # Marian's settings forbid generating padding
    return weights


def make_tokenizer(model: SentencePiece, vocabulary: Mapping[str, int], order: list[int]) -> SubwordTokenizer:
    """A tokenizer with our token ids, for the pieces of one language in a vocabulary that both may share."""
    piece_by_id = {number: piece for piece, number in vocabulary.items()}
    min_score = min(model.pieces.values())
    entries: list[tuple[str, float]] = []
    for mine, theirs in enumerate(order):
        piece = piece_by_id.get(theirs, "")
        if mine > END and piece in model.pieces:
            entries.append((piece, model.pieces[piece]))
        elif mine > END and len(piece) == 1:
            entries.append((piece, min_score - UNKNOWN_PENALTY))  # of the other language, preferred to <unk>
        else:
            # other tokens get a name that occurs in no text, except language tokens such as >>fra<<
            entries.append((piece if _is_language_token(piece) else FOREIGN + (piece or f"<{mine}>"), min_score))
    if order[BEGIN] == order[PAD_ID]:
        entries[BEGIN] = (FOREIGN + "<s>", min_score)
    if vocabulary[UNKNOWN] not in order:
        raise RegardError(f"vocab.json: {UNKNOWN} has the id {vocabulary[UNKNOWN]}, which config.json does not have")
    unknown = order.index(vocabulary[UNKNOWN])
    with library_errors():
        engine = Engine(models.Unigram(entries, unknown, byte_fallback=False))
    steps: list[Any] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.strips:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    engine.normalizer = normalizers.Sequence(steps)
    engine.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=False)
    engine.decoder = decoders.Sequence(
        [decoders.Replace(FOREIGN, ""), decoders.Metaspace("▁", prepend_scheme="always")]
    )
    engine.add_special_tokens([entries[mine][0] for mine in (PAD_ID, BEGIN, END, unknown)])
    engine.add_tokens([AddedToken(piece, normalized=False) for piece in vocabulary if _is_language_token(piece)])
    return SubwordTokenizer(engine)


def _is_language_token(piece: str) -> bool:
    """Whether a piece is a language token, which sets the target language of a multilingual model."""
    return piece.startswith(">>") and piece.endswith("<<")


def read(folder: Path) -> tuple[TransformerConfig, dict[str, Tensor], dict[str, SubwordTokenizer]]:
    """Reads a Hugging Face folder: config, weights, and the tokenizers of source and target."""
    theirs = read_settings(folder / "config.json")
    if not (folder / "model.safetensors").is_file():
        raise RegardError(
            f"{folder}: has no model.safetensors. Pickled weights are not opened, because they can run any code; "
            f"to convert them, if you trust them: MarianMTModel.from_pretrained(...).save_pretrained(...)"
        )
    try:
        return _read(folder, theirs)
    except RegardError as error:
        raise RegardError(f"{folder}: {error}") from None
    except KeyError as error:
        raise RegardError(f"{folder}: config.json or vocab.json lacks {error}") from None


def _read(
    folder: Path, theirs: Mapping[str, Any]
) -> tuple[TransformerConfig, dict[str, Tensor], dict[str, SubwordTokenizer]]:
    order = TokenOrder(theirs)
    config = read_config(theirs, order)
    weights = read_weights(read_tensors(folder / "model.safetensors"), config, order)
    if (folder / "tokenizer.json").is_file() and not (folder / "source.spm").is_file():
        if any(ids != list(range(len(ids))) for ids in (order.source, order.target)):
            raise RegardError(
                f"{folder}: has no source.spm, and its tokenizer.json was not written by Regard; "
                f"add the SentencePiece files of the model"
            )
        tokenizer = SubwordTokenizer.load(folder / "tokenizer.json")
        return config, weights, {"source": tokenizer, "target": tokenizer}
    vocabularies = [read_vocabulary(folder / "vocab.json")]
    if (folder / "target_vocab.json").is_file():
        vocabularies.append(read_vocabulary(folder / "target_vocab.json"))
    source = make_tokenizer(_read_pieces(folder / "source.spm"), vocabularies[0], order.source)
    target = make_tokenizer(_read_pieces(folder / "target.spm"), vocabularies[-1], order.target)
    return config, weights, {"source": source, "target": target}


def _read_pieces(path: Path) -> SentencePiece:
    try:
        model = sentencepiece.read(path.read_bytes())
        expect_short(model.pieces)
        expect_short_replacements(model.charsmap)
        return model
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file") from None
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from None


# export


def write(
    folder: Path, config: TransformerConfig, weights: Mapping[str, Tensor], codecs: Mapping[str, SubwordTokenizer]
) -> None:
    """Writes a folder for `MarianMTModel.from_pretrained` and `AutoTokenizer.from_pretrained`."""
    wanted = {"positions": "sinusoidal_split", "norm_placement": "post", "norm": "layer", "position_merge": "add"}
    differing = [
        f"model.{name} = {getattr(config, name)!r}" for name in wanted if getattr(config, name) != wanted[name]
    ]
    if differing:
        remedy = " ".join(f"model.{name}={value}" for name, value in wanted.items())
        raise RegardError(
            f"Marian does not support {', '.join(differing)}; to convert a model, train it with {remedy}, as in the "
            f"recipe translate/marian"
        )
    bias = weights.get("output_bias", torch.zeros(config.vocab_size))
    tensors = {"output_bias": bias[None], **{name: t for name, t in weights.items() if name != "output_bias"}}
    write_tensors(folder / "model.safetensors", {name: tensors[mine].clone() for name, mine in names(config).items()})
    write_json(folder / "config.json", write_config(config))
    generation = {"pad_token_id": PAD_ID, "decoder_start_token_id": BEGIN, "eos_token_id": END, "num_beams": 4}
    write_json(
        folder / "generation_config.json", {**generation, "bad_words_ids": [[PAD_ID], [BEGIN]], "max_length": 512}
    )
    _write_tokenizers(folder, codecs["source"], codecs["target"])


def _write_tokenizers(folder: Path, source: SubwordTokenizer, target: SubwordTokenizer) -> None:
    engines = [json.loads(tokenizer.to_json()) for tokenizer in (source, target)]
    specials = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": UNKNOWN}
    if engines[0]["model"]["type"] == "Unigram" and engines[0]["model"]["vocab"][PAD_ID][0].startswith(FOREIGN):
        # SentencePiece vocabularies, imported from a Marian folder
        vocabularies = [
            {piece.removeprefix(FOREIGN): number for number, (piece, _) in enumerate(engine["model"]["vocab"])}
            for engine in engines
        ]
        write_json(folder / "vocab.json", vocabularies[0])
        separate = vocabularies[0] != vocabularies[1]
        if separate:
            write_json(folder / "target_vocab.json", vocabularies[1])
        for name, engine in (("source.spm", engines[0]), ("target.spm", engines[1])):
            (folder / name).write_bytes(sentencepiece.write(_pieces(engine)))
        about = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, **specials}
        write_json(folder / "tokenizer_config.json", about)
        return
    if source is not target:
        raise RegardError(
            "Hugging Face has no tokenizer for two byte-level vocabularies; a model trained with tokenizer.joint=true "
            "can be converted, such as one of the recipe translate/marian"
        )
    engine = Engine.from_str(source.to_json())
    engine.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", END)])
    engine.save(str(folder / "tokenizer.json"))
    specials.pop("unk_token")  # a byte-level vocabulary represents every text
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **specials})


def _pieces(engine: Mapping[str, Any]) -> SentencePiece:
    named = {
        p: score for p, score in engine["model"]["vocab"] if not p.startswith(FOREIGN) and not _is_language_token(p)
    }
    min_score = min(score for piece, score in named.items() if len(piece) > 1)
    pieces = {piece: score for piece, score in named.items() if score > min_score - UNKNOWN_PENALTY}
    steps = {step["type"]: step for step in engine["normalizer"]["normalizers"]}
    charsmap = base64.b64decode(steps["Precompiled"]["precompiled_charsmap"]) if "Precompiled" in steps else b""
    return SentencePiece(pieces, charsmap, "Replace" in steps)
