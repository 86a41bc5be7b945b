"""Texts for learning a vocabulary, whose time grows with the square of the longest word, and memory with the text.

Ordinary texts are unchanged. Very long words are divided, such as base64 or text without spaces, and very long texts.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from tokenizers import Tokenizer as Engine
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

MAX_WORD = 1000
"""Maximum number of characters of a word."""
MAX_TEXT = 100_000
"""Number of characters after which a text is divided at the next space."""
# Whether a word is long, its tokenizer decides; that takes time, so first a cheap search for texts that may have one.
# It looks only behind a change from spaces to others or back, so that its time is linear.
_MAYBE_LONG = re.compile(rf"(?<![^ \t\r\n])[^ \t\r\n]{{{MAX_WORD},}}|(?<![ \t\r\n])[ \t\r\n]{{{MAX_WORD},}}")
_SPACE = re.compile(r"(?<=\S)(?=\s)")


def divided(texts: Iterable[str], engine: Engine) -> Iterator[str]:
    """The texts, those with long words divided inside them.

    Args:
        engine: its normalizer and its pre-tokenizer determine what a word is.
    """
    # now, because the library locks an engine while it learns from an iterator
    normalizer, pre_tokenizer = engine.normalizer, engine.pre_tokenizer
    return chain.from_iterable(
        _with_short_words(part, normalizer, pre_tokenizer) if _MAYBE_LONG.search(part) else (part,)
        for part in chain.from_iterable(map(_parts, texts))
    )


def _parts(text: str) -> Iterator[str]:
    begin = 0
    while len(text) - begin > MAX_TEXT:
        space = _SPACE.search(text, begin + MAX_TEXT, begin + 2 * MAX_TEXT)
        end = space.start() if space else begin + MAX_TEXT
        yield text[begin:end]
        begin = end
    yield text[begin:]


def _with_short_words(text: str, normalizer: Normalizer | None, pre_tokenizer: PreTokenizer) -> Iterator[str]:
    normalized = text if normalizer is None else normalizer.normalize_str(text)
    spans = [span for _, span in pre_tokenizer.pre_tokenize_str(normalized)]
    cuts = [cut for begin, end in spans for cut in range(begin + MAX_WORD, end, MAX_WORD)]
    if not cuts:
        yield text
        return
    for begin, end in zip([0, *cuts], [*cuts, len(normalized)], strict=True):
        yield normalized[begin:end]
