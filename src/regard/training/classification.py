"""Fine-tuning BERT to say something of texts: one of GLUE's questions, or one of your own."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regard import library
from regard.data.batches import Batches, count_tokens
from regard.data.corpus import file_hash
from regard.data.labelled import GlueConfig, Labelled, LabelledBatch, TableConfig
from regard.data.tables import Example
from regard.evaluation import glue
from regard.models.bert import BertConfig
from regard.models.heads import ClassificationHead, RegressionHead
from regard.recipe import Recipe
from regard.tasks import classification
from regard.training.claim import claim_text
from regard.training.report import Say
from regard.training.task import Summed, listed
from regard.training.vocabulary import fitted, longest, wordpiece


class ClassificationTask:
    """Texts with labels or numbers; cross-entropy or squared distance; the metrics of the question."""

    verb = "classify"

    def __init__(self, recipe: Recipe, say: Say) -> None:
        data, model = recipe.data, recipe.model
        assert isinstance(data, GlueConfig | TableConfig)
        assert isinstance(model, BertConfig)
        paths = data.paths()
        self.recipe, self.question = recipe, data.question
        claim_text(Path(recipe.run), [*(file_hash(path) for path in paths), *library.fingerprints(recipe.init)])
        examples, valid_examples = (data.read(path, say) for path in paths)
        if data.most is not None and data.most < len(examples):
            examples = [examples[i] for i in np.linspace(0, len(examples) - 1, data.most).astype(int)]
        self.tokenizer = wordpiece(recipe, lambda: chain.from_iterable(map(_texts, examples)), say)
        self.tokenizers = (self.tokenizer,)
        labels, most = self.question.labels, longest(model, recipe, data.longest)
        train, self.valid_texts = (
            Labelled(self.tokenizer, part, labels, most, str(path))
            for part, path in zip((examples, valid_examples), paths, strict=True)
        )
        self.counts: list[dict[str, Any]] = []
        for what, part in (("training", train), ("validation", self.valid_texts)):
            self.counts.append({"texts": what, "kept": len(part.encoded), "cut": part.cut})
            say(f"{what}: {len(part.encoded):,} texts; {part.cut:,} cut to {most} tokens")
        tokens, size = recipe.train.batch_tokens, recipe.train.batch_size
        self.batches = Batches(train, tokens, recipe.seed, size)
        self.valid = Batches(self.valid_texts, tokens, 0)
        head = ClassificationHead(labels=labels) if labels else RegressionHead()
        self.config = replace(fitted(model, self.tokenizer, recipe), head=head)

    def units(self, batch: LabelledBatch) -> dict[str, int]:
        """Tokens, and texts with a label."""
        tokens = count_tokens(batch.tokens_BT, batch.is_padding_BT)
        return {"tokens": tokens, "texts": int(classification.is_asked(batch.label_B).sum())}

    def loss(self, model: Any, batch: LabelledBatch) -> dict[str, Summed]:
        """Of each text."""
        answers_BV = classification.answers(model, batch)
        return {"texts": Summed(*classification.loss(answers_BV, batch.label_B, self.recipe.train.smoothing))}

    def judge(self, model: Any) -> dict[str, float]:
        """The loss, and the metrics of the question."""
        classifier = classification.Classifier(model, self.tokenizer)
        loss, said, gold = 0.0, [], []
        for indices in self.valid.plan(0):
            batch = self.valid_texts.fetch(indices).to(classifier.device)
            answers_BV = classification.answers(model, batch)
            loss += float(classification.loss(answers_BV, batch.label_B)[1]["loss"])
            said += [classifier.verdict(answers_V).said for answers_V in answers_BV.cpu()]
            gold += [self.valid_texts.answers[i] for i in indices]
        found = glue.scores(self.question, said, gold)  # type: ignore[arg-type]
        return {"valid_loss": loss / len(gold), **{f"valid_{name}": value for name, value in found.items()}}

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
