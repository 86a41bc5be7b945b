"""Hugging Face's BERT: its folders as our models, and our models as its folders.

One table of names serves both directions, and one of the config's keys. Which head a model has follows from the name of
its architecture; where config.json names none, by its tensors.
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
from regard.interop.files import ACTIVATIONS, WEIGHTS, expect_only, expect_room, expect_tensors, read_json, write_json
from regard.models.bert import BertConfig
from regard.models.heads import AnyHead, ClassificationHead, NoHead, PretrainingHead, RegressionHead, TaggingHead

MODEL_TYPE = "bert"
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
    """Hugging Face's names of our tensors."""
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


def _plain(name: str) -> str:
    """A tensor's name as any version writes it: without the prefix that a head brings, a norm's in today's words."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    return name.removeprefix("bert.")


# in


def read(folder: Path) -> tuple[BertConfig, dict[str, Tensor], dict[str, WordPiece]]:
    """A folder of Hugging Face's: config, weights and codecs."""
    theirs = read_json(folder / "config.json")
    tensors = files.read_weights(folder)
    try:
        expect_only(theirs, ONLY)
        config = read_config(theirs, tensors)
        weights = read_weights(tensors, config)
    except RegardError as error:
        raise RegardError(f"{folder}: {error}") from None
    return config, weights, {"text": read_tokenizer(folder, theirs, config.vocab_size)}


def read_config(theirs: Mapping[str, Any], tensors: Iterable[str]) -> BertConfig:
    """Our config for a BERT whose tensors have these names."""
    head = _read_head(theirs, {_plain(name) for name in tensors})
    return parse(BertConfig, {**read_shape(theirs, FIELDS), "head": head}, source="its config.json, in our names")


