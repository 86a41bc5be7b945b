"""Training data of a language model: windows of a text, with the next token as the target at each position.

    tokens  to  be  or  not
    next    be  or  not to

The text is encoded once, into a folder: `tokens.bin` holds all tokens one after the other. An epoch splits it into
adjacent windows that start at a random offset. Almost every token is used, no token is a target twice, and
the windows differ between epochs.
"""

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.codecs.gpt2 import LosslessTokenizer
from regard.codecs.interface import Say
from regard.config import Config
from regard.counts import counted
from regard.data.batches import IGNORED, Batch, Indices, SameEachEpoch
from regard.data.cache import cached
from regard.data.corpus import mapped
from regard.data.sequences import MaxLength
from regard.data.text import Names, found, lines_with_ends
from regard.errors import RegardError

Tokens = npt.NDArray[np.uint32]
TRAIN_FRACTION = 0.9  # fraction of a text that is used for training; the rest is for validation
VALID_TOKENS = 200_000  # maximum number of validation tokens
CHUNK = 50_000  # characters that are encoded at once
CHUNKS_PER_CALL = 16  # chunks per call of the tokenizer


class FileSlice(NamedTuple):
    """The characters of a file from `begin` to `end`."""

    path: Path
    begin: int
    end: int

    def read(self) -> Iterator[str]:
        """The text, a line at a time."""
        at = 0
        for line in lines_with_ends(self.path):
            if part := line[max(0, self.begin - at) : max(0, self.end - at)]:
                yield part
            at += len(line)

    def pieces(self) -> Iterator[str]:
        """The text in chunks that are tokenized separately."""
        return pieces(self.read())


@dataclass(frozen=True, kw_only=True)
class TextConfig(Config):
    """Plain text for training a language model."""

    renamed: ClassVar = {"longest": "max_length"}
    kind: Literal["text"] = "text"
    text: Names
    """Training text: files, folders of `.txt` files, or patterns such as `books/*.txt`; one or a list."""
    valid: Names | None = None
    """Validation text, in the same form as `text`. Default: the last tenth of the training text, in characters, counted
    over all files in order. A file that is in both is used for validation only."""
    max_length: MaxLength | None = None
    """Window length in tokens; default: the context of the model."""

    def parts(self) -> tuple[list[FileSlice], list[FileSlice]]:
        """The training slices and the validation slices; none is empty."""
        valid = [] if self.valid is None else _whole(found(self.valid))
        kept = {part.path.resolve() for part in valid}
        train = _whole([path for path in found(self.text) if path.resolve() not in kept])
        return (train, valid) if self.valid is not None else _split(train)


def _whole(paths: Sequence[Path]) -> list[FileSlice]:
    parts = (FileSlice(path, 0, sum(map(len, lines_with_ends(path)))) for path in paths)
    return [part for part in parts if part.end]


def _split(files: Sequence[FileSlice]) -> tuple[list[FileSlice], list[FileSlice]]:
    """Splits off the last tenth for validation."""
    left, train, valid = int(TRAIN_FRACTION * sum(file.end for file in files)), [], []
    for path, begin, end in files:
        middle = min(left, end)
        train.append(FileSlice(path, begin, middle))
        valid.append(FileSlice(path, middle, end))
        left -= middle
    return [part for part in train if part.begin < part.end], [part for part in valid if part.begin < part.end]


# between a word and the whitespace after it; neither character tokens nor those of GPT-2's pattern span it
_BOUNDARY = re.compile(r"(?<=\S)(?=[ \n])")


def pieces(text: Iterable[str]) -> Iterator[str]:
    """Splits a text, given a few lines at a time, into chunks whose tokens joined are the tokens of the whole."""
    rest, searched = "", 0
    for line in text:
        rest += line
        begin = 0
        while boundary := _BOUNDARY.search(rest, max(begin + CHUNK, searched)):
            yield rest[begin : boundary.start()]
            begin = boundary.start()
        # the next line decides whether a boundary follows the last character
        rest, searched = rest[begin:], max(0, len(rest) - begin - 1)
    if rest:
        yield rest


