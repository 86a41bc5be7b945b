"""Texts with labels for fine-tuning: the tasks of GLUE, and your own tables."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.codecs.wordpiece import WordPiece
from regard.config import Config, FilePath, Positive
from regard.data import glue, sequences
from regard.data.batches import IGNORED, Batch, Indices, SameEachEpoch, given
from regard.data.corpus import file_hash
from regard.data.glue import GlueTask, table_task
from regard.data.held_out import Say, TrainingFiles
from regard.data.sequences import Encoded, MaxLength
from regard.data.tables import Example, read_table
from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class GlueConfig(Config):
    """One of GLUE's tasks."""

    renamed: ClassVar = {"most": "max_examples", "longest": "max_length"}
    kind: Literal["glue"] = "glue"
    task: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte", "wnli"]
    """GLUE task. May also be set as `task` at the top level."""
    folder: FilePath = "glue"
    """Folder with a subfolder for each task, such as `SST-2`, which holds `train.tsv` and `dev.tsv` (or `.tsv.gz`)."""
    max_examples: Positive | None = None
    """Maximum number of training examples, taken at even intervals from the file."""
    max_length: MaxLength = 128
    """Maximum length in tokens; longer texts are truncated."""

    @property
    def question(self) -> GlueTask:
        """The task: labels, metrics and files."""
        return glue.TASKS[self.task]

    def paths(self) -> tuple[Path, Path]:
        """The training and the validation file."""
        one, other = (glue.find(Path(self.folder), self.question, split) for split in ("train", "dev"))
        return one, other

    def keys(self) -> list[str]:
        """Hashes of everything that the examples depend on."""
        return [file_hash(path) for path in self.paths()]

    def read(self, path: Path, say: Say = warnings.warn) -> list[Example]:
        """The examples of a file."""
        return list(glue.read(self.question, path, warn=say))

    def parts(self, say: Say) -> tuple[list[Example], list[Example]]:
        """The training examples and the validation examples."""
        train, valid = (self.read(path, say) for path in self.paths())
        return train, valid


@dataclass(frozen=True, kw_only=True)
class TableConfig(TrainingFiles):
    """Your own texts and labels, plain or `.gz`: TSV or CSV files with a header, or JSONL."""

    renamed: ClassVar = {"most": "max_examples", "numbers": "regression", "longest": "max_length"}
    kind: Literal["table"] = "table"
    texts: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("text",)
    """Text columns (in JSONL, keys): one, or two for pairs of texts."""
    label: str = "label"
    """Label column."""
    regression: bool = False
    """Regression: labels are numbers instead of class names."""
    max_examples: Positive | None = None
    """Maximum number of training examples, taken at even intervals from the file."""
    max_length: MaxLength = 128
    """Maximum length in tokens; longer texts are truncated."""

    @cached_property
    def question(self) -> GlueTask:
        """The task, with the labels of the training file."""
        examples = read_table(Path(self.train), self.texts, self.label, self.regression)
        labels = () if self.regression else tuple(sorted({str(example.label) for example in examples}))
        if len(labels) == 1:
            raise RegardError(f"{self.train}: all labels are {labels[0]!r}; there is nothing to learn")
        return table_task(self.texts, self.label, labels)

    def read(self, path: Path, _say: Say = warnings.warn) -> list[Example]:
        """The examples of a file."""
        return list(read_table(path, self.texts, self.label, self.regression, self.question.labels))


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Texts, each with the index of its label."""

    targets: ClassVar = {"label_B": IGNORED}
    tokens_BT: Tensor
    segments_BT: Tensor
    label_B: Tensor
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return given(self.tokens_BT, self.segments_BT, self.is_padding_BT)


@dataclass(frozen=True)
class RegressionBatch(LabelledBatch):
    """Texts, each with a number as the regression target."""

    targets: ClassVar = {"label_B": torch.nan}


class Labelled(SameEachEpoch):
    """Texts with labels; each epoch holds all of them."""

    def __init__(
        self,
        tokenizer: WordPiece,
        examples: Sequence[Example],
        labels: Sequence[str],
        max_length: int,
        source: str = "the texts",
    ) -> None:
        self.tokenizer = tokenizer
        self.encoded = sequences.encode(
            tokenizer, [e.text for e in examples], [e.second for e in examples], max_length=max_length
        )
        self.truncated = sum(e.is_truncated for e in self.encoded)
        self.answers = [str(example.label) for example in examples]
        numbers = [labels.index(answer) if labels else float(answer) for answer in self.answers]
        self.label_N = torch.tensor(numbers, dtype=torch.long if labels else torch.float32)
        self.lengths = np.array([[len(e.tokens)] for e in self.encoded], np.int32)
        if not len(self.encoded):
            raise RegardError(f"{source}: no texts with labels; the file has only a header")

    def fetch(self, indices: Indices) -> LabelledBatch:
        """The texts with these indices."""
        chosen: list[Encoded] = [self.encoded[i] for i in indices]
        kind = RegressionBatch if self.label_N.is_floating_point() else LabelledBatch
        texts = sequences.text_batch(self.tokenizer, chosen)
        label_B = self.label_N[torch.from_numpy(indices)]
        return kind(texts.tokens_BT, texts.segments_BT, label_B, texts.is_padding_BT)
