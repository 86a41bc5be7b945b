"""Text classification and regression: a label or a number for each text or pair of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.codecs.interface import CodecExamples
from regard.config import Config
from regard.counts import counted
from regard.data import glue as tables
from regard.data.batches import BATCH_TOKENS, IGNORED, count_tokens
from regard.data.labelled import GlueConfig, Labelled, LabelledBatch, TableConfig
from regard.data.tables import Example, read_table
from regard.decoding.finite import finite
from regard.errors import RegardError
from regard.evaluation import glue
from regard.evaluation.comparison import Examples, percent, rows
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Inputs, Trace
from regard.models.heads import ClassificationHead, RegressionHead
from regard.tasks.embedding import Embedder
from regard.tasks.evaluation import EvaluatedWith, Evaluation
from regard.tasks.fine_tuning import check_rate
from regard.tasks.texts import as_given, expect_texts
from regard.training.setup import Setup
from regard.training.task import Curve, SummedLoss, Task, listed

METRICS = {
    "accuracy": "accuracy",
    "f1": "F1",
    "matthews": "Matthews' correlation",
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's correlation",
}


def answers(model: Any, batch: LabelledBatch) -> Tensor:
    """The model's output for each text: the logits of all labels, or one number."""
    answers_BTV: Tensor = model(*batch.inputs)
    return answers_BTV[:, 0]


