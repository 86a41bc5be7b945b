import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.batches import IGNORED
from regard.data.labelled import GlueConfig, Labelled, TableConfig
from regard.data.tables import Example
from texts import TOKENIZER

EXAMPLES = [Example("good food", None, "yes"), Example("bad weather", None, "no"), Example("", None, "yes")]


def test_batches_have_the_ids_of_labels() -> None:
    texts = Labelled(TOKENIZER, EXAMPLES, ("no", "yes"), max_length=12)
    assert texts.epoch(3).lengths.shape == (3, 1)
    assert texts.max_length == texts.lengths.max()
    batch = texts.fetch(np.array([2, 0]))
    assert batch.label_B.tolist() == [1, 1]
    assert batch.tokens_BT[0, :3].tolist() == [TOKENIZER.begin, TOKENIZER.end, TOKENIZER.pad]  # the empty text
    shared = batch.share(2, 3)
    assert shared.label_B.tolist() == [IGNORED]


def test_regression_targets_are_numbers() -> None:
    texts = Labelled(TOKENIZER, [Example("good food", "food", "3.5")], (), max_length=12)
    batch = texts.fetch(np.array([0]))
    assert torch.equal(batch.label_B, torch.tensor([3.5]))
    assert batch.share(1, 2).label_B.isnan().all()


def test_truncated_texts_are_counted() -> None:
    assert [len(tokens) for tokens in TOKENIZER.encode([example.text for example in EXAMPLES])] == [2, 2, 0]
    for max_length, truncated in ((4, 0), (3, 2)):
        assert Labelled(TOKENIZER, EXAMPLES, ("no", "yes"), max_length).truncated == truncated


def test_unknown_labels_are_reported_with_their_lines(tmp_path) -> None:
    for name, labels in (("train", "ab"), ("valid", "axbycyz")):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + "".join(f"word\t{label}\n" for label in labels))
    config = TableConfig(train=str(tmp_path / "train.tsv"), valid=str(tmp_path / "valid.tsv"))
    assert len(config.read(tmp_path / "train.tsv")) == 2
    unknown = re.escape(
        "unknown labels 'x' (line 3), 'y' (line 5), 'c' (line 6), 'z' (line 8); valid labels are 'a', 'b'"
    )
    with pytest.raises(ValueError, match=f"valid.tsv: {unknown}"):
        config.read(tmp_path / "valid.tsv")


def test_a_table_without_texts_is_an_error() -> None:
    with pytest.raises(ValueError, match="no texts with labels"):
        Labelled(TOKENIZER, [], ("yes",), max_length=12)


def test_a_custom_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("label\tbody\nspam\tbuy now\nham\thow are you\nspam\tfree\n")
    config = TableConfig(train=str(tmp_path / "a.tsv"), valid=str(tmp_path / "a.tsv"), texts=("body",))
    assert config.question.labels == ("ham", "spam")
    assert config.read(config.paths()[0])[1] == Example("how are you", None, "ham")
    with pytest.raises(ValueError, match=r"nowhere\.tsv: no such file"):
        TableConfig(train="nowhere.tsv", valid="nowhere.tsv").paths()
    (tmp_path / "b.tsv").write_text("label\ttext\nspam\tbuy now\n")
    with pytest.raises(ValueError, match="all labels are 'spam'; there is nothing to learn"):
        _ = TableConfig(train=str(tmp_path / "b.tsv"), valid="").question


def test_a_glue_task_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for name in ("train", "dev"):
        with gzip.open(folder / f"{name}.tsv.gz", "wt") as file:
            file.write("sentence\tlabel\na joy\t1\n")
    config = GlueConfig(task="sst2", folder=str(tmp_path))
    assert config.read(config.paths()[1]) == [Example("a joy", None, "positive")]
