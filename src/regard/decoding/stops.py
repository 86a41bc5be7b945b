"""Stop strings: a text ends before the first of them, which may come in several tokens."""

from collections.abc import Sequence

from regard.errors import RegardError


def stop_bytes(texts: str | Sequence[str]) -> list[bytes]:
    """One stop string, or several, as the bytes to look for."""
    texts = [texts] if isinstance(texts, str) else texts
    if "" in texts:
        raise RegardError("a stop string has at least one character, and one of those given has none")
    return [text.encode("utf-8", "replace") for text in texts]


def before_stop(raw: bytes, stops: Sequence[bytes]) -> bytes:
    """What comes before the first stop string."""
    return raw[: min((raw.index(stop) for stop in stops if stop in raw), default=len(raw))]


def unsure(raw: bytes, stops: Sequence[bytes]) -> int:
    """How many bytes at the end may be the beginning of a stop string."""
    return max((n for stop in stops for n in range(1, len(stop)) if raw.endswith(stop[:n])), default=0)
