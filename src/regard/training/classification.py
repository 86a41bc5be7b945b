"""Fine-tuning BERT to say something of texts: one of GLUE's questions, or one of your own."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard import library
from regard.data.batches import Batches
from regard.data.corpus import file_hash
from regard.data.labelled import GlueConfig, Labelled, LabelledBatch, TableConfig
from regard.data.pretraining import IGNORED
from regard.data.tables import Example
from regard.evaluation import glue
from regard.models.bert import BertConfig, ClassificationHead, RegressionHead
from regard.recipe import Recipe
from regard.tasks import classification
from regard.training.claim import claim_text
from regard.training.report import Say
from regard.training.task import Summed, means
from regard.training.vocabulary import wordpiece


class ClassificationTask:
    """Texts with labels or numbers; cross-entropy or squared distance; the metrics of the question."""

    verb = "classify"

    def __init__(self, recipe: Recipe, say: Say) -> None:
        data, model = recipe.data, recipe.model
        assert isinstance(data, GlueConfig | TableConfig)
        assert isinstance(model, BertConfig)
        self.recipe, self.question = recipe, data.question
        paths = data.paths()
        claim_text(Path(recipe.run), [file_hash(path) for path in paths])
        examples, self.valid_examples = (data.read(path) for path in paths)
        if data.most is not None and data.most < len(examples):
            examples = [examples[i] for i in np.linspace(0, len(examples) - 1, data.most).astype(int)]
        self.tokenizer = wordpiece(recipe, lambda: chain.from_iterable(map(_texts, examples)), say)
        labels = self.question.labels
        train, valid = (Labelled(self.tokenizer, e, labels, data.longest) for e in (examples, self.valid_examples))
        self.counts: list[dict[str, Any]] = []
        for what, part in (("training", train), ("validation", valid)):
            self.counts.append({"texts": what, "kept": len(part.encoded), "cut": part.cut})
            say(f"{what}: {len(part.encoded):,} texts; {part.cut:,} cut to {data.longest} tokens")
        tokens, size = recipe.train.batch_tokens, recipe.train.batch_size
        self.batches = Batches(train, tokens, recipe.seed, size)
        self.valid = Batches(valid, tokens, 0)
        vocab_size = model.vocab_size if recipe.init else self.tokenizer.vocab_size
        head = ClassificationHead(labels=labels) if labels else RegressionHead()
        self.config = replace(model, vocab_size=vocab_size, head=head)

    def units(self, batch: LabelledBatch) -> dict[str, int]:
        """Tokens, and texts with a label."""
        tokens = int((batch.tokens_BT != self.tokenizer.pad).sum())
        return {"tokens": tokens, "texts": int((batch.label_B != IGNORED).sum())}

    def loss(self, model: Any, batch: LabelledBatch) -> dict[str, Summed]:
        """Of each text."""
        return {"texts": Summed(*classification.loss(model, batch, self.recipe.train.smoothing))}

    def judge(self, model: Any) -> dict[str, float]:
        """The loss, and the metrics of the question."""
        loss = means(self, model, self.valid.epoch(0))["loss"]
        classifier = classification.Classifier(model, self.tokenizer)
        texts, seconds, gold = zip(*self.valid_examples, strict=True)
        verdicts = classifier.classify(texts, seconds)
        predicted = [verdict.label or verdict.value for verdict in verdicts]
        found = glue.scores(self.question, predicted, gold)  # type: ignore[arg-type]
        return {"valid_loss": loss, **{f"valid_{name}": value for name, value in found.items()}}

    def worth(self, values: Mapping[str, float]) -> float:
        """The first metric decides."""
        return -values[f"valid_{self.question.metrics[0]}"]

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss and metrics."""
        found = (f"{name} {values[f'valid_{name}']:.1%}" for name in self.question.metrics)
        return "  ".join([f"valid loss {values['valid_loss']:.3f}", *found])

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss and metrics on the validation texts."""
        title = f"On {len(self.valid_examples):,} validation texts of the task {self.question.name}:"
        return [title, "", *(f"- {name}: {value:.4f}" for name, value in values.items())]

    def save(self, folder: Path, weights: Mapping[str, Tensor], card: str) -> None:
        """Writes the model."""
        library.save(folder, self.config, weights, (self.tokenizer,), card)


def _texts(example: Example) -> list[str]:
    return [example.text, *([] if example.second is None else [example.second])]
