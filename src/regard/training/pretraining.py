"""Pre-training BERT: hidden words, and whether one sentence follows the other."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from regard import library
from regard.data.batches import Batches, count_tokens
from regard.data.corpus import file_hash
from regard.data.documents import DocumentsConfig
from regard.data.pretraining import IGNORED, PretrainingBatch, PretrainingExamples, encoded
from regard.folders import cache
from regard.models.bert import BertConfig
from regard.models.heads import PretrainingHead
from regard.recipe import Recipe
from regard.tasks.pretraining import next_loss, word_loss
from regard.training.claim import claim_text
from regard.training.report import Say
from regard.training.task import Summed, listed, means
from regard.training.vocabulary import fitted, wordpiece


class PretrainingTask:
    """Text; the losses of both questions; how often each is answered right."""

    verb = "look"

    def __init__(self, recipe: Recipe, say: Say) -> None:
        data, model = recipe.data, recipe.model
        assert isinstance(data, DocumentsConfig)
        assert isinstance(model, BertConfig)
        key = f"{file_hash(*data.paths())} {data.split}"
        claim_text(Path(recipe.run), [key, *library.fingerprints(recipe.init)])
        if model.context > data.longest and not recipe.init:
            say(
                f"positions from {data.longest} to {model.context - 1} are never trained; "
                f"set model.context={data.longest}, or data.longest={model.context}"
            )
        self.tokenizer = wordpiece(recipe, lambda: chain.from_iterable(data.documents(valid=False)), say)
        self.tokenizers = (self.tokenizer,)
        self.counts: list[dict[str, Any]] = []
        self.examples = []
        for what, valid in (("training", False), ("validation", True)):
            sentences = encoded(partial(data.documents, valid), f"{key} {what}", self.tokenizer, cache())
            documents, tokens = len(sentences.documents) - 1, int(sentences.begins[-1])
            self.counts.append({"text": what, "documents": documents, "sentences": len(sentences), "tokens": tokens})
            say(f"{what}: {documents:,} documents, {len(sentences):,} sentences, {tokens:,} tokens")
            self.examples.append(
                PretrainingExamples(
                    sentences,
                    self.tokenizer,
                    longest=data.longest,
                    masked=data.masked,
                    whole_words=data.whole_words,
                    short=data.short,
                    next_sentence=data.next_sentence,
                    seed=0 if valid else recipe.seed,
                )
            )
        self.batches, self.valid = (
            Batches(examples, recipe.train.batch_tokens, seed, recipe.train.batch_size)
            for examples, seed in zip(self.examples, (recipe.seed, 0), strict=True)
        )
        self.smoothing = recipe.train.smoothing
        self.config = replace(fitted(model, self.tokenizer, recipe), head=PretrainingHead(pooled=data.next_sentence))

    def units(self, batch: PretrainingBatch) -> dict[str, int]:
        """Tokens, words that are asked for, and pairs of texts."""
        return {
            "tokens": count_tokens(batch.tokens_BT, batch.is_padding_BT),
            "words": int((batch.words_BT != IGNORED).sum()),
            "pairs": int((batch.follows_B != IGNORED).sum()),
        }

    def loss(self, model: Any, batch: PretrainingBatch) -> dict[str, Summed]:
        """Of words, and of pairs."""
        x_BTD = model.hidden(*batch.inputs)
        result = {"words": Summed(*word_loss(model, x_BTD, batch, self.smoothing))}
        if model.head.next is not None:
            result["pairs"] = Summed(*next_loss(model, x_BTD, batch))
        return result

    def judge(self, model: Any) -> dict[str, float]:
        """The same on text that was kept."""
        found = means(self, model, self.valid.epoch(0))
        return {f"valid_{name}": value for name, value in found.items()}

    def worth(self, values: Mapping[str, float]) -> float:
        """Both losses together decide."""
        return values["valid_loss"]

    def describe(self, values: Mapping[str, float]) -> str:
        """The loss, and how many words and pairs were guessed right."""
        words = f"valid loss {values['valid_loss']:.3f}  words {values['valid_mlm_accuracy']:.1%}"
        return words + (f"  next {values['valid_nsp_accuracy']:.1%}" if "valid_nsp_accuracy" in values else "")

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Losses and accuracies of masked words (mlm) and next sentences (nsp)."""
        return listed("On text kept from training:", values)
