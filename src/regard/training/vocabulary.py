"""The pieces of words that a BERT reads: its own, those of the model it begins with, a file's, or learnt ones."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from regard import library
from regard.data.text import lines
from regard.data.wordpiece import WordPiece
from regard.models.bert import BertConfig
from regard.recipe import Recipe, WordPieceConfig
from regard.training.report import Say

SAMPLE = 2_000_000  # texts that a vocabulary is learnt from at most


def wordpiece(recipe: Recipe, texts: Callable[[], Iterable[str]], say: Say) -> WordPiece:
    """The tokenizer of a run."""
    path, config = Path(recipe.run) / "tokenizer.json", recipe.tokenizer
    assert isinstance(config, WordPieceConfig)
    if path.exists():
        return WordPiece.load(path)
    if recipe.init:
        (tokenizer,) = library.read(recipe.init).tokenizers
        assert isinstance(tokenizer, WordPiece)
    elif config.vocabulary:
        try:
            tokenizer = WordPiece.from_vocabulary(list(lines(Path(config.vocabulary))), lowercase=config.lowercase)
        except ValueError as error:
            raise ValueError(f"{config.vocabulary}: {error}") from None
    else:
        say(f"learning a vocabulary of {config.vocab_size:,} tokens")
        tokenizer = WordPiece.train(config.vocab_size, islice(texts(), SAMPLE), lowercase=config.lowercase)
    tokenizer.save(path)
    return tokenizer


def fitted(model: BertConfig, tokenizer: WordPiece, recipe: Recipe) -> BertConfig:
    """A model's config with the vocabulary that its tokenizer really has; one to begin with has its own."""
    return model if recipe.init else replace(model, vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad)
