"""Learning to tag words: a BERT, or a recurrent tagger."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard import library
from regard.data.batches import Batches
from regard.data.conllu import Sentence
from regard.data.corpus import file_hash
from regard.data.pretraining import IGNORED
from regard.data.tagged import ConlluConfig, PieceBatch, TaggedPieces, TaggedWords, WordBatch
from regard.data.words import Words
from regard.evaluation import tagging as scoring
from regard.models.bert import BertConfig
from regard.models.heads import TaggingHead
from regard.models.tagger import TaggerConfig
from regard.recipe import Recipe, WordsConfig
from regard.tasks import tagging
from regard.training.claim import claim_text
from regard.training.report import Say
from regard.training.task import Summed, listed, means
from regard.training.vocabulary import fitted, longest, of_run, wordpiece


class TaggingTask:
    """Sentences of tagged words; cross-entropy; accuracy and F1."""

    verb = "tag"

    def __init__(self, recipe: Recipe, say: Say) -> None:
        data = recipe.data
        assert isinstance(data, ConlluConfig)
        self.recipe = recipe
        paths = data.paths()
        hashes = [*(file_hash(path) for path in paths), *library.fingerprints(recipe.init)]
        claim_text(Path(recipe.run), [*hashes, data.column])
        sentences, self.valid_sentences = (data.read(path) for path in paths)
        self.labels = tuple(sorted({tag for sentence in sentences for tag in sentence.tags}))
        unknown = Counter(tag for sentence in self.valid_sentences for tag in sentence.tags if tag not in self.labels)
        if unknown:
            found = ", ".join(f"{tag} ({count})" for tag, count in unknown.most_common(10))
            say(f"validation: tags that are not in the training data, and cannot be learnt: {found}")
        self.tokenizer: Any
        examples: type[TaggedPieces] | type[TaggedWords]
        model, most = recipe.model, data.longest
        if isinstance(model, BertConfig):
            most = longest(model, recipe, data.longest)
            self.tokenizer = wordpiece(recipe, lambda: (" ".join(sentence.words) for sentence in sentences), say)
            head = TaggingHead(labels=self.labels)
            self.config: library.AnyModelConfig = replace(fitted(model, self.tokenizer, recipe), head=head)
            examples = TaggedPieces
        else:
            assert isinstance(model, TaggerConfig)
            self.tokenizer = self._words(sentences)
            self.config = replace(model, sizes=self.tokenizer.sizes, labels=self.labels)
            examples = TaggedWords
        self.tokenizers = (self.tokenizer,)
        train, valid = (examples(self.tokenizer, part, self.labels, most) for part in (sentences, self.valid_sentences))
        self.counts: list[dict[str, Any]] = []
        for what, part in (("training", train), ("validation", valid)):
            self.counts.append({"sentences": what, "kept": len(part.tags), "cut": part.cut})
            say(f"{what}: {len(part.tags):,} sentences; {part.cut:,} cut to {most} tokens")
        tokens, size = recipe.train.batch_tokens, recipe.train.batch_size
        self.batches: Batches[Any] = Batches(train, tokens, recipe.seed, size)
        self.valid: Batches[Any] = Batches(valid, tokens, 0)

    def _words(self, sentences: list[Sentence]) -> Words:
        config = self.recipe.tokenizer
        assert isinstance(config, WordsConfig)
        learn = partial(Words.learn, (sentence.words for sentence in sentences), config.least)
        return of_run(self.recipe, Words, learn)

    def units(self, batch: PieceBatch | WordBatch) -> dict[str, int]:
        """Words with a tag; the speed is told in words."""
        words = int((batch.tag_BT != IGNORED).sum())
        return {"tokens": words, "words": words}

    def loss(self, model: Any, batch: PieceBatch | WordBatch) -> dict[str, Summed]:
        """Of each word."""
        return {"words": Summed(*tagging.loss(model, batch, self.recipe.train.smoothing))}

    def judge(self, model: Any) -> dict[str, float]:
        """The loss, and scores of the tags given."""
        loss = means(self, model, self.valid.epoch(0))["loss"]
        tagger: Any = library.ready(model, (self.tokenizer,))
        given = tagger.tag([sentence.words for sentence in self.valid_sentences])
        gold = [sentence.tags for sentence in self.valid_sentences]
        found = scoring.scores(gold, [[str(tag) for tag in tags] for tags in given])
        return {"valid_loss": loss, "valid_accuracy": found["accuracy"], "valid_macro_f1": found["macro_f1"]}

    def worth(self, values: Mapping[str, float]) -> float:
        """Accuracy decides."""
        return -values["valid_accuracy"]

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss, accuracy and F1."""
        scores = f"accuracy {values['valid_accuracy']:.2%}  macro F1 {values['valid_macro_f1']:.1%}"
        return f"valid loss {values['valid_loss']:.3f}  {scores}"

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss and scores on the validation sentences."""
        return listed(f"On {len(self.valid_sentences):,} validation sentences:", values)
