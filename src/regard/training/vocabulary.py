"""The pieces of words that a BERT reads: its own, those of the model it begins with, a file's, or learnt ones."""

from collections.abc import Callable, Iterable
from pathlib import Path

from regard import library
from regard.data.text import lines
from regard.data.wordpiece import WordPiece
from regard.recipe import Recipe, WordPieceConfig
from regard.training.report import Say


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
        tokenizer = WordPiece.from_vocabulary(list(lines(Path(config.vocabulary))), lowercase=config.lowercase)
    else:
        say(f"learning a vocabulary of {config.vocab_size:,} tokens")
        tokenizer = WordPiece.train(config.vocab_size, texts(), lowercase=config.lowercase)
    tokenizer.save(path)
    return tokenizer
