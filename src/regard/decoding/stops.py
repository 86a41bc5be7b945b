"""Stop strings: a text ends before the first one, which may span several tokens."""

from collections.abc import Sequence

from regard.errors import RegardError


def stop_bytes(texts: str | Sequence[str]) -> list[bytes]:
    """One stop string or several, as bytes."""
    texts = [texts] if isinstance(texts, str) else texts
    if "" in texts:
        raise RegardError("a stop string is empty; give at least one character")
    return [text.encode("utf-8", "replace") for text in texts]


def before_stop(raw: bytes, stops: Sequence[bytes]) -> bytes:
    """The text before the first stop string."""
    return raw[: min((raw.index(stop) for stop in stops if stop in raw), default=len(raw))]


def partial_stop_length(raw: bytes, stops: Sequence[bytes]) -> int:
    """The number of bytes at the end that may be the beginning of a stop string."""
    return max((n for stop in stops for n in range(1, len(stop)) if raw.endswith(stop[:n])), default=0)
