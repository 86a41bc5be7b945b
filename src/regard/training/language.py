"""Learning to go on with a text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from regard import library
from regard.codecs.gpt2 import BytePairs, Characters, TextTokenizer
from regard.data.batches import Batches
from regard.data.completion import FixedWindows, Part, TextConfig, WindowBatch, Windows, encoded, spread
from regard.data.corpus import file_hash
from regard.data.pretraining import IGNORED
from regard.evaluation.language import perplexity
from regard.folders import cache
from regard.models.gpt2 import Gpt2Config
from regard.recipe import BytePairsConfig, CharactersConfig, Recipe
from regard.tasks import language
from regard.training.claim import claim_text
from regard.training.report import Say
from regard.training.task import Summed, listed, means
from regard.training.vocabulary import of_run

SAMPLE = 10_000  # pieces of text that a vocabulary is learnt from at most


class LanguageTask:
    """Running text; the loss of the next token; perplexity and bits per byte."""

    verb = "complete"

    def __init__(self, recipe: Recipe, say: Say) -> None:
        data, model = recipe.data, recipe.model
        assert isinstance(data, TextConfig)
        assert isinstance(model, Gpt2Config)
        self.recipe, self.say = recipe, say
        train, valid = data.parts()
        keys = [file_hash(*(part.path for part in parts)) for parts in (train, valid)]
        claim_text(Path(recipe.run), [*keys, *library.fingerprints(recipe.init)])
        self.tokenizer = self._tokenizer(train, valid)
        self.tokenizers = (self.tokenizer,)
        self.counts: list[dict[str, Any]] = []
        texts = []
        for what, parts, key in zip(("training", "validation"), (train, valid), keys, strict=True):
            tokens = encoded(parts, key, self.tokenizer, cache())
            characters = sum(part.end - part.begin for part in parts)
            self.counts.append({"text": what, "characters": characters, "tokens": len(tokens)})
            say(f"{what}: {characters:,} characters, {len(tokens):,} tokens")
            texts.append(tokens)
        self.longest = data.longest or model.context
        windows = Windows(texts[0], self.longest, recipe.seed, "the text to train on")
        kept = spread(texts[1], self.longest, source="the text to validate with")
        self.batches = Batches(windows, recipe.train.batch_tokens, recipe.seed, recipe.train.batch_size)
        self.valid = Batches(kept, recipe.train.batch_tokens, seed=0)
        self.bytes_per_token = _bytes_per_token(kept, self.tokenizer)
        # a tokenizer may have found fewer tokens than it was asked for
        self.config = model if recipe.init else replace(model, vocab_size=self.tokenizer.vocab_size)

    def _tokenizer(self, train: Sequence[Part], valid: Sequence[Part]) -> TextTokenizer:
        config = self.recipe.tokenizer
        assert isinstance(config, CharactersConfig | BytePairsConfig)

        def make() -> TextTokenizer:
            if isinstance(config, CharactersConfig):
                return Characters.learn(chain.from_iterable(part.pieces() for part in (*train, *valid)))
            if config.files:
                return BytePairs.from_folder(Path(config.files))
            self.say(f"learning a vocabulary of {config.vocab_size:,} tokens")
            texts = chain.from_iterable(part.pieces() for part in train)
            return BytePairs.train(config.vocab_size, islice(texts, SAMPLE))

        return of_run(self.recipe, TextTokenizer, make)

    def units(self, batch: WindowBatch) -> dict[str, int]:
        """Tokens that are asked for."""
        return {"tokens": int((batch.next_BT != IGNORED).sum())}

    def loss(self, model: Any, batch: WindowBatch) -> dict[str, Summed]:
        """Of each token, smoothed; told without smoothing."""
        smooth, plain = language.loss(model, batch, self.recipe.train.smoothing)
        return {"tokens": Summed(smooth, {"loss": plain})}

    def judge(self, model: Any) -> dict[str, float]:
        """The loss on text that was kept, also as perplexity and in bits."""
        loss = means(self, model, self.valid.epoch(0))["loss"]
        bits = loss / math.log(2) / self.bytes_per_token
        return {"valid_loss": loss, "valid_perplexity": perplexity(loss), "valid_bits_per_byte": bits}

    def worth(self, values: Mapping[str, float]) -> float:
        """The loss decides."""
        return values["valid_loss"]

    def describe(self, values: Mapping[str, float]) -> str:
        """All of it."""
        return (
            f"valid loss {values['valid_loss']:.3f}  perplexity {values['valid_perplexity']:.1f}  "
            f"{values['valid_bits_per_byte']:.2f} bits per byte"
        )

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss of a token, perplexity, bits of a byte."""
        return listed(f"On windows of {self.longest} tokens of text kept from training:", values)


def _bytes_per_token(windows: FixedWindows, tokenizer: TextTokenizer) -> float:
    """Of the tokens that are asked for."""
    next_BT = windows.fetch(np.arange(len(windows.begins))).next_BT
    return sum(len(tokenizer.raw(row)) for row in next_BT.tolist()) / next_BT.numel()
