"""Sentence pairs as token ids on disk: encoded once, then cached under the hash of the data and tokenizers.

A corpus is a folder: `source.bin` and `target.bin` hold all token ids one after the other, `source.npy` and
`target.npy` hold the offset of each sentence, `about.json` counts the pairs that were kept and dropped. The files are
memory-mapped, so only the sentences of the current batch are read.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.codecs.interface import Say
from regard.codecs.subword import SubwordTokenizer
from regard.data.cache import cached
from regard.errors import RegardError

Pairs = Iterable[tuple[str, str]]
CHUNK = 10_000
MAX_CHARACTERS = 50  # per token; a text with more has more tokens than allowed
SIDES = ("source", "target")


@dataclass(frozen=True)
class CorpusCounts:
    """How many of the pairs that were read are kept or dropped."""

    kept: int
    empty: int
    """Pairs dropped because a side had no text."""
    long: int
    """Pairs dropped because a side had more tokens than the limit."""


class Corpus:
    """Encoded sentence pairs, memory-mapped from a folder."""

    def __init__(self, folder: Path) -> None:
        self.about = CorpusCounts(**json.loads((folder / "about.json").read_text("utf-8")))
        self.begins = {side: np.asarray(np.load(folder / f"{side}.npy", mmap_mode="r")) for side in SIDES}
        self.tokens = {side: mapped(folder / f"{side}.bin") for side in SIDES}
        for side in SIDES:
            if len(self.begins[side]) != self.about.kept + 1 or self.begins[side][-1] != len(self.tokens[side]):
                raise RegardError(f"{folder}: damaged, {side} has the wrong length")

    def __len__(self) -> int:
        return self.about.kept

    def lengths(self, side: str) -> npt.NDArray[np.int32]:
        """The number of tokens of each sentence."""
        return np.diff(self.begins[side]).astype(np.int32)

    def sentence(self, side: str, index: int) -> npt.NDArray[np.uint32]:
        """The tokens of one sentence."""
        begin, end = self.begins[side][index : index + 2]
        return self.tokens[side][begin:end]


def mapped(path: Path) -> npt.NDArray[np.uint32]:
    """The token ids of a file, memory-mapped."""
    # an empty file cannot be memory-mapped
    return np.asarray(np.memmap(path, np.uint32, "r")) if path.stat().st_size else np.zeros(0, np.uint32)


def encoded(
    read: Callable[[], Pairs],
    key: str,
    source: SubwordTokenizer,
    target: SubwordTokenizer,
    max_length: int,
    cache: Path,
    say: Say = warnings.warn,
) -> Corpus:
    """The corpus of the pairs that `read` returns; encoded once, then read from the cache.

    Args:
        key: a hash of everything that `read` depends on.
        max_length: pairs with more tokens on either side are dropped.
        say: reports that the cache is damaged.
    """
    recipe = [2, key, source.to_json(), target.to_json(), max_length]  # 2: the version of the format

    def fill(folder: Path) -> None:
        _encode(read(), source, target, max_length, folder)

    return cached(cache, "sentence pairs", recipe, fill, Corpus, say)


def _encode(pairs: Pairs, source: SubwordTokenizer, target: SubwordTokenizer, max_length: int, folder: Path) -> None:
    kept = empty = long = 0
    ends: dict[str, list[npt.NDArray[np.int64]]] = {side: [np.zeros(1, np.int64)] for side in SIDES}
    with (folder / "source.bin").open("wb") as source_file, (folder / "target.bin").open("wb") as target_file:
        for chunk in chunks(pairs, source, target, max_length):
            kept, empty, long = kept + len(chunk.tokens), empty + chunk.empty, long + chunk.long
            for i, (side, file) in enumerate(zip(SIDES, (source_file, target_file), strict=True)):
                lengths = np.array([len(pair[i]) for pair in chunk.tokens], np.int64)
                ends[side].append(ends[side][-1][-1] + np.cumsum(lengths))
                file.write(np.fromiter(chain.from_iterable(pair[i] for pair in chunk.tokens), np.uint32).tobytes())
            for side in SIDES:
                if not len(ends[side][-1]):
                    ends[side].pop()
    for side in SIDES:
        np.save(folder / f"{side}.npy", np.concatenate(ends[side]))
    (folder / "about.json").write_text(json.dumps(asdict(CorpusCounts(kept, empty, long))), "utf-8")


class Chunk(NamedTuple):
    """Kept pairs, their tokens, and the numbers of pairs that were dropped."""

    texts: list[tuple[str, str]]
    tokens: list[tuple[list[int], list[int]]]
    empty: int
    long: int


def chunks(pairs: Pairs, source: SubwordTokenizer, target: SubwordTokenizer, max_length: int) -> Iterator[Chunk]:
    """All pairs, `CHUNK` at a time."""
    iterator = iter(pairs)
    while read := list(islice(iterator, CHUNK)):
        full = [(one, other) for one, other in read if one.strip() and other.strip()]
        # texts that are far too long are not encoded, because that takes much memory
        fitting = [pair for pair in full if max(map(len, pair)) <= MAX_CHARACTERS * max_length]
        sides = (source.encode([one for one, _ in fitting]), target.encode([other for _, other in fitting]))
        encoded = zip(fitting, zip(*sides, strict=True), strict=True)
        short = [(texts, tokens) for texts, tokens in encoded if max(map(len, tokens)) <= max_length]
        dropped = len(read) - len(full), len(full) - len(short)
        yield Chunk([texts for texts, _ in short], [tokens for _, tokens in short], *dropped)


def file_hash(*paths: Path) -> str:
    """A hash of the contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
