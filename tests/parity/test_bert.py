"""Regard's BERT gives the same logits as Hugging Face's."""

from pathlib import Path
from typing import Any

import pytest

from helpers import randomise
from hugging_face import (
    HEADS,
    LABELS,
    assert_same_logits,
    kinds,
    make_ours,
    make_theirs,
    open_ours,
    transformers,
    write_ours,
    write_theirs,
)
from regard.interop import bert
from regard.models.heads import ClassificationHead, NoHead, RegressionHead, TaggingHead


def open_theirs(folder: Path, name: str, **options: Any) -> Any:
    """The model; fails if Hugging Face reports missing or unexpected tensors."""
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True, **options)
    assert not any(info.values()), info
    return model.eval()


@kinds
def test_an_imported_model_has_the_same_logits(kind, tmp_path: Path) -> None:
    head, name, about = HEADS[kind]
    theirs = make_theirs(name, **about)
    ours = open_ours(write_theirs(tmp_path / "hf", theirs))
    assert ours.config.head == head
    assert_same_logits(ours, theirs)


@kinds
def test_an_exported_model_has_the_same_logits(kind, tmp_path: Path) -> None:
    head, name, _ = HEADS[kind]
    ours = make_ours(head)
    theirs = open_theirs(write_ours(tmp_path / "hf", ours), name)
    assert theirs.config.architectures == [name]
    assert_same_logits(ours, theirs)
    if isinstance(head, ClassificationHead | TaggingHead):
        assert theirs.config.id2label == LABELS
        assert theirs.config.label2id == {label: number for number, label in LABELS.items()}
    if isinstance(head, RegressionHead):
        assert (theirs.config.num_labels, theirs.config.problem_type) == (1, "regression")


def test_a_model_without_pooler_is_the_same_after_import_and_export(tmp_path: Path) -> None:
    config = make_theirs("BertModel").config
    theirs = randomise(transformers.BertModel(config, add_pooling_layer=False)).float().eval()
    ours = open_ours(write_theirs(tmp_path / "hf", theirs))
    assert ours.config.head == NoHead(pooled=False)
    assert_same_logits(ours, theirs)
    back = open_theirs(write_ours(tmp_path / "back", ours.float()), "BertModel", add_pooling_layer=False)
    assert_same_logits(ours, back)


@pytest.mark.parametrize("activation", bert.ACTIVATIONS)
def test_activations_are_the_same_after_import_and_export(activation, tmp_path: Path) -> None:
    theirs = make_theirs("BertForMaskedLM", hidden_act=activation)
    ours = open_ours(write_theirs(tmp_path / "hf", theirs))
    assert_same_logits(ours, theirs)
    assert_same_logits(ours, open_theirs(write_ours(tmp_path / "back", ours.float()), "BertForMaskedLM"))


@kinds
def test_the_name_map_has_every_tensor_once(kind) -> None:
    ours = make_ours(HEADS[kind][0])
    table = bert.names(ours.config)
    assert sorted(table.values()) == sorted(ours.state_dict())
