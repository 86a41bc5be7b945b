"""Examples in a training file and a validation file, or in a training file of which a part is held out."""

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Config, FilePath, Positive
from regard.counts import counted
from regard.data.corpus import file_hash
from regard.data.text import existing
from regard.errors import RegardError

SHARE = 10  # at most one example in ten is held out
Say = Callable[[str], object]
Labelled = TypeVar("Labelled", bound=tuple[Any, ...])
"""An example: a tuple whose last field is the label, and whose other fields are the text."""


@dataclass(frozen=True, kw_only=True)
class TrainingFiles(Config):
    """Labelled examples in files."""

    kind: str
    """Kind of data, such as `table`."""
    train: FilePath
    """Training file."""
    valid: FilePath | None = None
    """Validation file, in the same format; without it, `hold_out` training examples are held out."""
    hold_out: Positive = 1000
    """Maximum number of training examples held out for validation, where `valid` is not given; never more than a tenth.
    Other examples with the same text are excluded from training."""

    def paths(self) -> list[Path]:
        """The training file, and the validation file if there is one."""
        return [existing(name) for name in (self.train, self.valid) if name is not None]

    def keys(self) -> list[str]:
        """Hashes of everything that the examples depend on."""
        hashes = [file_hash(path) for path in self.paths()]
        return hashes if self.valid is not None else [*hashes, f"held out {self.hold_out}"]

    def read(self, path: Path, say: Say = warnings.warn) -> list[Any]:
        """The examples of a file."""
        raise NotImplementedError

    def parts(self, say: Say) -> tuple[list[Any], list[Any]]:
        """The training examples and the validation examples."""
        parts = [self.read(path, say) for path in self.paths()]
        if self.valid is not None:
            train, valid = parts
            return train, valid
        (examples,) = parts
        train, valid = split(examples, self.hold_out, self.train)
        left = len(examples) - len(train) - len(valid)
        also = f", and {left:,} with the same text excluded from training" if left else ""
        say(f"validation: {counted(len(valid), 'example')} split from training{also}; give others with data.valid")
        return train, valid


def split(examples: Sequence[Labelled], max_count: int, source: str) -> tuple[list[Labelled], list[Labelled]]:
    """Splits off a tenth for validation, at most `max_count` examples; no text is in both parts.

    Args:
        source: name of the examples in error messages.
    """
    if not examples:
        return [], []
    # by a hash of the text, so that the same examples are chosen whatever their order and that of their labels
    order = sorted(range(len(examples)), key=lambda i: _hash(examples[i]))
    chosen = set(order[: max(1, min(max_count, len(examples) // SHARE))])
    texts = {examples[i][:-1] for i in chosen}
    train = [example for example in examples if example[:-1] not in texts]
    if not train:
        raise RegardError(
            f"{source}: none of its examples are left for training when some are held out for validation; "
            f"give more examples, or validation examples with data.valid"
        )
    return train, [example for i, example in enumerate(examples) if i in chosen]


def _hash(example: tuple[Any, ...]) -> bytes:
    return hashlib.blake2b(json.dumps(example[:-1]).encode(), digest_size=8).digest()