def loss(answers_BV: Tensor, label_B: Tensor, label_smoothing: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed loss of the labelled texts (cross-entropy or squared error), and the sums to log."""
    labelled_B = has_label(label_B)
    answers_BV, label_B = answers_BV[labelled_B], label_B[labelled_B]
    if label_B.is_floating_point():
        squared = (answers_BV[:, 0] - label_B).square().sum()
        return squared, {"loss": squared.detach()}
    smooth = F.cross_entropy(answers_BV, label_B, reduction="sum", label_smoothing=label_smoothing)
    with torch.no_grad():
        plain = F.cross_entropy(answers_BV, label_B, reduction="sum")
        return smooth, {"loss": plain, "accuracy": (answers_BV.argmax(1) == label_B).sum()}


def has_label(label_B: Tensor) -> Tensor:
    """Mask of the texts that have a label."""
    return ~label_B.isnan() if label_B.is_floating_point() else label_B != IGNORED


@dataclass(frozen=True)
class Prediction:
    """The prediction for a text."""

    label: str | None
    """None for a regression task."""
    value: float
    """The probability of the label, or the predicted number."""
    probabilities: dict[str, float]
    """The probability of each label."""
    truncated: bool
    """Whether the text exceeded the maximum length of the model and was truncated."""

    @property
    def answer(self) -> str | float:
        """The label, or the number."""
        return self.value if self.label is None else self.label


@dataclass(frozen=True, kw_only=True)
class ClassificationSettings(Config):
    """The task and the columns of a table."""

    task: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "mnli-mm", "qnli", "rte", "wnli", "ax"] | None = None
    """The GLUE task of the table; leave it out for a table of your own."""
    texts: str = "text"
    """The text column in a table of your own; two columns, separated by a comma, for pairs of texts."""
    label: str = "label"
    """The label column in a table of your own."""

    @property
    def columns(self) -> list[str]:
        """The text columns."""
        return self.texts.split(",")


class Classifier(Embedder):
    """A BERT that classifies texts or pairs of texts."""

    evaluated_with: ClassVar = EvaluatedWith("a classifier", ("data",), ClassificationSettings)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; empty for a regression task."""
        return tuple(self.model.config.labels)

    @property
    def pairs(self) -> bool | None:
        """Whether it was trained on pairs of texts; None if unknown."""
        found: bool | None = self.model.config.head.pairs
        return found

    @overload
    def classify(self, texts: str, seconds: str | None = None, *, batch_tokens: int = BATCH_TOKENS) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def classify(
        self, texts: Sequence[str], seconds: Sequence[str | None] | None = None, *, batch_tokens: int = BATCH_TOKENS
    ) -> list[Prediction]: ...

    def classify(
        self,
        texts: str | Sequence[str],
        seconds: str | Sequence[str | None] | None = None,
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Any:
        """A prediction for each text or pair of texts."""
        others = [seconds] if isinstance(seconds, str) else seconds
        return as_given(texts, self._classify(expect_texts(texts), others, batch_tokens))

    @torch.no_grad()
    def _classify(
        self, texts: Sequence[str], seconds: Sequence[str | None] | None, batch_tokens: int
    ) -> list[Prediction]:
        if seconds is not None and len(seconds) != len(texts):
            raise RegardError(
                f"got {counted(len(texts), 'text')} and {counted(len(seconds), 'second text')}; "
                f"give one second text for each text"
            )
        second = [text is not None for text in seconds or ()]
        if self.pairs is False and any(second):
            raise RegardError("the model was trained on single texts, not on pairs; remove the second text")
        if self.pairs and not (second and all(second)) and texts:
            raise RegardError("the model was trained on pairs of texts; add a second text")
        encoded = self.encode(texts, seconds)
        result: dict[int, Prediction] = {}
        for indices, batch in self.batches(encoded, batch_tokens):
            answers_BV = finite(self.model(*batch.inputs)[:, 0])
            for i, answers_V in zip(indices, answers_BV.cpu(), strict=True):
                result[i] = self.prediction(answers_V, encoded[i].is_truncated)
        return [result[i] for i in range(len(texts))]

    def prediction(self, answers_V: Tensor, is_truncated: bool = False) -> Prediction:
        """The prediction for a text, given the model's output."""
        if not self.labels:
            return Prediction(None, float(answers_V), {}, is_truncated)
        probabilities = dict(zip(self.labels, answers_V.softmax(0).tolist(), strict=True))
        best = max(probabilities, key=lambda label: probabilities[label])
        return Prediction(best, probabilities[best], probabilities, is_truncated)

    def evaluate(self, files: Mapping[str, Path], settings: ClassificationSettings) -> Evaluation:
        """The task's metrics on a table."""
        (path,) = self.evaluated_with.paths(files)
        warnings: list[str] = []
        question, examples = self._task_and_examples(path, settings, warnings)
        # converted models may name their labels LABEL_0, LABEL_1, ..., in GLUE's order
        names: dict[str | float, str] = {f"LABEL_{i}": name for i, name in enumerate(question.labels)}
        if {names.get(name, name) for name in self.labels} != set(question.labels):
            known = [", ".join(labels) or "a number" for labels in (self.labels, question.labels)]
            raise RegardError(
                f"the model predicts {known[0]}, but the task expects {known[1]}; "
                f"use a model that was trained on this task"
            )
        if not examples:
            raise RegardError(f"{path}: there are no texts to evaluate; give a file with at least one")
        texts, seconds, gold = zip(*examples, strict=True)
        predictions = self.classify(texts, seconds)
        answer = [names.get(prediction.answer, prediction.answer) for prediction in predictions]
        found = percent(glue.scores(question, answer, gold))  # type: ignore[arg-type]
        truncated = sum(prediction.truncated for prediction in predictions)
        lines = [f"{name:<10}{value:5.1f}" for name, value in found.items()]
        lines.append(
            counted(len(texts), "text") + (f", {truncated:,} of them too long and truncated" if truncated else "")
        )
        return Evaluation(
            {**found, "texts": len(texts), "truncated": truncated},
            lines,
            [str(value) for value in answer],
            warnings,
            Examples(rows(answer), lambda answer: percent(glue.scores(question, answer, gold))),  # type: ignore[arg-type]
        )

    def _task_and_examples(
        self, path: Path, settings: ClassificationSettings, warnings: list[str]
    ) -> tuple[tables.GlueTask, list[Example]]:
        if settings.task is not None:
            question = tables.TASKS[settings.task]
            return question, list(tables.read(question, path, warn=warnings.append))
        question = tables.table_task(settings.columns, settings.label, self.labels)
        return question, list(read_table(path, settings.columns, settings.label, not self.labels, self.labels))

    @torch.no_grad()
    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The model applied to a text, with the predicted label or a given one as output."""
        encoded = self.read(self._text(inputs))
        arguments = self.inputs(encoded)
        answers_V = self.model(*arguments)[0, 0]
        if isinstance(target, str):
            if target not in self.labels:
                raise RegardError(f"{target!r} is not a label of this model; it has {', '.join(self.labels) or 'none'}")
            label = self.labels.index(target)
        else:
            label = target[0] if target else int(answers_V.argmax())

        def pieces(tokens: Sequence[int]) -> list[str]:
            return [self.labels[token] if self.labels else f"{float(answers_V):.3g}" for token in tokens]

        name = pieces([label])[0]
        prediction = text_stream((label,), (name,), TextLayout((0,), (name,)))
        streams = {"text": self.stream(encoded.tokens, encoded.segments), "prediction": self.stream(encoded.tokens[:1])}
        return Trace(self.model, arguments, streams, "prediction", prediction, (label,), pieces)


class ClassificationTask(Task):
    """Texts with labels or numbers; cross-entropy or squared error; the metrics of the task."""

    name = "classification"
    verbs = ("classify", "embed", "evaluate", "compare", "look", "explore")
    data = (GlueConfig, TableConfig)

    def __init__(self, setup: Setup) -> None:
        data = setup.data
        paths = data.paths()
        self.question, self.label_smoothing = data.question, setup.train.label_smoothing
        setup.claim(*data.keys())
        check_rate(setup)
        examples, valid_examples = data.parts(setup.say)
        if data.max_examples is not None and data.max_examples < len(examples):
            examples = [examples[i] for i in np.linspace(0, len(examples) - 1, data.max_examples).astype(int)]
        self.codecs = setup.codecs(text=CodecExamples(lambda: chain.from_iterable(map(_texts, examples))))
        self.tokenizer = self.codecs["text"]
        labels, max_length = self.question.labels, setup.max_length(data.max_length)
        train, self.valid_texts = (
            Labelled(self.tokenizer, part, labels, max_length, str(path))
            for part, path in ((examples, paths[0]), (valid_examples, paths[-1]))
        )
        for what, part in (("training", train), ("validation", self.valid_texts)):
            kept = len(part.encoded)
            setup.count(
                what,
                f"{counted(kept, 'text')}; {part.truncated:,} truncated to {max_length} tokens",
                texts=what,
                kept=kept,
                truncated=part.truncated,
            )
        self.batches, self.valid = setup.batches(train, self.valid_texts)
        pairs = len(self.question.texts) > 1
        head = ClassificationHead(labels=labels, pairs=pairs) if labels else RegressionHead(pairs=pairs)
        self.config = replace(setup.fitted(**self.tokenizer.sizes()), head=head)
        metric = self.question.metrics[0]
        self.curves = (Curve(score=f"valid_{metric}", label=METRICS[metric]),)

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Classifier:
        """A classifier."""
        return Classifier(model, codecs["text"])

    def units(self, batch: LabelledBatch) -> dict[str, int]:
        """Tokens, and labelled texts."""
        tokens = count_tokens(batch.tokens_BT, batch.is_padding_BT)
        return {"tokens": tokens, "texts": int(has_label(batch.label_B).sum())}

    def loss(self, model: Any, batch: LabelledBatch) -> dict[str, SummedLoss]:
        """The loss of each text."""
        answers_BV = answers(model, batch)
        return {"texts": SummedLoss(*loss(answers_BV, batch.label_B, self.label_smoothing))}

    def validate(self, model: Any) -> dict[str, float]:
        """The loss, and the metrics of the task."""
        classifier = self.open(model, self.codecs)
        total, answer, gold = 0.0, [], []
        for indices in self.valid.plan(0):
            batch = self.valid_texts.fetch(indices).to(classifier.device)
            answers_BV = answers(model, batch)
            total += float(loss(answers_BV, batch.label_B)[1]["loss"])
            answer += [classifier.prediction(answers_V).answer for answers_V in answers_BV.cpu()]
            gold += [self.valid_texts.answers[i] for i in indices]
        found = glue.scores(self.question, answer, gold)  # type: ignore[arg-type]
        return {"valid_loss": total / len(gold), **{f"valid_{name}": value for name, value in found.items()}}

    def selection_loss(self, values: Mapping[str, float]) -> float:
        """The first metric, negated."""
        return -values[f"valid_{self.question.metrics[0]}"]

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss and metrics."""
        found = (f"{name} {values[f'valid_{name}']:.1%}" for name in self.question.metrics)
        return "  ".join([f"valid loss {values['valid_loss']:.3f}", *found])

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss and metrics on the validation texts."""
        return listed(
            f"On {len(self.valid_texts.answers):,} validation texts of the task {self.question.name}:", values
        )


def _texts(example: Example) -> list[str]:
    return [example.text, *([] if example.second is None else [example.second])]
