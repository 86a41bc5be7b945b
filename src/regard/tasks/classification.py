"""What is said of a text: one of some labels, or a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.codecs.interface import Examples
from regard.config import Config
from regard.data import glue as tables
from regard.data.batches import IGNORED, TOKENS, count_tokens
from regard.data.corpus import file_hash
from regard.data.labelled import GlueConfig, Labelled, LabelledBatch, TableConfig
from regard.data.tables import Example, read_table
from regard.errors import RegardError
from regard.evaluation import glue
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.reading import Inputs, Reading
from regard.models.heads import ClassificationHead, RegressionHead
from regard.tasks.encoding import Encoder
from regard.tasks.evaluation import EvaluatedWith, Evaluation
from regard.tasks.texts import as_given, expect_texts
from regard.training.setup import Setup
from regard.training.task import Curve, Summed, Task, listed

METRICS = {
    "accuracy": "accuracy",
    "f1": "F1",
    "matthews": "Matthews' correlation",
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's correlation",
}


def answers(model: Any, batch: LabelledBatch) -> Tensor:
    """What the model says of each text: the logits of all labels, or one number."""
    return model(*batch.inputs)[:, 0]


def loss(answers_BV: Tensor, label_B: Tensor, smoothing: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed loss of the texts that have a label: cross-entropy or squared distance; and sums to tell of."""
    asked_B = is_asked(label_B)
    answers_BV, label_B = answers_BV[asked_B], label_B[asked_B]
    if label_B.is_floating_point():
        squared = (answers_BV[:, 0] - label_B).square().sum()
        return squared, {"loss": squared.detach()}
    smooth = F.cross_entropy(answers_BV, label_B, reduction="sum", label_smoothing=smoothing)
    with torch.no_grad():
        plain = F.cross_entropy(answers_BV, label_B, reduction="sum")
        return smooth, {"loss": plain, "accuracy": (answers_BV.argmax(1) == label_B).sum()}


def is_asked(label_B: Tensor) -> Tensor:
    """Which texts have a label."""
    return ~label_B.isnan() if label_B.is_floating_point() else label_B != IGNORED


@dataclass(frozen=True)
class Verdict:
    """What is said of a text."""

    label: str | None
    """None where a number is asked for."""
    value: float
    """How sure the model is of the label; or the number."""
    probabilities: dict[str, float]
    """Of all labels."""
    cut: bool
    """The text was longer than the model can take; its end was not read."""

    @property
    def said(self) -> str | float:
        """The label, or the number."""
        return self.value if self.label is None else self.label


