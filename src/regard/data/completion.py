"""What a language model learns from: windows of a running text, and at each token the one that comes next.

    tokens  to  be  or  not
    next    be  or  not to

The text is encoded once, into a folder: `tokens.bin` holds all tokens one after the other. An epoch lays windows over
it side by side, from another token each time, so that hardly a token is left out, none is asked for twice, and the
windows are never the same.
"""

import json
import re
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
from regard.config import Config
from regard.data.batches import IGNORED, Batch, Indices, SameEachEpoch
from regard.data.corpus import cached, mapped
from regard.data.sequences import MaxLength
from regard.data.text import Names, found, running
from regard.errors import RegardError

Tokens = npt.NDArray[np.uint32]
TRAINED = 0.9  # the share of a text that is not kept to validate with
VALID_TOKENS = 200_000  # that are validated with at most
PIECE = 50_000  # characters that are encoded at a time
AT_ONCE = 16  # pieces


class FileSlice(NamedTuple):
    """The characters of a file from one place to another."""

    path: Path
    begin: int
    end: int

    def read(self) -> Iterator[str]:
        """The text, a line at a time."""
        at = 0
        for line in running(self.path):
            if part := line[max(0, self.begin - at) : max(0, self.end - at)]:
                yield part
            at += len(line)

    def pieces(self) -> Iterator[str]:
        """The text, in pieces that are tokenized each for itself."""
        return pieces(self.read())


@dataclass(frozen=True, kw_only=True)
class TextConfig(Config):
    """Text of any kind, to learn to go on with."""

    renamed: ClassVar = {"longest": "max_length"}
    kind: Literal["text"] = "text"
    text: Names
    """Training text: files, folders of `.txt` files, or patterns such as `books/*.txt`; one or a list."""
    valid: Names | None = None
    """Validation text, written like `text`; without it, the last tenth of the training text is held out: of all files
    together, in their order, by characters. A file that is among both is not trained on."""
    max_length: MaxLength | None = None
    """Window length in tokens; without it, the model's context."""

    def parts(self) -> tuple[list[FileSlice], list[FileSlice]]:
        """What to train on, and what to validate with; none is empty."""
        valid = [] if self.valid is None else _whole(found(self.valid))
        kept = {part.path.resolve() for part in valid}
        train = _whole([path for path in found(self.text) if path.resolve() not in kept])
        return (train, valid) if self.valid is not None else _cut(train)


def _whole(paths: Sequence[Path]) -> list[FileSlice]:
    parts = (FileSlice(path, 0, sum(map(len, running(path)))) for path in paths)
    return [part for part in parts if part.end]


def _cut(files: Sequence[FileSlice]) -> tuple[list[FileSlice], list[FileSlice]]:
    """All but the last tenth, and the last tenth."""
    left, train, valid = int(TRAINED * sum(file.end for file in files)), [], []
    for path, begin, end in files:
        middle = min(left, end)
        train.append(FileSlice(path, begin, middle))
        valid.append(FileSlice(path, middle, end))
        left -= middle
    return [part for part in train if part.begin < part.end], [part for part in valid if part.begin < part.end]


# between a word and the space after it, which neither characters nor the pattern of GPT-2 put into one token
_SEAM = re.compile(r"(?<=\S)(?=[ \n])")


def pieces(text: Iterable[str]) -> Iterator[str]:
    """A text, given a few lines at a time, in pieces whose tokens, one after the other, are those of the whole."""
    rest, searched = "", 0
    for line in text:
        rest += line
        begin = 0
        while seam := _SEAM.search(rest, max(begin + PIECE, searched)):
            yield rest[begin : seam.start()]
            begin = seam.start()
        # the last character may yet turn out to stand before a seam
        rest, searched = rest[begin:], max(0, len(rest) - begin - 1)
    if rest:
        yield rest


def tokenized(text: Iterable[str], tokenizer: LosslessTokenizer) -> Iterator[list[int]]:
    """The tokens of a text that is given in pieces, some at a time."""
    iterator = iter(text)
    while some := list(islice(iterator, AT_ONCE)):
        yield from tokenizer.encode(some)


def encoded(parts: Sequence[FileSlice], key: str, tokenizer: LosslessTokenizer, cache: Path) -> Tokens:
    """The tokens of some text, with the tokenizer's `begin` between files: from the cache, or else made there.

    Args:
        key: a hash of the contents of the files.
    """
    places = [(part.begin, part.end) for part in parts]
    recipe = ["text", 2, key, places, tokenizer.to_json()]  # 2: the version of the format
    return cached(cache, recipe, lambda folder: _encode(parts, tokenizer, folder), _opened)


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
        raise RegardError(f"{folder}: damaged, it is not as long as it should be")
    return tokens


@dataclass(frozen=True)
class WindowBatch(Batch):
    """Windows of a text, and the token that comes next at each place."""

    targets: ClassVar = {"next_BT": IGNORED}
    tokens_BT: Tensor
    next_BT: Tensor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return (self.tokens_BT,)


class FixedWindows(SameEachEpoch):
    """Windows that begin at these tokens of a text."""

    def __init__(self, tokens: Tokens, context: int, begins: Indices) -> None:
        self.tokens, self.context, self.begins = tokens, context, begins
        self.lengths = np.full((len(begins), 1), context, np.int32)

    def fetch(self, indices: Indices) -> WindowBatch:
        """The windows of these numbers."""
        places = self.begins[indices, None] + np.arange(self.context + 1)
        tokens_BT = torch.from_numpy(self.tokens[places].astype(np.int64))
        return WindowBatch(tokens_BT[:, :-1], tokens_BT[:, 1:])


class Windows:
    """All of a text in windows, which begin elsewhere in each epoch.

    Args:
        source: what the text is called in errors.
    """

    def __init__(self, tokens: Tokens, context: int, seed: int, source: str = "the text") -> None:
        self.tokens, self.seed, self.max_length = tokens, seed, context
        _expect_one(tokens, context, source)

    def epoch(self, number: int) -> FixedWindows:
        """Windows side by side, from one of the first tokens on to the end of the text."""
        context, last = self.max_length, len(self.tokens) - self.max_length
        first = np.random.default_rng([self.seed, number]).integers(min(context, last))
        return FixedWindows(self.tokens, context, np.arange(first, last, context))


def spread(tokens: Tokens, context: int, most: int = VALID_TOKENS, source: str = "the text") -> FixedWindows:
    """Windows from all over a text, with at most so many tokens, or one window."""
    _expect_one(tokens, context, source)
    begins = np.arange(0, len(tokens) - context, context)
    count = min(len(begins), max(1, most // context))
    return FixedWindows(tokens, context, begins[np.arange(count) * len(begins) // count])


def _expect_one(tokens: Tokens, context: int, source: str) -> None:
    if len(tokens) <= context:
        raise RegardError(
            f"{source} has {len(tokens):,} tokens, fewer than a window of {context:,} and the token after it; "
            f"give more text, or lower data.max_length"
        )
