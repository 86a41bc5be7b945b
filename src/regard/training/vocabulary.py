"""The tokenizer of a run: its own, that of the model it begins with, a file's, or a learnt one."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from regard import library
from regard.data.text import lines
from regard.data.wordpiece import WordPiece
from regard.errors import RegardError
from regard.models.bert import BertConfig
from regard.recipe import Recipe, WordPieceConfig
from regard.training.report import Say

Kind = TypeVar("Kind", bound=library.AnyTokenizer)
SAMPLE = 2_000_000  # texts that a vocabulary is learnt from at most


def of_run(recipe: Recipe, kind: type[Kind], make: Callable[[], Kind]) -> Kind:
    """The tokenizer that a run has, or that of the model it begins with, or one that is made for it."""
    path = Path(recipe.run) / "tokenizer.json"
    if path.exists():
        return kind.load(path)  # type: ignore[return-value]
    if recipe.init:
        (tokenizer,) = library.read(recipe.init).tokenizers
        assert isinstance(tokenizer, kind)
    else:
        tokenizer = make()
    tokenizer.save(path)
    return tokenizer


def wordpiece(recipe: Recipe, texts: Callable[[], Iterable[str]], say: Say) -> WordPiece:
    """The pieces of words that a BERT reads."""
    config = recipe.tokenizer
    assert isinstance(config, WordPieceConfig)

    def make() -> WordPiece:
        if config.vocabulary:
            try:
                return WordPiece.from_vocabulary(list(lines(Path(config.vocabulary))), lowercase=config.lowercase)
            except RegardError as error:
                raise RegardError(f"{config.vocabulary}: {error}") from None
        say(f"learning a vocabulary of {config.vocab_size:,} tokens")
        return WordPiece.train(config.vocab_size, islice(texts(), SAMPLE), lowercase=config.lowercase)

    return of_run(recipe, WordPiece, make)


def longest(model: BertConfig, recipe: Recipe, asked: int) -> int:
    """The most tokens of a text: as many as are asked for, as far as a model to begin with can take them."""
    return min(asked, model.context) if recipe.init else asked


def fitted(model: BertConfig, tokenizer: WordPiece, recipe: Recipe) -> BertConfig:
    """A model's config with the vocabulary that its tokenizer really has; one to begin with has its own."""
    return model if recipe.init else replace(model, vocab_size=tokenizer.vocab_size)