@dataclass(frozen=True, kw_only=True)
class ClassificationSettings(Config):
    """What a table asks."""

    task: Literal["cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "mnli-mm", "qnli", "rte", "wnli", "ax"] | None = None
    """The table is of this task of GLUE; without it, one of your own."""
    texts: str = "text"
    """The column of the text in a table of your own; or of both, parted by a comma."""
    label: str = "label"
    """The column of labels in a table of your own."""

    @property
    def columns(self) -> list[str]:
        """The columns of texts."""
        return self.texts.split(",")


class Classifier(Encoder):
    """A BERT that says something of a text, or of two."""

    evaluated_with: ClassVar = EvaluatedWith("a classifier", ("data",), ClassificationSettings)

    @property
    def labels(self) -> tuple[str, ...]:
        """What may be said; nothing where it is a number."""
        return self.model.config.labels

    @overload
    def classify(self, texts: str, seconds: str | None = None, *, batch_tokens: int = TOKENS) -> Verdict: ...  # type: ignore[overload-overlap]
    @overload
    def classify(
        self, texts: Sequence[str], seconds: Sequence[str | None] | None = None, *, batch_tokens: int = TOKENS
    ) -> list[Verdict]: ...

    def classify(
        self,
        texts: str | Sequence[str],
        seconds: str | Sequence[str | None] | None = None,
        *,
        batch_tokens: int = TOKENS,
    ) -> Any:
        """A verdict for each text, or for each with its second."""
        others = [seconds] if isinstance(seconds, str) else seconds
        return as_given(texts, self._classify(expect_texts(texts), others, batch_tokens))

    @torch.no_grad()
    def _classify(self, texts: Sequence[str], seconds: Sequence[str | None] | None, batch_tokens: int) -> list[Verdict]:
        if seconds is not None and len(seconds) != len(texts):
            raise RegardError(f"{len(texts)} texts need as many second ones, not {len(seconds)}")
        encoded = self.encode(texts, seconds)
        result: dict[int, Verdict] = {}
        for indices, batch in self.batches(encoded, batch_tokens):
            answers_BV = self.model(*batch.inputs)[:, 0]
            for i, answers_V in zip(indices, answers_BV.cpu(), strict=True):
                result[i] = self.verdict(answers_V, encoded[i].is_cut)
        return [result[i] for i in range(len(texts))]

    def verdict(self, answers_V: Tensor, is_cut: bool = False) -> Verdict:
        """What the answers of the model to a text mean."""
        if not self.labels:
            return Verdict(None, float(answers_V), {}, is_cut)
        chances = dict(zip(self.labels, answers_V.softmax(0).tolist(), strict=True))
        best = max(chances, key=lambda label: chances[label])
        return Verdict(best, chances[best], chances, is_cut)

    def evaluate(self, files: Mapping[str, Path], settings: ClassificationSettings) -> Evaluation:
        """The metrics of a table's question."""
        (path,) = self.evaluated_with.paths(files)
        warned: list[str] = []
        question, examples = self._asked(path, settings, warned)
        # models of others may have numbers for names; they are those of GLUE
        names: dict[str | float, str] = {f"LABEL_{i}": name for i, name in enumerate(question.labels)}
        if {names.get(name, name) for name in self.labels} != set(question.labels):
            known = [", ".join(labels) or "a number" for labels in (self.labels, question.labels)]
            raise RegardError(f"the model says {known[0]}; the task asks for {known[1]}")
        if not examples:
            raise RegardError(f"{path}: there are no texts to try the model on")
        texts, seconds, gold = zip(*examples, strict=True)
        verdicts = self.classify(texts, seconds)
        said = [names.get(verdict.said, verdict.said) for verdict in verdicts]
        found = glue.scores(question, said, gold)  # type: ignore[arg-type]
        cut = sum(verdict.cut for verdict in verdicts)
        lines = [f"{name:<10}{100 * value:5.1f}" for name, value in found.items()]
        lines.append(f"{len(texts):,} texts" + (f", {cut:,} of them too long and cut" if cut else ""))
        return Evaluation({**found, "texts": len(texts), "cut": cut}, lines, [str(value) for value in said], warned)

    def _asked(
        self, path: Path, settings: ClassificationSettings, warned: list[str]
    ) -> tuple[tables.GlueTask, list[Example]]:
        if settings.task is not None:
            question = tables.TASKS[settings.task]
            return question, list(tables.read(question, path, warn=warned.append))
        question = tables.own_question(settings.columns, settings.label, self.labels)
        return question, list(read_table(path, settings.columns, settings.label, not self.labels, self.labels))

    @torch.no_grad()
    def reading(self, inputs: Inputs, said: str | Sequence[int] | None = None) -> Reading:
        """The model at work on a text, and the label that it gives it, or another one."""
        encoded = self.read(self._text(inputs))
        called = self.inputs(encoded)
        answers_V = self.model(*called)[0, 0]
        if isinstance(said, str):
            if said not in self.labels:
                raise RegardError(f"{said!r} is not a label of this model; it has {', '.join(self.labels) or 'none'}")
            label = self.labels.index(said)
        else:
            label = said[0] if said else int(answers_V.argmax())

        def pieces(tokens: Sequence[int]) -> list[str]:
            return [self.labels[token] if self.labels else f"{float(answers_V):.3g}" for token in tokens]

        name = pieces([label])[0]
        verdict = text_stream((label,), (name,), TextLayout((0,), (name,)))
        streams = {"text": self.stream(encoded.tokens, encoded.segments), "verdict": self.stream(encoded.tokens[:1])}
        return Reading(self.model, called, streams, "verdict", verdict, (label,), pieces)


class ClassificationTask(Task):
    """Texts with labels or numbers; cross-entropy or squared distance; the metrics of the question."""

    name = "classification"
    verbs = ("classify", "embed", "evaluate", "look", "explore")
    data = (GlueConfig, TableConfig)

    def __init__(self, setup: Setup) -> None:
        data = setup.data
        paths = data.paths()
        self.question, self.smoothing = data.question, setup.train.smoothing
        setup.claim(*(file_hash(path) for path in paths))
        examples, valid_examples = (data.read(path, setup.say) for path in paths)
        if data.most is not None and data.most < len(examples):
            examples = [examples[i] for i in np.linspace(0, len(examples) - 1, data.most).astype(int)]
        self.codecs = setup.codecs(text=Examples(lambda: chain.from_iterable(map(_texts, examples))))
        self.tokenizer = self.codecs["text"]
        labels, most = self.question.labels, setup.longest(data.longest)
        train, self.valid_texts = (
            Labelled(self.tokenizer, part, labels, most, str(path))
            for part, path in zip((examples, valid_examples), paths, strict=True)
        )
        for what, part in (("training", train), ("validation", self.valid_texts)):
            kept = len(part.encoded)
            setup.count(what, f"{kept:,} texts; {part.cut:,} cut to {most} tokens", texts=what, kept=kept, cut=part.cut)
        self.batches, self.valid = setup.batches(train, self.valid_texts)
        head = ClassificationHead(labels=labels) if labels else RegressionHead()
        self.config = replace(setup.fitted(**self.tokenizer.sizes()), head=head)
        metric = self.question.metrics[0]
        self.curves = (Curve(score=f"valid_{metric}", label=METRICS[metric]),)

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Classifier:
        """A classifier."""
        return Classifier(model, codecs["text"])

    def units(self, batch: LabelledBatch) -> dict[str, int]:
        """Tokens, and texts with a label."""
        tokens = count_tokens(batch.tokens_BT, batch.is_padding_BT)
        return {"tokens": tokens, "texts": int(is_asked(batch.label_B).sum())}

    def loss(self, model: Any, batch: LabelledBatch) -> dict[str, Summed]:
        """Of each text."""
        answers_BV = answers(model, batch)
        return {"texts": Summed(*loss(answers_BV, batch.label_B, self.smoothing))}

    def judge(self, model: Any) -> dict[str, float]:
        """The loss, and the metrics of the question."""
        classifier = self.open(model, self.codecs)
        total, said, gold = 0.0, [], []
        for indices in self.valid.plan(0):
            batch = self.valid_texts.fetch(indices).to(classifier.device)
            answers_BV = answers(model, batch)
            total += float(loss(answers_BV, batch.label_B)[1]["loss"])
            said += [classifier.verdict(answers_V).said for answers_V in answers_BV.cpu()]
            gold += [self.valid_texts.answers[i] for i in indices]
        found = glue.scores(self.question, said, gold)  # type: ignore[arg-type]
        return {"valid_loss": total / len(gold), **{f"valid_{name}": value for name, value in found.items()}}

    def worth(self, values: Mapping[str, float]) -> float:
        """The first metric decides."""
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