def tokenized(text: Iterable[str], tokenizer: LosslessTokenizer) -> Iterator[list[int]]:
    """The tokens of a text that is given in chunks, a few chunks at a time."""
    iterator = iter(text)
    while some := list(islice(iterator, CHUNKS_PER_CALL)):
        yield from tokenizer.encode(some)


def encoded(
    parts: Sequence[FileSlice], key: str, tokenizer: LosslessTokenizer, cache: Path, say: Say = warnings.warn
) -> Tokens:
    """The tokens of text, with the tokenizer's `begin` between files; encoded once, then read from the cache.

    Args:
        key: hash of the contents of the files.
        say: reports that the cache is damaged.
    """
    places = [(part.begin, part.end) for part in parts]
    recipe = ["text", 2, key, places, tokenizer.to_json()]  # 2: the version of the format
    return cached(cache, "text", recipe, lambda folder: _encode(parts, tokenizer, folder), _opened, say)


def _encode(parts: Sequence[FileSlice], tokenizer: LosslessTokenizer, folder: Path) -> None:
    count = 0
    with (folder / "tokens.bin").open("wb") as file:
        for number, part in enumerate(parts):
            if number:
                count += file.write(np.uint32(tokenizer.begin).tobytes()) // 4
            for tokens in tokenized(part.pieces(), tokenizer):
                count += file.write(np.array(tokens, np.uint32).tobytes()) // 4
    (folder / "about.json").write_text(json.dumps({"tokens": count}), "utf-8")


def _opened(folder: Path) -> Tokens:
    tokens = mapped(folder / "tokens.bin")
    if json.loads((folder / "about.json").read_text("utf-8")) != {"tokens": len(tokens)}:
        raise RegardError(f"{folder}: damaged, tokens.bin has the wrong length")
    return tokens


@dataclass(frozen=True)
class WindowBatch(Batch):
    """Windows of a text, and the next token at each position."""

    targets: ClassVar = {"next_BT": IGNORED}
    tokens_BT: Tensor
    next_BT: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return (self.tokens_BT,)


class FixedWindows(SameEachEpoch):
    """Windows of a text that begin at given positions."""

    def __init__(self, tokens: Tokens, context: int, begins: Indices) -> None:
        self.tokens, self.context, self.begins = tokens, context, begins
        self.lengths = np.full((len(begins), 1), context, np.int32)

    def fetch(self, indices: Indices) -> WindowBatch:
        """The windows with these indices."""
        places = self.begins[indices, None] + np.arange(self.context + 1)
        tokens_BT = torch.from_numpy(self.tokens[places].astype(np.int64))
        return WindowBatch(tokens_BT[:, :-1], tokens_BT[:, 1:])


class Windows:
    """Windows of a whole text, with a different offset in each epoch.

    Args:
        source: name of the text in error messages.
    """

    def __init__(self, tokens: Tokens, context: int, seed: int, source: str = "the text") -> None:
        self.tokens, self.seed, self.max_length = tokens, seed, context
        _expect_window(tokens, context, source)

    def epoch(self, number: int) -> FixedWindows:
        """Adjacent windows, from a random offset shorter than a window to the end of the text."""
        context, last = self.max_length, len(self.tokens) - self.max_length
        first = np.random.default_rng([self.seed, number]).integers(min(context, last))
        return FixedWindows(self.tokens, context, np.arange(first, last, context))


def spread(tokens: Tokens, context: int, max_tokens: int = VALID_TOKENS, source: str = "the text") -> FixedWindows:
    """Windows spread evenly over a text, with at most `max_tokens` tokens in total, but at least one window."""
    _expect_window(tokens, context, source)
    begins = np.arange(0, len(tokens) - context, context)
    count = min(len(begins), max(1, max_tokens // context))
    return FixedWindows(tokens, context, begins[np.arange(count) * len(begins) // count])


def _expect_window(tokens: Tokens, context: int, source: str) -> None:
    if len(tokens) <= context:
        raise RegardError(
            f"{source} has {counted(len(tokens), 'token')}, "
            f"but a window of {context:,} and the token after it need more; "
            f"give more text, or lower data.max_length"
        )
