"""Sources of sentence pairs: your own files, or generated dates. Each kind of source is a config."""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from regard.config import Config, ConfigError, FilePath, Positive, Rate, parse
from regard.data.corpus import file_hash
from regard.data.dates import dates
from regard.data.text import existing, pairs
from regard.errors import RegardError

Pairs = Iterable[tuple[str, str]]


class PairSource(NamedTuple):
    """A function that reads the pairs, a hash of everything they depend on, and their sampling weight."""

    read: Callable[[], Pairs]
    key: str
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Files(Config):
    """Sentence pairs in files, plain or `.gz`."""

    path: FilePath
    """TSV file with source and target in its first two columns; or, with `target`, a file of source lines."""
    target: FilePath | None = None
    """File of target lines, one for each line of `path`."""
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Sampling weight: how often each pair occurs in an epoch; with 0.5, half of the pairs are sampled."""

    def paths(self) -> list[Path]:
        """The files, which must exist."""
        return [existing(name) for name in (self.path, self.target) if name is not None]


def _files(value: Any) -> Any:
    """Accepts a path instead of a table, and a single source instead of a list."""
    if not isinstance(value, str | list | tuple | dict | Files):
        raise RegardError("give a path, a table with path and target, or a list of these")
    found, problems = [], []
    for index, item in enumerate(value if isinstance(value, list | tuple) else [value]):
        try:
            found.append(
                item if isinstance(item, Files) else parse(Files, item if isinstance(item, dict) else {"path": item})
            )
        except ConfigError as error:
            problems += [problem.within(str(index)) for problem in error.problems]
    if problems:
        raise ConfigError(problems)
    return tuple(found)


FileList = Annotated[
    tuple[Files, ...], BeforeValidator(_files, json_schema_input_type=str | Files | tuple[str | Files, ...])
]


@dataclass(frozen=True, kw_only=True)
class ParallelConfig(Config):
    """Sentence pairs from your own files."""

    renamed: ClassVar = {"longest": "max_length"}
    kind: Literal["parallel"] = "parallel"
    train: FileList
    """Training files: a path, a table with `path` and `target`, or a list of these."""
    valid: FileList = ()
    """Validation files, in the same form as `train`; default: `hold_out` pairs of the first training source."""
    hold_out: Positive = 1000
    """Maximum number of training pairs held out for validation if `valid` is not given; at most 5 % of them."""
    max_length: Positive = 128
    """Maximum length in tokens; pairs that are longer on either side are dropped."""
    augment: Rate = 0.0
    """Data augmentation: fraction of the pairs that are repeated with the source in lower case and without its final
    `.`, `?` or `!`."""

    def parts(self) -> list[PairSource]:
        """The training sources."""
        held_out = frozenset(source for source, _ in self._held_out()) if not self.valid else frozenset()
        return [self._part(files, held_out) for files in self.train]

    def _part(self, files: Files, held_out: frozenset[str]) -> PairSource:
        paths = files.paths()
        left_out = hashlib.sha256(json.dumps(sorted(held_out)).encode()).hexdigest()
        key = f"{file_hash(*paths)} without {left_out} {self.augment}"
        return PairSource(lambda: self._read(paths, held_out), key, files.weight)

    def _read(self, paths: list[Path], held_out: frozenset[str]) -> Iterator[tuple[str, str]]:
        for source, target in pairs(*paths):
            if source in held_out:
                continue
            yield source, target
            # selected by checksum, so that they are always the same pairs
            if zlib.crc32(source.encode()) < self.augment * 2**32:
                yield source.lower().rstrip(".?! "), target

    def valid_parts(self) -> list[PairSource]:
        """The validation sources."""
        if self.valid:
            return [PairSource(partial(pairs, *files.paths()), file_hash(*files.paths())) for files in self.valid]
        return [PairSource(self._held_out, f"{file_hash(*self.train[0].paths())} held out {self.hold_out}")]

    def excluded(self) -> int:
        """The number of pairs that are in neither set, because a held-out pair has the same source."""
        held_out = self._held_out()
        sources = {source for source, _ in held_out}
        same = sum(source in sources for files in self.train for source, _ in pairs(*files.paths()))
        return same - len(held_out)

    def _held_out(self) -> list[tuple[str, str]]:
        """Every n-th pair of the first source, at most 5 % of it."""
        paths = self.train[0].paths()
        count = sum(1 for _ in pairs(*paths))
        if not count:
            raise RegardError(f"{paths[0]}: contains no sentence pairs; give a file with at least one")
        step = max(20, -(-count // self.hold_out))
        return list(islice(pairs(*paths), min(step // 2, count // 2), None, step))


@dataclass(frozen=True, kw_only=True)
class DatesConfig(Config):
    """Dates, times and durations, generated on the fly."""

    renamed: ClassVar = {"longest": "max_length"}
    kind: Literal["dates"] = "dates"
    source: str = "en"
    """Language of the source, as a locale code such as `en`."""
    target: str = "es"
    """Language of the target, as a locale code such as `es`."""
    pairs: Positive = 20_000
    """Number of training pairs that are generated."""
    max_length: Positive = 128
    """Maximum length in tokens; pairs that are longer on either side are dropped."""

    def parts(self) -> list[PairSource]:
        """The training sources."""
        return [self._part(self.pairs, seed=1, unseen=False)]

    def valid_parts(self) -> list[PairSource]:
        """The validation source: 1,000 dates of held-out years."""
        return [self._part(1000, seed=2, unseen=True)]

    def _part(self, count: int, seed: int, unseen: bool) -> PairSource:
        key = f"dates {self.source} {self.target} {count} {seed} {unseen} babel {version('babel')}"
        return PairSource(lambda: islice(dates(self.source, self.target, seed, unseen), count), key)