def read_shape(theirs: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """What a config says of an encoder, under our names."""
    activation = theirs.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise RegardError(f"hidden_act = {activation!r} is not known; known are {', '.join(ACTIVATIONS)}")
    # our defaults are theirs, so that a key that an old version did not write yet may be missing
    known = {mine: theirs[key] for key, mine in fields.items() if theirs.get(key) is not None}
    return {**known, "activation": ACTIVATIONS[activation]}


def _read_head(theirs: Mapping[str, Any], tensors: set[str]) -> dict[str, Any]:
    architecture = (theirs.get("architectures") or [_guess(tensors)])[0]
    if architecture not in ARCHITECTURES:
        raise RegardError(f"no head of ours answers like {architecture}'s; known are {', '.join(ARCHITECTURES)}")
    kind = ARCHITECTURES[architecture]
    if kind == "none":
        return {"kind": kind, "pooled": "pooler.dense.weight" in tensors}
    if kind == "pretraining":
        # the first BERTs are called BertForMaskedLM, but have the other head, too
        return {
            "kind": kind,
            "pooled": architecture == "BertForPreTraining" or "cls.seq_relationship.weight" in tensors,
        }
    return read_answers(theirs, kind)


def read_answers(theirs: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A head that is fine-tuned, of a kind that its architecture tells: it answers with labels, a number or a span."""
    if kind == "span":
        return {"kind": kind}
    labels, problem = _read_labels(theirs), theirs.get("problem_type")
    if kind == "tagging":
        return {"kind": kind, "labels": labels}
    if problem == "multi_label_classification" or (problem == "regression" and len(labels) > 1):
        raise RegardError(f"problem_type = {problem!r} with {len(labels)} labels: a text has one label, or one number")
    return {"kind": "regression"} if len(labels) == 1 else {"kind": kind, "labels": labels}


def _guess(tensors: set[str]) -> str:
    """The architecture that has these tensors."""
    if "cls.predictions.transform.dense.weight" in tensors:
        return "BertForMaskedLM"
    if "cls.seq_relationship.weight" in tensors:
        return "BertForNextSentencePrediction"
    if "qa_outputs.weight" in tensors:
        return "BertForQuestionAnswering"
    if "classifier.weight" not in tensors:
        return "BertModel"
    if "pooler.dense.weight" in tensors:
        # in old folders, taggers have a pooler that they do not use
        raise RegardError(
            "its config.json does not say whether the classifier is for texts or tokens; add "
            '"architectures": ["BertForSequenceClassification"] or ["BertForTokenClassification"]'
        )
    return "BertForTokenClassification"


def _read_labels(theirs: Mapping[str, Any]) -> list[str]:
    numbered = theirs.get("id2label") or {str(i): f"LABEL_{i}" for i in range(theirs.get("num_labels", 2))}
    if numbered.keys() != {str(i) for i in range(len(numbered))}:
        raise RegardError(f"id2label has the numbers {', '.join(numbered)}; {len(numbered)} labels count from 0")
    return [str(numbered[str(i)]) for i in range(len(numbered))]


def read_weights(theirs: Mapping[str, Tensor], config: BertConfig) -> dict[str, Tensor]:
    """Our tensors from Hugging Face's; what has no place is an error."""
    given = untied({_plain(name): tensor for name, tensor in theirs.items()})
    table = {_plain(name): mine for name, mine in names(config).items()}
    # positions are computed; and a pooler that no head uses is ignored by Hugging Face's classes, too
    idle = BUFFERS if config.head.pooled else BUFFERS | POOLER
    given = {name: tensor for name, tensor in given.items() if name not in idle}
    with torch.device("meta"):
        wanted = config.build().state_dict()
    expect_tensors(given, {name: wanted[mine] for name, mine in table.items()}, "BERT")
    return {mine: given[name].float() for name, mine in table.items()}


def untied(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors without the copies of those that are tied."""
    result = dict(given)
    for copy, original in TIED.items():
        if copy in result:
            tensor = result.pop(copy)
            if not torch.equal(result.setdefault(original, tensor), tensor):
                raise RegardError(f"{copy} is not {original}; only an output layer tied to the embedding is known")
    return result


def read_tokenizer(folder: Path, theirs: Mapping[str, Any], rows: int) -> WordPiece:
    """The tokenizer of a folder, which must fit its model's config and the rows of its table."""
    tokenizer = _read_tokenizer(folder)
    expect_room(folder, tokenizer.vocab_size, rows)
    pad = theirs.get("pad_token_id")
    if tokenizer.pad != (pad or 0):
        raise RegardError(
            f"{folder}: padding is {tokenizer.pad} to its tokenizer, to its model {pad or 0}; "
            f"correct pad_token_id in config.json, if both are of one model"
        )
    return tokenizer


def _read_tokenizer(folder: Path) -> WordPiece:
    path = folder / "tokenizer_config.json"
    about = read_json(path) if path.is_file() else {}
    if (folder / "tokenizer.json").is_file():
        tokenizer = WordPiece.load(folder / "tokenizer.json")
        for key, name in NORMALIZER.items():
            value = getattr(tokenizer.engine.normalizer, name)
            if about.get(key, value) not in (value, None):
                raise RegardError(
                    f"{path}: {key} = {about[key]}, but {name} = {value} in tokenizer.json; "
                    f"make both say what the model was trained with"
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
            lowercase=about.get("do_lower_case", True),
            strip_accents=about.get("strip_accents"),
            chinese=about.get("tokenize_chinese_chars", True),
        )
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from None


# out


def write(folder: Path, config: BertConfig, weights: Mapping[str, Tensor], codecs: Mapping[str, WordPiece]) -> None:
    """Writes a folder that `from_pretrained` opens, of the architecture's class and of `AutoTokenizer`.

    Without head and pooler, the class is `BertModel`, to be told `add_pooling_layer=False`.
    """
    write_tensors(folder / WEIGHTS, {theirs: weights[mine] for theirs, mine in names(config).items()})
    about = {"architectures": [_architecture(config.head)], **ONLY, **about_encoder(config, FIELDS)}
    write_json(folder / "config.json", {**about, "pad_token_id": codecs["text"].pad})
    write_tokenizer(folder, codecs["text"], model_max_length=config.context)


def about_encoder(config: Any, fields: Mapping[str, str]) -> dict[str, Any]:
    """What config.json says of an encoder's shape and of its head."""
    activations = {mine: theirs for theirs, mine in ACTIVATIONS.items()}
    return {
        **{theirs: getattr(config, mine) for theirs, mine in fields.items()},
        "hidden_act": activations[config.activation],
        "attention_probs_dropout_prob": 0.0,  # our attention weights are never dropped
        **_about_labels(config.head),
    }


def _architecture(head: AnyHead) -> str:
    if isinstance(head, PretrainingHead):
        return "BertForPreTraining" if head.pooled else "BertForMaskedLM"
    kind = "classification" if isinstance(head, RegressionHead) else head.kind
    return next(name for name, other in ARCHITECTURES.items() if other == kind)


def _about_labels(head: AnyHead) -> dict[str, Any]:
    problems = {"classification": "single_label_classification", "regression": "regression", "tagging": None}
    if head.kind not in problems:
        return {}
    labels = head.labels if isinstance(head, ClassificationHead | TaggingHead) else ("LABEL_0",)
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
        "problem_type": problems[head.kind],
    }


def write_tokenizer(folder: Path, tokenizer: WordPiece, **about_model: Any) -> None:
    """Writes the files of a tokenizer; what else they say of the model is given."""
    engine = Engine.from_str(tokenizer.to_json())
    engine.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        pair=f"{BEGIN} $A {END} $B:1 {END}:1",
        special_tokens=[(BEGIN, tokenizer.begin), (END, tokenizer.end)],
    )
    engine.save(str(folder / "tokenizer.json"))
    tokens = tokenizer.pieces(range(tokenizer.vocab_size))
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    about = {
        "tokenizer_class": "BertTokenizer",
        # Hugging Face's library takes these from here, not from tokenizer.json
        **{key: getattr(engine.normalizer, name) for key, name in NORMALIZER.items()},
        **about_model,
        "pad_token": PAD_TOKEN,
        "unk_token": UNKNOWN,
        "cls_token": BEGIN,
        "sep_token": END,
        "mask_token": MASK,
    }
    write_json(folder / "tokenizer_config.json", about)
