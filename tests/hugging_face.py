"""BERT models of Hugging Face and of Regard, and their folders."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import assert_same, padded, randomise
from regard.codecs.wordpiece import WordPiece
from regard.interop import bert
from regard.models.bert import BertConfig
from regard.models.heads import (
    AnyHead,
    ClassificationHead,
    NoHead,
    PretrainingHead,
    RegressionHead,
    SpanHead,
    TaggingHead,
)

transformers = pytest.importorskip("transformers")

WORDS = ["the", "child", "eats", "##s", "##ing", "eat", "bread", "Bread", "é", "e", ".", "日", "a", "##b", "stone"]
TOKENS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
LABELS = {0: "bad", 1: "good", 2: "so so"}
# Regard's head, Hugging Face's class, and the keys of its config for the head
HEADS: dict[str, tuple[AnyHead, str, dict[str, Any]]] = {
    "vectors": (NoHead(), "BertModel", {}),
    "pre-training": (PretrainingHead(), "BertForPreTraining", {}),
    "words only": (PretrainingHead(pooled=False), "BertForMaskedLM", {}),
    "classes": (
        ClassificationHead(labels=tuple(LABELS.values())),
        "BertForSequenceClassification",
        {"id2label": LABELS},
    ),
    "a number": (RegressionHead(), "BertForSequenceClassification", {"num_labels": 1}),
    "tags": (TaggingHead(labels=tuple(LABELS.values())), "BertForTokenClassification", {"id2label": LABELS}),
    "a span": (SpanHead(), "BertForQuestionAnswering", {}),
}
kinds = pytest.mark.parametrize("kind", HEADS)


def make_theirs(name: str, **changes: Any) -> Any:
    shape = {
        "vocab_size": 24, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
        "max_position_embeddings": 12, "type_vocab_size": 2, "layer_norm_eps": 1e-3, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }  # fmt: skip
    config = transformers.BertConfig(**{**shape, **changes})
    return randomise(getattr(transformers, name)(config)).float().eval()


def write_theirs(folder: Path, model: Any) -> Path:
    """A folder as Hugging Face writes it."""
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", "utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    return folder


def open_ours(folder: Path) -> Any:
    config, weights, _ = bert.read(folder)
    model = config.build().eval()
    model.load_state_dict(weights)
    return model


def answer(theirs: Any, **inputs: Tensor) -> Tensor:
    """The output of Hugging Face's model, in the shape of Regard's."""
    found = theirs(**inputs)
    if "start_logits" in found:
        return torch.stack((found.start_logits, found.end_logits), dim=2)
    if "prediction_logits" in found:
        return found.prediction_logits
    logits = found.last_hidden_state if "last_hidden_state" in found else found.logits
    return logits if logits.dim() == 3 else logits[:, None]


@torch.no_grad()
def assert_same_logits(ours: Any, theirs: Any) -> None:
    tokens, is_padding = padded([9, 5, 2], vocab_size=24)
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0, 0], [0] * 9])
    inputs = {"input_ids": tokens, "token_type_ids": segments, "attention_mask": (~is_padding).long()}
    # In float64 only the order of additions matters, so a bug is not mistaken for rounding. Float32 has 24 bits; two
    # layers, each with sums over some dozen terms and a norm that may divide by a small number, lose about eight.
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 5e-5)):
        ours, theirs = ours.to(dtype), theirs.to(dtype)
        assert_same(ours(tokens, segments, is_padding), answer(theirs, **inputs), tolerance)
        if "seq_relationship_logits" in (found := theirs(**inputs)):
            mine = ours.head.next(ours.pool(ours.hidden(tokens, segments, is_padding)))[:, 0]
            assert_same(mine, found.seq_relationship_logits, tolerance)
        if "pooler_output" in found and found.pooler_output is not None:
            assert_same(ours.pool(ours.hidden(tokens, segments, is_padding))[:, 0], found.pooler_output, tolerance)


def wordpiece(**changes: Any) -> WordPiece:
    return WordPiece.from_vocabulary(TOKENS, **{"lowercase": True, "strip_accents": True, "chinese": True, **changes})


def make_ours(head: AnyHead, **changes: Any) -> Any:
    shape = {"width": 16, "heads": 4, "ff_width": 12, "layers": 2, "context": 12, "norm_eps": 1e-3, "dropout": 0.0}
    return randomise(BertConfig(vocab_size=24, head=head, **{**shape, **changes}).build()).float().eval()


def write_ours(folder: Path, model: Any, tokenizer: WordPiece | None = None) -> Path:
    folder.mkdir()
    bert.write(folder, model.config, model.state_dict(), {"text": tokenizer or wordpiece()})
    return folder
