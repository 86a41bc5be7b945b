"""Import and export of Hugging Face's BERT.

One table of tensor names and one of config keys serve both directions. The head follows from the architecture that
config.json names or, if it names none, from the names of the tensors.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Engine
from tokenizers import processors
from torch import Tensor

from regard.codecs.wordpiece import BEGIN, END, MASK, PAD_TOKEN, UNKNOWN, WordPiece
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
from regard.models.bert import BertConfig
from regard.models.heads import AnyHead, ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead
from regard.store.models import build_without_memory

(MODEL_TYPE,) = MODEL_TYPES = ("bert",)
MAX_LABELS = 100_000
LAYER = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "attention_residual.norm",
    "intermediate.dense": "feedforward.inner",
    "output.dense": "feedforward.outer",
    "output.LayerNorm": "feedforward_residual.norm",
}
TIED = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
BUFFERS = {"embeddings.position_ids", "embeddings.token_type_ids"}
POOLER = {"pooler.dense.weight", "pooler.dense.bias"}
FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "intermediate_size": "ff_width",
    "num_hidden_layers": "layers",
    "max_position_embeddings": "context",
    "type_vocab_size": "segments",
    "layer_norm_eps": "norm_eps",
    "hidden_dropout_prob": "dropout",
}
ARCHITECTURES = {
    "BertModel": "none",
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "pretraining",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "span",
}
NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
ONLY = {
    "model_type": MODEL_TYPE,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


def names(config: BertConfig) -> dict[str, str]:
    """Maps Hugging Face's tensor names to ours."""
    modules = {
        "embeddings.word_embeddings": "tokens",
        "embeddings.token_type_embeddings": "segments",
        "embeddings.position_embeddings": "positions.encoding",
        "embeddings.LayerNorm": "norm",
    }
    for layer in range(config.layers):
        modules |= {f"encoder.layer.{layer}.{theirs}": f"layers.{layer}.{mine}" for theirs, mine in LAYER.items()}
    if config.head.pooled:
        modules["pooler.dense"] = "pooler"
    if not isinstance(config.head, NoHead):
        modules = {f"bert.{theirs}": mine for theirs, mine in modules.items()}
    if isinstance(config.head, PretrainingHead):
        modules |= {"cls.predictions.transform.dense": "head.dense", "cls.predictions.transform.LayerNorm": "head.norm"}
        if config.head.pooled:
            modules["cls.seq_relationship"] = "head.next"
    elif not isinstance(config.head, NoHead):
        modules["qa_outputs" if config.head.kind == "span" else "classifier"] = "head.1"
    result = {
        f"{theirs}.{kind}": f"{mine}.{kind}"
        for theirs, mine in modules.items()
        for kind in (("weight",) if theirs.endswith("_embeddings") else ("weight", "bias"))
    }
    if isinstance(config.head, PretrainingHead):
        result["cls.predictions.bias"] = "head.bias"
    return result


def _canonical_name(name: str) -> str:
    """A tensor's name without the prefix of models with a head, and with today's names of layer norm parameters."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    return name.removeprefix("bert.")


# import


def read(folder: Path) -> tuple[BertConfig, dict[str, Tensor], dict[str, WordPiece]]:
    """Reads a Hugging Face folder: config, weights and codecs."""
    theirs = read_settings(folder / "config.json")
    tensors = files.read_weights(folder)
    try:
        expect_only(theirs, ONLY)
        config = read_config(theirs, tensors)
        weights = read_weights(tensors, config)
    except RegardError as error:
        raise RegardError(f"{folder}: {error}") from None
    return config, weights, {"text": read_tokenizer(folder, theirs, config.vocab_size)}


def read_config(theirs: Mapping[str, Any], tensors: Iterable[str]) -> BertConfig:
    """Converts a BERT's config.json; the names of its tensors help to determine its head."""
    head = _read_head(theirs, {_canonical_name(name) for name in tensors})
    return parse(
        BertConfig,
        {**read_hyperparameters(theirs, FIELDS), "head": head},
        source="config.json, with our key names",
    )


