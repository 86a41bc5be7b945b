"""Learning to translate."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard import library
from regard.codecs.subword import PAD, Tokenizer
from regard.data.batches import Batches
from regard.data.corpus import Corpus, chunks, encoded
from regard.data.parallel import PairBatch, Pairs
from regard.data.sources import DatesConfig, ParallelConfig, Part
from regard.errors import RegardError
from regard.evaluation import bleu
from regard.folders import cache
from regard.recipe import BytesConfig, Recipe
from regard.tasks import translation
from regard.training.claim import claim_text
from regard.training.report import Say
from regard.training.task import Summed, listed, means

SAMPLE = 2_000_000  # pairs that a tokenizer learns from at most
BLEU_SENTENCES = 200


class TranslationTask:
    """Sentence pairs; the loss of the next token; BLEU."""

    verb = "translate"

    def __init__(self, recipe: Recipe, say: Say) -> None:
        data, model = recipe.data, recipe.model
        assert isinstance(data, ParallelConfig | DatesConfig)
        assert isinstance(model, library.TranslatorConfig)
        self.recipe, self.say, self.longest = recipe, say, data.longest
        self.counts: list[dict[str, Any]] = []
        parts, valid_parts = data.parts(), data.valid_parts()
        keys = [part.key for part in (*parts, *valid_parts)]
        claim_text(Path(recipe.run), [*keys, *library.fingerprints(recipe.init)])
        self.source, self.target = self.tokenizers = self._tokenizers(parts)
        corpora = [(self._corpus(part, "training"), part.weight) for part in parts]
        valid = [(self._corpus(part, "validation"), 1.0) for part in valid_parts]
        if not any(len(corpus) for corpus, _ in valid):
            raise RegardError("there are no sentence pairs to validate with; give some with data.valid")
        tokens = recipe.train.batch_tokens
        self.batches = Batches(Pairs(corpora, recipe.seed), tokens, recipe.seed, recipe.train.batch_size)
        self.valid = Batches(Pairs(valid, seed=0), tokens, seed=0)
        read = chain.from_iterable(part.read() for part in valid_parts)
        kept = chunks(read, self.source, self.target, self.longest)
        self.valid_pairs = list(islice(chain.from_iterable(chunk.texts for chunk in kept), BLEU_SENTENCES))
        # a tokenizer may have found fewer tokens than it was asked for
        source_size = None if self.source is self.target else self.source.vocab_size
        sizes = {"vocab_size": self.target.vocab_size, "source_vocab_size": source_size}
        self.config = model if recipe.init else replace(model, **sizes)

    def _tokenizers(self, parts: Sequence[Part]) -> tuple[Any, ...]:
        run = Path(self.recipe.run)
        if any(run.glob("tokenizer*.json")):
            return library.load_tokenizers(run, self.recipe.model)
        if self.recipe.init:
            tokenizers = library.read(self.recipe.init).tokenizers
            library.save_tokenizers(run, tokenizers)
            return tokenizers
        config = self.recipe.tokenizer
        assert isinstance(config, BytesConfig)
        self.say(f"learning a vocabulary of {config.vocab_size:,} tokens")

        def texts(*sides: int) -> Iterator[str]:
            pairs = islice(chain.from_iterable(part.read() for part in parts), SAMPLE)
            return (pair[side] for pair in pairs for side in sides)

        if config.joint:
            source = target = Tokenizer.train(config.kind, config.vocab_size, texts(0, 1))
        else:
            source, target = (Tokenizer.train(config.kind, config.vocab_size, texts(side)) for side in (0, 1))
        library.save_tokenizers(run, (source, target))
        return source, target

    def _corpus(self, part: Part, what: str) -> Corpus:
        corpus = encoded(part.read, part.key, self.source, self.target, self.longest, cache())
        about = corpus.about
        self.counts.append({"pairs": what, **dataclasses.asdict(about)})
        self.say(
            f"{what}: {about.kept:,} pairs; dropped {about.empty:,} with an empty side "
            f"and {about.long:,} with more than {self.longest} tokens"
        )
        return corpus

    def units(self, batch: PairBatch) -> dict[str, int]:
        """Real target tokens."""
        return {"tokens": int((batch.next_BT != PAD).sum())}

    def loss(self, model: Any, batch: PairBatch) -> dict[str, Summed]:
        """Of each target token, smoothed; told without smoothing."""
        smooth, plain, _ = translation.loss(model, batch, self.recipe.train.smoothing)
        return {"tokens": Summed(smooth, {"loss": plain})}

    def judge(self, model: Any) -> dict[str, float]:
        """The loss of all validation pairs, and scores of greedy search on some of them."""
        translator = translation.Translator(model, self.source, self.target)
        loss = means(self, model, self.valid.epoch(0))["loss"]
        found = translator.translate([source for source, _ in self.valid_pairs], beam=1)
        scores = bleu.score([best[0].text for best in found], [target for _, target in self.valid_pairs])
        return {"valid_loss": loss, "bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}

    def worth(self, values: Mapping[str, float]) -> float:
        """The loss decides."""
        return values["valid_loss"]

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss and BLEU."""
        return f"valid loss {values['valid_loss']:.3f}  BLEU {values['bleu']:.1f}"

    def card(self, values: Mapping[str, float]) -> list[str]:
        """The scores with their signatures."""
        title = f"Loss a token on all validation pairs; scores of greedy search on {len(self.valid_pairs)} of them:"
        return listed(title, values) + [f"- {name}: `{signature}`" for name, signature in bleu.signatures().items()]
