"""Checks tokenizer files before the library `tokenizers` reads them.

A file may come from anywhere, and the library applies whatever it contains: a step that turns each letter into a
million letters, or a padding to a billion tokens. So only steps that tokenizers here consist of are accepted.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regard.errors import RegardError

MAX_TOKEN_LENGTH = 10_000
"""Maximum number of characters of a token."""
MAX_STEPS = 8
MAX_REPLACEMENT = 100  # bytes that may replace a character; in Unicode's normal forms, at most 33
MAX_UNKNOWN_LENGTH = 1000  # maximum of WordPiece's limit for words, as its time grows with the square of their length
# by type, the values that its settings may have, apart from true, false and null
STEPS: dict[str, dict[str, tuple[Any, ...]]] = {
    **{kind: {} for kind in ("NFC", "BertNormalizer", "BertPreTokenizer", "Digits", "ByteLevel", "Fuse")},
    "Prepend": {"prepend": (" ",)},
    "Replace": {"pattern": ({"Regex": "^ +| +$"}, {"Regex": " {2,}"}, {"String": "\0"}), "content": ("", " ")},
    "Split": {"pattern": ({"Regex": r"[\s\S]"},), "behavior": ("Isolated",)},
    "Metaspace": {"replacement": ("▁",), "prepend_scheme": ("always",)},
    "Strip": {"content": (" ",), "start": (0, 1), "stop": (0, 1)},
    "WordPiece": {"prefix": ("##",)},
}
SEQUENCES = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}


def expect_harmless(data: Any) -> None:
    """Raises `RegardError` if a tokenizer file contains anything that tokenizers here do not consist of."""
    model = data.get("model") if isinstance(data, dict) else None
    if not isinstance(model, dict):
        raise RegardError("it has no model")
    for part, inner in SEQUENCES.items():
        for step in _steps(data.get(part), inner):
            _expect_known(part, step)
    longest = model.get("max_input_chars_per_word", 0)
    if model.get("dropout") is not None or type(longest) is not int or longest > MAX_UNKNOWN_LENGTH:
        raise RegardError(f"its model drops merges at random, or splits words longer than {MAX_UNKNOWN_LENGTH}")
    expect_short(_tokens(model.get("vocab")))
    expect_short(_tokens([[each.get("content")] for each in data.get("added_tokens") or () if isinstance(each, dict)]))


def expect_short(tokens: Iterable[str], source: str = "the vocabulary") -> None:
    """Raises `RegardError` if a token is so long that the library may fail."""
    if (length := max(map(len, tokens), default=0)) > MAX_TOKEN_LENGTH:
        raise RegardError(f"{source}: a token has {length:,} characters; at most {MAX_TOKEN_LENGTH:,} are supported")


def expect_short_replacements(charsmap: bytes) -> None:
    """Raises `RegardError` if a normalization of SentencePiece replaces a character by a very long text."""
    replacements = charsmap[4 + int.from_bytes(charsmap[:4], "little") :].split(b"\0")
    if (length := max(map(len, replacements))) > MAX_REPLACEMENT:
        raise RegardError(
            f"its normalization replaces a character by {length:,} bytes; at most {MAX_REPLACEMENT} can be"
        )


def _steps(step: Any, inner: str) -> Iterator[Any]:
    """The steps of a sequence, which may be inside another one."""
    if not isinstance(step, dict) or step.get("type") != "Sequence":
        yield from () if step is None else (step,)
        return
    steps = step.get(inner)
    if not isinstance(steps, list) or len(steps) > MAX_STEPS:
        raise RegardError(f"its {inner} are not a list of at most {MAX_STEPS} steps")
    for each in steps:
        yield from _steps(each, inner)


def _expect_known(part: str, step: Any) -> None:
    kind = step.get("type") if isinstance(step, dict) else step
    if kind == "Precompiled" and part == "normalizer":
        try:
            charsmap = base64.b64decode(step.get("precompiled_charsmap"), validate=True)
        except (ValueError, TypeError):
            raise RegardError("its precompiled_charsmap is damaged") from None
        expect_short_replacements(charsmap)
        return
    if not isinstance(kind, str) or kind not in STEPS:
        raise RegardError(f"its {part} {str(kind)[:40]!r} is not supported; supported: {', '.join(STEPS)}")
    for key, value in step.items():
        if key != "type" and not isinstance(value, bool | None) and value not in STEPS[kind].get(key, ()):
            raise RegardError(f"its {part} {kind} has {key} = {str(value)[:40]!r}, which is not supported")


def _tokens(vocabulary: Any) -> list[str]:
    """The tokens of a vocabulary: an object with their ids, or a list of tokens with scores."""
    found: list[Any] = list(vocabulary) if isinstance(vocabulary, Mapping | list) else [None]
    tokens = [each[0] if isinstance(each, list) and each else each for each in found]
    if not all(isinstance(token, str) for token in tokens):
        raise RegardError("its vocabulary is not a list of tokens")
    return tokens