def read_hyperparameters(theirs: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """An encoder's hyperparameters from config.json, under our names."""
    activation = theirs.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise RegardError(f"hidden_act = {activation!r} is not supported; supported: {', '.join(ACTIVATIONS)}")
    # our defaults equal Hugging Face's, so keys that old versions did not write may be missing
    known = {mine: theirs[key] for key, mine in fields.items() if theirs.get(key) is not None}
    return {**known, "activation": ACTIVATIONS[activation]}


def _read_head(theirs: Mapping[str, Any], tensors: set[str]) -> dict[str, Any]:
    architecture = (theirs.get("architectures") or [_guess_architecture(tensors)])[0]
    if architecture not in ARCHITECTURES:
        raise RegardError(f"architecture {architecture} is not supported; supported: {', '.join(ARCHITECTURES)}")
    kind = ARCHITECTURES[architecture]
    if kind == "none":
        return {"kind": kind, "pooled": "pooler.dense.weight" in tensors}
    if kind == "pretraining":
        # the original BERTs are named BertForMaskedLM but also have the next-sentence head
        return {
            "kind": kind,
            "pooled": architecture == "BertForPreTraining" or "cls.seq_relationship.weight" in tensors,
        }
    return read_finetuned_head(theirs, kind)


def read_finetuned_head(theirs: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The config of a fine-tuned head: its labels, a number (regression) or a span."""
    if kind == "span":
        return {"kind": kind}
    labels, problem = _read_labels(theirs), theirs.get("problem_type")
    if kind == "tagging":
        return {"kind": kind, "labels": labels}
    if problem == "multi_label_classification" or (problem == "regression" and len(labels) > 1):
        raise RegardError(
            f"problem_type = {problem!r} with {len(labels)} labels is not supported; a text has one label or one number"
        )
    return {"kind": "regression"} if len(labels) == 1 else {"kind": kind, "labels": labels}


def _guess_architecture(tensors: set[str]) -> str:
    """Guesses the architecture from the names of its tensors."""
    if "cls.predictions.transform.dense.weight" in tensors:
        return "BertForMaskedLM"
    if "cls.seq_relationship.weight" in tensors:
        return "BertForNextSentencePrediction"
    if "qa_outputs.weight" in tensors:
        return "BertForQuestionAnswering"
    if "classifier.weight" not in tensors:
        return "BertModel"
    if "pooler.dense.weight" in tensors:
        # in old folders, taggers also have a pooler, which they do not use
        raise RegardError(
            "config.json names no architecture, so the classifier may be for texts or tokens; add "
            '"architectures": ["BertForSequenceClassification"] or ["BertForTokenClassification"]'
        )
    return "BertForTokenClassification"


def _read_labels(theirs: Mapping[str, Any]) -> list[str]:
    count = theirs.get("num_labels", 2)
    if not 0 < count <= MAX_LABELS:
        raise RegardError(f"num_labels = {count}; from 1 to {MAX_LABELS:,} can be converted")
    numbered = theirs.get("id2label") or {str(i): f"LABEL_{i}" for i in range(count)}
    if numbered.keys() != {str(i) for i in range(len(numbered))}:
        raise RegardError(
            f"id2label has the ids {', '.join(numbered)}; number its labels from 0 to {len(numbered) - 1}"
        )
    return [str(numbered[str(i)]) for i in range(len(numbered))]


def read_weights(theirs: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    """Converts Hugging Face's tensors to ours; missing and unexpected ones are an error."""
    given = drop_tied_copies({_canonical_name(name): tensor for name, tensor in theirs.items()})
    table = {_canonical_name(name): mine for name, mine in names(config).items()}
    # buffers are computed; a pooler that no head uses is ignored by Hugging Face's classes, too
    ignored = BUFFERS if config.head.pooled else BUFFERS | POOLER
    given = {name: tensor for name, tensor in given.items() if name not in ignored}
    expected = build_without_memory(config, given, "config.json").state_dict()
    expect_tensors(given, {name: expected[mine] for name, mine in table.items()}, "BERT")
    return {mine: given[name].float() for name, mine in table.items()}


def drop_tied_copies(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without the copies of tied ones."""
    result = dict(given)
    for copy, original in TIED.items():
        if copy in result:
            tensor = result.pop(copy)
            if not torch.equal(result.setdefault(original, tensor), tensor):
                raise RegardError(f"{copy} differs from {original}; only tied tensors can be converted")
    return result


def read_tokenizer(folder: Path, theirs: Mapping[str, Any], vocab_size: int) -> WordPiece:
    """Reads the tokenizer of a folder and checks that it fits the model's config and vocabulary size."""
    tokenizer = _read_tokenizer(folder)
    expect_rows(folder, tokenizer.vocab_size, vocab_size)
    pad = theirs.get("pad_token_id")
    if tokenizer.pad != (pad or 0):
        raise RegardError(
            f"{folder}: the padding token is {tokenizer.pad} in the tokenizer, but {pad or 0} in config.json; "
            f"if both belong to the same model, correct pad_token_id in config.json"
        )
    return tokenizer


def _read_tokenizer(folder: Path) -> WordPiece:
    path = folder / "tokenizer_config.json"
    settings = read_settings(path) if path.is_file() else {}
    if (folder / "tokenizer.json").is_file():
        tokenizer = WordPiece.load(folder / "tokenizer.json")
        for key, name in NORMALIZER.items():
            value = getattr(tokenizer.engine.normalizer, name)
            if settings.get(key, value) not in (value, None):
                raise RegardError(
                    f"{path}: {key} = {settings[key]}, but {name} = {value} in tokenizer.json; "
                    f"set both to the value that the model was trained with"
                )
        return tokenizer
    path = folder / "vocab.txt"
    try:
        tokens = path.read_text("utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise RegardError(f"{folder}: has neither tokenizer.json nor vocab.txt") from None
    except UnicodeDecodeError:
        raise RegardError(f"{path}: is not UTF-8") from None
    try:
        return WordPiece.from_vocabulary(
            tokens,
            lowercase=settings.get("do_lower_case", True),
            strip_accents=settings.get("strip_accents"),
            chinese=settings.get("tokenize_chinese_chars", True),
        )
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from None


# export


def write(folder: Path, config: BertConfig, weights: Mapping[str, Tensor], codecs: Mapping[str, WordPiece]) -> None:
    """Writes a folder for `from_pretrained` of the architecture's class and of `AutoTokenizer`.

    A model without head and pooler opens with `BertModel.from_pretrained(folder, add_pooling_layer=False)`.
    """
    write_tensors(folder / WEIGHTS, {theirs: weights[mine] for theirs, mine in names(config).items()})
    entries = {"architectures": [_architecture(config.head)], **ONLY, **encoder_entries(config, FIELDS)}
    write_json(folder / "config.json", {**entries, "pad_token_id": codecs["text"].pad})
    write_tokenizer(folder, codecs["text"], model_max_length=config.context)


def encoder_entries(config: Any, fields: Mapping[str, str]) -> dict[str, Any]:
    """The entries of config.json for an encoder's hyperparameters and its head."""
    activations = {mine: theirs for theirs, mine in ACTIVATIONS.items()}
    return {
        **{theirs: getattr(config, mine) for theirs, mine in fields.items()},
        "hidden_act": activations[config.activation],
        "attention_probs_dropout_prob": 0.0,  # Regard has no dropout on attention weights
        **_label_entries(config.head),
    }


def _architecture(head: AnyHead) -> str:
    if isinstance(head, PretrainingHead):
        return "BertForPreTraining" if head.pooled else "BertForMaskedLM"
    kind = "classification" if isinstance(head, RegressionHead) else head.kind
    return next(name for name, other in ARCHITECTURES.items() if other == kind)


def _label_entries(head: AnyHead) -> dict[str, Any]:
    problem_types = {"classification": "single_label_classification", "regression": "regression", "tagging": None}
    if head.kind not in problem_types:
        return {}
    labels = head.labels if isinstance(head, ClassificationHead | TaggingHead) else ("LABEL_0",)
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
        "problem_type": problem_types[head.kind],
    }


def write_tokenizer(folder: Path, tokenizer: WordPiece, **model_entries: Any) -> None:
    """Writes the files of a tokenizer; `model_entries` are added to tokenizer_config.json."""
    engine = Engine.from_str(tokenizer.to_json())
    engine.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        pair=f"{BEGIN} $A {END} $B:1 {END}:1",
        special_tokens=[(BEGIN, tokenizer.begin), (END, tokenizer.end)],
    )
    engine.save(str(folder / "tokenizer.json"))
    tokens = tokenizer.pieces(range(tokenizer.vocab_size))
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    settings = {
        "tokenizer_class": "BertTokenizer",
        # Hugging Face's library reads these here, not in tokenizer.json
        **{key: getattr(engine.normalizer, name) for key, name in NORMALIZER.items()},
        **model_entries,
        "pad_token": PAD_TOKEN,
        "unk_token": UNKNOWN,
        "cls_token": BEGIN,
        "sep_token": END,
        "mask_token": MASK,
    }
    write_json(folder / "tokenizer_config.json", settings)
